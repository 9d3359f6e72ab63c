package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// The server converts a text before it reads it. In SJIS and its like, 0x95 0x5C
// is one character, and no backslash: a string ends where to the eye of another
// encoding it goes on, and what follows is a write that no guard would be in.
func TestACharacterThatEndsInABackslash(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		hidden := []string{
			"WITH x AS (SELECT E'\x95\x5C'), y AS (DELETE FROM d RETURNING 1) SELECT 1 --') SELECT 1",
			"SELECT E'\x95\x5C'; DELETE FROM d; --'",
			"SELECT E'\\\x95\x5C'; DELETE FROM d; --'",
		}
		for _, encoding := range []string{"SJIS", "BIG5", "GBK", "UHC", "GB18030", "SHIFT_JIS_2004"} {
			set := "SET client_encoding = '" + encoding + "'"
			bare := w.Conn(w.Bare)
			w.Must(bare, set)
			landed := 0
			for _, text := range hidden {
				// Not each of these encodings has that character.
				if _, err := bare.ExecContext(t.Context(), text); err == nil && w.Table() == "" {
					landed++
				}
				w.Reset()
			}
			if encoding == "SJIS" && landed < 2 {
				t.Errorf("the control shows nothing: %d writes landed", landed)
			}
			fenced := w.Conn(w.Fenced)
			w.Must(fenced, set)
			for range 2 { // also once it is cached
				for _, text := range hidden {
					w.Want(encoding, second(fenced.ExecContext(w.With(drivertest.Stale), text)), guard.ErrUnsupported)
					rows, err := fenced.QueryContext(w.With(drivertest.Stale), text)
					w.Want(encoding+", query", err, guard.ErrUnsupported)
					if err == nil {
						_ = rows.Close()
					}
					w.IsUntouched()
				}
			}
			// What is plain to read in every encoding is guarded as ever.
			w.Want(encoding+", plain", second(fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = E'\t'`)), nil)
			w.Want(encoding+", stale", second(fenced.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = E'\t'`)), guard.ErrFenced)
			w.Reset()
			w.Must(fenced, `SET client_encoding = 'LATIN1'`)
			w.Want("back", second(fenced.ExecContext(w.With(drivertest.Stale), "UPDATE d SET v = E'\xE9\\n'")), guard.ErrFenced)
		}
		// Also where the server is told before anything else.
		started := like(t, w, func(c *pgx.ConnConfig) { c.RuntimeParams["client_encoding"] = "SJIS" })
		w.Want("started with SJIS", second(started.ExecContext(w.With(drivertest.Stale), hidden[0])), guard.ErrUnsupported)
		w.IsUntouched()
	})
}

// The server would read another name, and another resource's mark.
func TestTheNameOfAResourceInAnotherEncoding(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		current := guard.Token{Resource: "ключ", Epoch: 2}
		stale := guard.Token{Resource: "ключ", Epoch: 1}
		w.Want("Advance", guard.NewFence(w.Bare, w.Engine.Engine).Advance(t.Context(), current), nil)
		policy, err := guard.NewPolicy(guard.Observe())
		w.Want("NewPolicy", err, nil)
		observing := like(t, w, nil, fence.WithPolicy(policy))
		for _, db := range []*sql.DB{w.Fenced, observing} {
			c := w.Conn(db)
			for range 2 {
				w.Must(c, `SET client_encoding = 'LATIN1'`)
				w.Want("LATIN1, stale", second(c.ExecContext(w.With(stale), `UPDATE d SET v = 'x'`)), guard.ErrSetup)
				w.Want("LATIN1", second(c.ExecContext(w.With(current), `UPDATE d SET v = 'x'`)), guard.ErrSetup)
				w.IsUntouched()
				w.Must(c, `RESET client_encoding`)
				w.Want("UTF8, stale", second(c.ExecContext(w.With(stale), `UPDATE d SET v = 'x'`)), guard.ErrFenced)
				w.Want("UTF8", second(c.ExecContext(w.With(current), `UPDATE d SET v = v`)), nil)
			}
		}
	})
}
