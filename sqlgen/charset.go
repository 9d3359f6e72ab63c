package sqlgen

import "strings"

// mysqlCharsets are the character sets of MySQL and MariaDB in which every byte below
// 0x80 is the character of ASCII, wherever it stands. In the others (big5, cp932, euckr,
// gb18030, gb2312, gbk, sjis) it may be the second half of one, or is another letter
// (swe7), and the server does not take utf16, utf32 and ucs2 from clients.
var mysqlCharsets = words(`armscii8 ascii binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 eucjpms geostd8 greek hebrew hp8
keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman tis620 ujis utf8 utf8mb3 utf8mb4`)

// SafeCharset reports whether texts that MySQL's or MariaDB's clients send in this
// character set are read by [Analyze] as the server reads them: every byte below 0x80
// is a character of its own. One that is unheard of is not.
func SafeCharset(name string) bool { return mysqlCharsets[strings.ToLower(name)] }
