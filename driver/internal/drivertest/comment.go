package drivertest

import "database/sql"

// HalfAComment: where operators at the end of a text become a comment as soon as
// something stands behind them, the fence does not get there. It takes the world's
// fenced database or another one.
func (w *World) HalfAComment(db *sql.DB) {
	w.T.Helper()
	for _, text := range []string{
		`UPDATE d SET v = 'x' /*`, `DELETE FROM d /*`, `DELETE FROM d WHERE 1 /*`, `INSERT INTO d (id, v) SELECT 9, 'x' /*`, `INSERT INTO d (id, v) VALUES (9, 'x' /*`,
		`UPDATE d SET v = 'x' --#`, `DELETE FROM d --# c`, `DELETE FROM d --`, "DELETE FROM d --#\n", `DELETE FROM d WHERE 1 --#`, "UPDATE d SET v = 'x' --#\nORDER BY id", "DELETE FROM d --#\nLIMIT 1", "INSERT INTO d (id, v) SELECT 9, 'x' --#\nLIMIT 1", `INSERT INTO d (id, v) SELECT 9, 'x' --#`,
	} {
		// Most are errors to the server, and some are nothing but comments.
		if _, err := db.ExecContext(w.With(Stale), text); err == nil {
			w.T.Errorf("%s: no error under a stale token", text)
		}
		w.IsUntouched()
	}
}
