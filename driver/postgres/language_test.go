package postgres_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// translating makes the server's errors ones of another language: all words of their
// messages but the names of things, the severity, and the quotation marks. The errors
// that our own functions raise are in no catalog of the server's, and stay.
type translating struct {
	from io.Reader
	made bytes.Buffer
}

func (r *translating) Read(p []byte) (int, error) {
	if r.made.Len() == 0 {
		head := make([]byte, 5)
		if _, err := io.ReadFull(r.from, head); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(r.from, body); err != nil {
			return 0, err
		}
		if head[0] == 'E' {
			body = translate(body)
			binary.BigEndian.PutUint32(head[1:], uint32(len(body))+4)
		}
		r.made.Write(head)
		r.made.Write(body)
	}
	return r.made.Read(p)
}

var names = map[string]bool{"sqlfence": true, "pass": true, "nothing": true, "mark": true, "advance": true, "d": true, "id": true, "missing": true}

func translate(body []byte) []byte {
	var out []byte
	ours := bytes.Contains(body, []byte("\x00CSF"))
	for _, field := range bytes.Split(body, []byte{0}) {
		if len(field) > 0 && bytes.IndexByte([]byte("SMDH"), field[0]) >= 0 && !ours {
			words := strings.FieldsFunc(string(field[1:]), func(r rune) bool { return r == ' ' || r == '"' })
			for i, word := range words {
				if name, _, _ := strings.Cut(word, "."); !names[name] && !strings.HasPrefix(word, "sqlfence") {
					words[i] = "ü"
				} else {
					words[i] = "»" + word + "«"
				}
			}
			field = append(field[:1:1], strings.Join(words, "")...)
		}
		out = append(append(out, field...), 0)
	}
	return out[:len(out)-1]
}

// CASES D32 (a): no verdict depends on what the server's messages say, but on SQLSTATEs.
func TestVerdictsDoNotDependOnTheLanguageOfTheServer(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		abroad := func(c *pgx.ConnConfig) {
			c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
				return pgproto3.NewFrontend(&translating{from: r}, w)
			}
		}
		db := like(t, w, abroad)
		valid, stale, unknown := w.With(drivertest.Current), w.With(drivertest.Stale), w.With(drivertest.Unknown)
		err := second(db.ExecContext(valid, `UPDATE missing SET id = 1`))
		if guard.SQLState(err) != "42P01" || !strings.Contains(err.Error(), "ü»missing«üüü") {
			t.Fatalf("the server speaks English: %v", err)
		}
		for _, text := range []string{`UPDATE d SET v = 'x'`, `DELETE FROM d WHERE false`, `INSERT INTO d (id) VALUES (1)`, `INSERT INTO d (id) VALUES (9)`, `TRUNCATE d`,
			`UPDATE d SET id = 1 / 0`} {
			w.Want("stale: "+text, second(db.ExecContext(stale, text)), guard.ErrFenced)
			w.Want("unknown: "+text, second(db.ExecContext(unknown, text)), guard.ErrUnregistered)
			tx := w.Begin(valid, db)
			w.Must(tx, `UPDATE d SET v = 'x' WHERE id = 1`)
			w.Want("in a transaction: "+text, second(tx.ExecContext(stale, text)), guard.ErrFenced)
			w.Want("Commit", tx.Commit(), guard.ErrFenced)
			w.IsUntouched()
		}
		w.Want("QueryRow", db.QueryRowContext(stale, `UPDATE d SET v = 'x' RETURNING id`).Scan(new(int)), guard.ErrFenced)
		for text, state := range map[string]string{`INSERT INTO d (id) VALUES (1)`: "23505", `UPDATE d SET id = 1 / 0`: "22012", `UPDATE d SET n = NULL`: "23502"} {
			if err := second(db.ExecContext(valid, text)); guard.SQLState(err) != state || errors.Is(err, guard.ErrFenced) {
				t.Errorf("%s: got error %v, want %s", text, err, state)
			}
		}
		w.Must(w.Bare, `CREATE TABLE ruled (id int)`)
		w.Must(w.Bare, `CREATE RULE r AS ON UPDATE TO ruled DO ALSO DELETE FROM d WHERE false`)
		w.Want("a rule", second(db.ExecContext(valid, `UPDATE ruled SET id = 1`)), guard.ErrUnsupported)
		w.Want("alone", second(db.ExecContext(valid, `VACUUM d`)), guard.ErrUnsupported)

		role := "sqlfence_abroad_" + config(t, w.Bare).Database
		w.Must(w.Bare, `CREATE ROLE `+role)
		w.Must(w.Bare, `GRANT ALL ON d TO `+role)
		c := w.Conn(db)
		w.Must(c, `SET ROLE `+role)
		w.Want("without privileges", second(c.ExecContext(valid, `UPDATE d SET v = v`)), guard.ErrSetup)
		w.Must(c, `RESET ROLE`)
		w.Want("Close", c.Close(), nil)
		w.Must(w.Bare, `DROP OWNED BY `+role+`; DROP ROLE `+role)
		w.Must(w.Bare, `DROP SCHEMA sqlfence CASCADE`)
		w.Want("without the schema", second(db.ExecContext(valid, `UPDATE d SET v = v`)), guard.ErrSetup)
		w.Want("without the schema, by a new program", second(like(t, w, abroad).ExecContext(valid, `UPDATE d SET v = v`)), guard.ErrSetup)
	})
}
