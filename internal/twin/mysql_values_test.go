package twin_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlfence/sqlfence/sqlgen"
)

// TestMySQLAValueThatCarriesTheFenceIsWrittenAsItWouldBe writes values of all
// kinds into columns of all kinds, bare and with the fence: prepared once and
// executed with values of changing types, and written into the text.
func TestMySQLAValueThatCarriesTheFenceIsWrittenAsItWouldBe(t *testing.T) {
	types := []string{
		"BIGINT", "BIGINT UNSIGNED", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(30,10)", "VARCHAR(40)", "VARCHAR(40) CHARACTER SET latin1", "CHAR(3)", "INT NOT NULL",
		"VARBINARY(40)", "BINARY(5)", "BLOB", "JSON", "BIT(8)", "DATETIME(6)", "TIMESTAMP(3) NULL", "TIME(6)", "DATE", "YEAR", "ENUM('1','a','2')", "SET('1','a','b')",
	}
	args := []any{
		int64(5), int64(-1 << 63), uint64(1<<64 - 1), 1.5, 1e300, 0.1, 1e-7, "1.50", "123456789012345678901234567890.12", "abc", "ü本", "", "a\x00b", []byte{0, 255, '\'', 128}, []byte("abc"), nil, true, false,
		time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC), `{"a":1}`, []byte(`{"a":1}`), "2024-02-30", "12:34:56.5", "1", "007", float32(0.1), "a ",
	}
	literals := []string{
		"0", "007", "18446744073709551615", "99999999999999999999", "1.50", "1.5e0", "1e300", ".5", "1.", "0.1", "1e2", "'abc'", "'1.50'", "'ü本'", "''", "'a''b'", `'a\nb'`, "NULL", "TRUE", "False",
		"'2024-01-02 03:04:05.678'", "20240102030405", "123456", "'{\"a\":1}'", "'a '", "2",
	}
	for name, parameters := range map[string]string{"prepared": "", "interpolated": "?interpolateParams=true", "not strict": "?sql_mode=%27%27", "latin1": "?charset=latin1"} {
		t.Run(name, func(t *testing.T) {
			eachMySQLTwinWith(t, parameters, func(t *testing.T, tw *mysqlTwin) {
				args := args
				for i, column := range types {
					write := func(table string) []string {
						tw.must("CREATE TABLE " + table + " (nr INT AUTO_INCREMENT PRIMARY KEY, x " + column + ")")
						guarded := func(value string) (string, []any) {
							text := "INSERT INTO " + table + " (x) VALUES (" + value + ")"
							if strings.HasPrefix(table, "bare") {
								return text, nil
							}
							p := sqlgen.Analyze(sqlgen.MySQL, text)
							text, err := p.Guarded(1)
							if err != nil || p.At != 0 {
								t.Fatal(p.At, err)
							}
							return text, []any{hex("job"), int64(7), int64(70)}
						}
						var seen []string
						note := func(what string, _ sql.Result, err error) {
							seen = append(seen, strings.ReplaceAll(fmt.Sprintf("%s into %s: %v", what, column, err), table, "TABLE"))
						}
						text, token := guarded("?")
						if tw.server.Engine == "MySQL" && name != "interpolated" {
							args = nil // so there the driver checks first: see [sqlgen.Plan.WrapsParam]
						}
						if name == "interpolated" {
							for _, arg := range args {
								res, err := tw.conn.ExecContext(context.Background(), text, append(slices.Clone(token), arg)...)
								note(fmt.Sprintf("%T %q", arg, fmt.Sprint(arg)), res, err)
							}
						} else {
							stmt, err := tw.conn.PrepareContext(context.Background(), text)
							if err != nil {
								t.Fatal(err)
							}
							defer stmt.Close()
							for j := range args {
								arg := args[(j*7+i)%len(args)]
								res, err := stmt.Exec(append(slices.Clone(token), arg)...)
								note(fmt.Sprintf("%T %q", arg, fmt.Sprint(arg)), res, err)
							}
						}
						for _, literal := range literals {
							text, token := guarded(literal)
							res, err := tw.conn.ExecContext(context.Background(), text, token...)
							note(literal, res, err)
						}
						return append(seen, strings.Split(tw.query("SELECT nr, x, HEX(x) FROM "+table+" ORDER BY nr"), "\n")...)
					}
					bare, fenced := write(fmt.Sprintf("bare%02d", i)), write(fmt.Sprintf("with%02d", i))
					for j := range bare {
						if len(fenced) != len(bare) || fenced[j] != bare[j] {
							t.Errorf("%s\nwith the fence\n%s", bare[j], fenced[min(j, len(fenced)-1)])
							break
						}
					}
				}
			})
		})
	}
}
