package sqlgen

import "strings"

// Option says what is known of the sessions that texts are executed in.
type Option func(*options)

type options struct {
	database        string // MySQL: the qualifier of injected names, quoted and with its dot; or ""
	standardStrings bool
	safeEncoding    bool
	untilExpiry     bool
}

func newOptions(opts []Option) (o options) {
	for _, set := range opts {
		set(&o)
	}
	return o
}

// Database names the database that holds the fence, on MySQL: with it, USE does
// not move the fence to another one. Without it, or with "", it is that of the
// session. Other engines ignore it: their fence has a place of its own.
func Database(name string) Option {
	return func(o *options) {
		o.database = ""
		if name != "" {
			o.database = "`" + strings.ReplaceAll(name, "`", "``") + "`."
		}
	}
}

// UntilExpiry has the check refuse a token whose lease has expired, too
// (PostgreSQL). Other engines ignore it: see [LeaseSQL].
func UntilExpiry() Option {
	return func(o *options) { o.untilExpiry = true }
}

// StandardStrings says that PostgreSQL's sessions run with
// standard_conforming_strings on, for as long as the texts are executed.
// Without it, a backslash before a quote in a plain string is refused, because
// the setting decides where that string ends. Other engines ignore it.
func StandardStrings() Option {
	return func(o *options) { o.standardStrings = true }
}

// SafeEncoding says that PostgreSQL's sessions run with a client_encoding in
// which every byte below 0x80 is a character of its own: UTF8 is one, SJIS, BIG5,
// GBK, UHC, JOHAB and GB18030 are not. Without it, a backslash that decides
// where a string ends, a bracket or an operator directly behind a byte above
// 0x7F is refused, because it may be the second half of a character. Other
// engines ignore it.
func SafeEncoding() Option {
	return func(o *options) { o.safeEncoding = true }
}
