package mysql_test

import (
	"database/sql"
	"errors"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
)

// A prepared statement is executed as it was read when it was prepared: SPEC G4, G9. In
// gbk the last byte of that character and the quote behind it are one, and the name
// goes on.
func TestG4PreparedUnderAnotherCharacterSet(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		const hidden = "WITH `你` AS (SELECT 1) SELECT 1 -- ` AS (SELECT 1) DELETE FROM d"
		for name, set := range map[string]string{"seen": `SET NAMES gbk`, "hidden": `PREPARE c FROM 'SET NAMES gbk'; EXECUTE c`} {
			c := w.Conn(like(t, w, func(c *gomysql.Config) { c.MultiStatements = true }))
			w.Must(c, set)
			s, err := c.PrepareContext(t.Context(), hidden)
			if number(err) == 1064 {
				return // before version 12, MariaDB knows no DELETE behind WITH
			}
			w.Want("Prepare", err, nil)
			w.Must(c, `SET NAMES utf8mb4`)
			w.Want("control", second(s.ExecContext(t.Context())), nil)
			if w.Table() != "" {
				t.Errorf("%s: the control shows nothing", name)
			}
			w.Reset()
			for range 2 {
				w.Want(name, drained(s.QueryContext(w.With(drivertest.Stale))), nil) // it is a read now
				w.IsUntouched()
			}
			w.Want(name, second(s.ExecContext(t.Context())), nil)
			w.IsUntouched()
			w.Want("Close", s.Close(), nil)
			w.Want("Close", c.Close(), nil)
		}
	})
}

// Where no server is deceived, the statement is prepared anew all the same, and once.
func TestPreparedInDoubtOfTheCharacterSet(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		prepares := func() (n int) {
			var name string
			w.Want("status", c.QueryRowContext(t.Context(), `SHOW SESSION STATUS LIKE 'Com_stmt_prepare'`).Scan(&name, &n), nil)
			return n
		}
		for set, want := range map[string]int{`SET NAMES gbk`: 1, `SET NAMES utf8mb4`: 0} {
			w.Must(c, set)
			s, err := c.PrepareContext(t.Context(), `SELECT v FROM d WHERE id = ?`)
			w.Want("Prepare", err, nil)
			w.Must(c, `SET NAMES utf8mb4`)
			before := prepares()
			for range 3 {
				var v string
				w.Want("a read", s.QueryRowContext(w.With(drivertest.Current), 2).Scan(&v), nil)
				if v != "two" {
					t.Errorf("%s: got %q", set, v)
				}
			}
			if got := prepares() - before; got != want {
				t.Errorf("%s: prepared %d times more, want %d", set, got, want)
			}
			w.Want("Close", s.Close(), nil)
		}
	})
}

func drained(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}
