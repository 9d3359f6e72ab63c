package drivertest

import "github.com/sqlfence/sqlfence/guard"

// Landed holds the engine to its word that a write is fenced, or not: one that landed
// is never called fenced though the mark has moved since, and one that was refused is
// an error of the query itself, not only of the rows that nobody reads. bump is a
// trigger that moves the mark behind an update of d, which no takeover could do sooner;
// "" where the engine has none.
func Landed(w *World, bump string) {
	w.T.Helper()
	const text = `UPDATE d SET v = 'x' WHERE id = 1`
	s, err := w.Fenced.PrepareContext(w.T.Context(), text)
	w.Want("Prepare", err, nil)
	defer s.Close()
	roads := map[string]func(token guard.Token) error{
		"Exec":          func(token guard.Token) error { return second(w.Fenced.ExecContext(w.With(token), text)) },
		"prepared Exec": func(token guard.Token) error { return second(s.ExecContext(w.With(token))) },
		"Query": func(token guard.Token) error {
			rows, err := w.Fenced.QueryContext(w.With(token), text)
			if err == nil {
				err = rows.Close() // unread
			}
			return err
		},
		"prepared Query": func(token guard.Token) error {
			rows, err := s.QueryContext(w.With(token))
			if err == nil {
				err = rows.Close()
			}
			return err
		},
	}
	for name, road := range roads {
		err := road(Stale)
		w.Want(name+" under a stale token", err, guard.ErrFenced)
		w.IsUntouched()
	}
	rows, err := w.Fenced.QueryContext(w.With(Stale), text)
	w.Want("Query itself", err, guard.ErrFenced)
	if err == nil {
		w.Want("Close", rows.Close(), nil)
	}
	if bump == "" {
		return
	}
	w.Must(w.Bare, bump)
	token := Current
	for name, road := range roads {
		w.Want(name+" that landed", road(token), nil)
		w.Want(name+" after it", road(token), guard.ErrFenced)
		token.Epoch++ // by the trigger
	}
}
