package postgres_test

import (
	"errors"
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// SPEC, liveness option: an owner whose lease has expired writes until somebody
// takes over, or, with UntilExpiry, no more.
func TestUntilExpiry(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		p, err := guard.NewPolicy(guard.UntilExpiry())
		if err != nil {
			t.Fatal(err)
		}
		db := like(t, w, nil, fence.WithPolicy(p))
		token := guard.Token{Resource: "leased"}
		w.Want("acquire", w.Bare.QueryRow(`SELECT epoch, grant_id FROM sqlfence.acquire('leased', 'me', '1 h')`).Scan(&token.Epoch, &token.Grant), nil)
		texts := []string{`UPDATE d SET v = v`, `INSERT INTO d (id) VALUES (1) ON CONFLICT DO NOTHING`, `TRUNCATE empty`}
		w.Must(w.Bare, `CREATE TABLE empty ()`)
		for _, text := range texts {
			w.Want("held: "+text, second(db.ExecContext(w.With(token), text)), nil)
		}
		tx := w.Begin(w.With(token), db)
		w.Must(tx, texts[0])
		w.Must(w.Bare, `UPDATE sqlfence.leases SET expires_at = clock_timestamp() WHERE resource = 'leased'`)
		w.Want("expired, in a transaction", second(tx.Exec(texts[0])), guard.ErrExpired)
		w.Want("Commit", tx.Commit(), guard.ErrExpired)
		for _, text := range texts {
			err := second(db.ExecContext(w.With(token), text))
			var e *guard.ExpiredError
			if !errors.Is(err, guard.ErrExpired) || !errors.Is(err, guard.ErrFenced) || !errors.Is(err, guard.ErrLost) || !errors.As(err, &e) || e.Token != token {
				t.Errorf("expired: %s: got error %v", text, err)
			}
			w.Want("expired, by default: "+text, second(w.Fenced.ExecContext(w.With(token), text)), nil)
		}
		w.Want("no lease here", second(db.ExecContext(w.With(drivertest.Current), texts[0])), guard.ErrSetup)
		w.Want("stale", second(db.ExecContext(w.With(drivertest.Stale), texts[0])), guard.ErrFenced)
		w.IsUntouched()
	})
}
