package postgres_test

import (
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// A policy is judged by the names in the text, and none tells of which table another
// one is a partition or an heir: Tables lists them by name, or Protect closes the road.
func TestPartitionsAndHeirsAreTablesOfTheirOwnToAPolicy(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, text := range []string{
			`CREATE TABLE parted (id int, v text) PARTITION BY LIST (id)`, `CREATE TABLE part1 PARTITION OF parted FOR VALUES IN (1)`,
			`CREATE TABLE base (id int, v text)`, `CREATE TABLE heir () INHERITS (base)`,
			`INSERT INTO parted VALUES (1, 'one')`, `INSERT INTO heir VALUES (1, 'one')`,
		} {
			w.Must(w.Bare, text)
		}
		policy := func(tables ...string) fence.Option {
			p, err := guard.NewPolicy(guard.Tables(tables...), guard.Require())
			w.Want("NewPolicy", err, nil)
			return fence.WithPolicy(p)
		}
		stale, valid := w.With(drivertest.Stale), w.With(drivertest.Current)
		parents, all := like(t, w, nil, policy("parted", "base")), like(t, w, nil, policy("parted", "base", "part1", "heir"))
		for _, table := range []string{"parted", "base", "part1", "heir"} {
			text := `UPDATE ` + table + ` SET v = v`
			if table == "parted" || table == "base" {
				w.Want("listed, no token: "+text, second(parents.ExecContext(t.Context(), text)), guard.ErrUnguarded)
				w.Want("listed, stale: "+text, second(parents.ExecContext(stale, text)), guard.ErrFenced)
			} else {
				w.Want("its parent is listed, no token: "+text, second(parents.ExecContext(t.Context(), text)), nil)
				w.Want("its parent is listed, stale: "+text, second(parents.ExecContext(stale, text)), nil)
			}
			w.Want("all listed, no token: "+text, second(all.ExecContext(t.Context(), text)), guard.ErrUnguarded)
			w.Want("all listed, stale: "+text, second(all.ExecContext(stale, text)), guard.ErrFenced)
			w.Want("all listed, valid: "+text, second(all.ExecContext(valid, text)), nil)
		}
		for _, table := range []string{"parted", "base"} {
			w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, table), nil)
		}
		for _, table := range []string{"part1", "heir"} {
			text := `UPDATE ` + table + ` SET v = 'x'`
			for name, err := range map[string]error{
				"no token": second(parents.ExecContext(t.Context(), text)), "stale": second(parents.ExecContext(stale, text)),
				// It is not listed, and so not guarded: the driver does not pass the fence for it.
				"valid": second(parents.ExecContext(valid, text)),
			} {
				if guard.SQLState(err) != "SF008" {
					t.Errorf("protected, %s: %s: got error %v, want SF008", name, text, err)
				}
			}
			w.Want("protected and listed, stale: "+text, second(all.ExecContext(stale, text)), guard.ErrFenced)
			w.Want("protected and listed, valid: "+text, second(all.ExecContext(valid, text)), nil)
		}
		// Without a list of tables every write under a token is guarded.
		w.Want("no list, stale", second(w.Fenced.ExecContext(stale, `UPDATE part1 SET v = 'x'`)), guard.ErrFenced)
		w.Want("no list, valid", second(w.Fenced.ExecContext(valid, `UPDATE part1 SET v = 'x'`)), nil)
		// One that is made later is as open as ever, until Protect is called once more.
		w.Must(w.Bare, `CREATE TABLE part2 PARTITION OF parted FOR VALUES IN (2)`)
		w.Want("a new partition", second(parents.ExecContext(t.Context(), `INSERT INTO part2 VALUES (2, 'two')`)), nil)
		w.Want("Protect", guard.Protect(t.Context(), w.Bare, sqlgen.PostgreSQL, "parted"), nil)
		if err := second(parents.ExecContext(t.Context(), `INSERT INTO part2 VALUES (2, 'two')`)); guard.SQLState(err) != "SF008" {
			t.Errorf("a new partition, protected: got error %v, want SF008", err)
		}
	})
}
