package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
)

// G6 where policies hide rows: what nobody may see is still no "no rows".
func TestRowLevelSecurityHidesNoRefusal(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, text := range []string{
			`DROP ROLE IF EXISTS sqlfence_tenant`, `CREATE ROLE sqlfence_tenant`,
			`GRANT SELECT, INSERT, UPDATE, DELETE ON d TO sqlfence_tenant`,
			`GRANT USAGE ON SCHEMA sqlfence TO sqlfence_tenant`, `GRANT EXECUTE ON FUNCTION sqlfence.pass(text, bigint, bigint) TO sqlfence_tenant`,
			`GRANT INSERT ON sqlfence.nothing TO sqlfence_tenant`,
			`ALTER TABLE d ENABLE ROW LEVEL SECURITY`, `ALTER TABLE d FORCE ROW LEVEL SECURITY`,
			`CREATE POLICY one ON d USING (id = 1) WITH CHECK (id IN (1, 9))`,
		} {
			w.Must(w.Bare, text)
		}
		t.Cleanup(func() {
			w.Must(w.Bare, `DROP OWNED BY sqlfence_tenant`)
			w.Must(w.Bare, `DROP ROLE sqlfence_tenant`)
		})
		c := w.Conn(w.Fenced)
		w.Must(c, `SET ROLE sqlfence_tenant`)
		for _, text := range []string{
			`UPDATE d SET v = 'x'`, `UPDATE d SET v = 'x' WHERE id = 2`, `UPDATE d SET v = 'x' WHERE false`, `DELETE FROM d WHERE id = 3`,
			`INSERT INTO d (id, v) VALUES (9, 'x')`, `INSERT INTO d (id, v) SELECT 9, v FROM d WHERE id = 2`,
			`INSERT INTO d (id, v) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = excluded.v`,
			`WITH gone AS (DELETE FROM d WHERE id = 2 RETURNING id) SELECT id FROM gone`,
			`UPDATE d SET v = 'x' WHERE id = 2 RETURNING id`, `DELETE FROM d WHERE id = 2 RETURNING id`,
		} {
			_, err := c.ExecContext(w.With(drivertest.Stale), text)
			w.Want(text, err, guard.ErrFenced)
			var id int
			w.Want(text+", by QueryRow", c.QueryRowContext(w.With(drivertest.Stale), text).Scan(&id), guard.ErrFenced)
			w.IsUntouched()
		}
		ctx := w.With(drivertest.Current)
		for text, rows := range map[string]int64{`UPDATE d SET v = v`: 1, `UPDATE d SET v = v WHERE id = 2`: 0, `DELETE FROM d WHERE id = 2`: 0} {
			res, err := c.ExecContext(ctx, text)
			if err != nil {
				t.Errorf("%s, valid: %v", text, err)
				continue
			}
			if n, err := res.RowsAffected(); err != nil || n != rows {
				t.Errorf("%s: %d rows, %v; want %d", text, n, err, rows)
			}
		}
		w.Want("none to return", c.QueryRowContext(ctx, `UPDATE d SET v = v WHERE id = 2 RETURNING id`).Scan(new(int)), sql.ErrNoRows)
		w.Want("a row that the policy does not take", nilIf(guard.SQLState(second(c.ExecContext(ctx, `INSERT INTO d (id, v) VALUES (5, 'x')`))) == "42501"), nil)
		w.IsUntouched()
		w.Must(c, `RESET ROLE`)
	})
}
