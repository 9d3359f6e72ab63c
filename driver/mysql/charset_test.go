package mysql_test

import (
	"database/sql"
	"errors"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/mysql"
	"github.com/sqlfence/sqlfence/guard"
)

// SPEC G4, G11: in sjis the bytes 95 5C are one character, and where a text is taken
// for a string to its end the server would find another statement.
func TestG4DataSourceNamesWhoseCharacterSetHidesText(t *testing.T) {
	const server = "user:a?b@tcp(127.0.0.1:1)/app?"
	for _, parameters := range []string{
		"charset=gbk", "charset=utf8mb4,big5", "charset=sjis&collation=sjis_bin", "collation=cp932_japanese_ci", "collation=gb18030_chinese_ci",
		"charset=gb2312", "charset=euckr", "charset=swe7", "charset=utf16", "charset=ucs2", "charset=utf32", "charset=unheard",
		"character_set_client=gbk", "character_set_client=%27sjis%27", "@@session.character_set_client=28", "character_set_client=%40x",
	} {
		_, err := sql.Open(mysql.DriverName, server+parameters)
		var setup *guard.SetupError
		if !errors.Is(err, guard.ErrSetup) || !errors.As(err, &setup) || setup.Remedy == "" {
			t.Errorf("%s: got error %v, want one of the set-up", parameters, err)
		}
	}
	for _, parameters := range []string{
		"", "charset=utf8mb4", "charset=utf8mb4,utf8", "charset=latin1&collation=latin1_bin", "collation=utf8mb4_unicode_ci", "collation=binary",
		"character_set_client=utf8mb4", "autocommit=0", "time_zone=%27%2B09:00%27", "charset=ujis",
	} {
		db, err := sql.Open(mysql.DriverName, server+parameters)
		if err != nil {
			t.Errorf("%s: %v", parameters, err)
			continue
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where no data source name tells, the session is asked.
func TestG4SessionsWhoseCharacterSetHidesText(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		const hidden = "SELECT '\x95\x5c'; DELETE FROM d; -- '"
		several := func(c *gomysql.Config) { c.MultiStatements = true }
		db := like(t, w, func(c *gomysql.Config) {
			several(c)
			w.Want("Charset", c.Apply(gomysql.Charset("sjis", "")), nil)
		})
		stale := w.With(drivertest.Stale)
		for _, text := range []string{hidden, `DELETE FROM d`} {
			w.Want("a connector's: "+text, second(db.ExecContext(stale, text)), guard.ErrSetup)
		}
		for _, text := range []string{`PREPARE c FROM 'SET NAMES sjis'; EXECUTE c`, `SET NAMES sjis`, `SET character_set_client = sjis`} {
			c := w.Conn(like(t, w, several))
			w.Want("before", second(c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), nil)
			w.Must(c, text)
			w.Want("behind "+text, second(c.ExecContext(stale, hidden)), guard.ErrSetup)
			w.Want("behind "+text, second(c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), guard.ErrSetup)
			w.Must(c, `SET NAMES utf8mb4`)
			w.Want("mended", second(c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)), nil)
			w.Want("Close", c.Close(), nil)
		}
		w.IsUntouched()
		// The control: the server finds two statements.
		bare, err := gomysql.NewConnector(config(t, w, func(c *gomysql.Config) {
			several(c)
			w.Want("Charset", c.Apply(gomysql.Charset("sjis", "")), nil)
		}))
		w.Want("NewConnector", err, nil)
		control := sql.OpenDB(bare)
		w.Must(control, hidden)
		w.Want("Close", control.Close(), nil)
		if got := w.Table(); got != "" {
			t.Errorf("the table reads %q: the text hides nothing", got)
		}
	})
}
