package fencetest

import (
	"testing"

	"github.com/sqlfence/sqlfence/internal/testserver"
)

// G6: whatever the condition says, and though the planner can prove that no row
// matches, a stale token is refused, and no statement trigger of the user's has
// fired for good. With a valid token the same write affects what it would.
func TestAConstantFalseConditionDoesNotHideTheFence(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		d := Open(t, dsn)
		d.watch.Must(table)
		d.watch.Must(`INSERT INTO d VALUES (1, 'a'), (2, 'b')`)
		d.watch.Must(`CREATE TABLE parts (id int NOT NULL, v text) PARTITION BY RANGE (id)`)
		d.watch.Must(`CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)`)
		d.watch.Must(`INSERT INTO parts VALUES (1, 'a')`)
		d.watch.Must(`CREATE TABLE fired (what text)`)
		d.watch.Must(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO fired VALUES (TG_TABLE_NAME || ' ' || TG_WHEN || ' ' || TG_OP); RETURN NULL; END $$`)
		for _, name := range []string{"d", "parts"} {
			for _, when := range []string{"BEFORE", "AFTER"} {
				d.watch.Must(`CREATE TRIGGER note_` + when + ` ` + when + ` INSERT OR UPDATE OR DELETE ON ` + name + ` FOR EACH STATEMENT EXECUTE FUNCTION note()`)
			}
		}
		a, b := d.Session(), d.Session()
		stale := a.Acquire("r", "A")
		valid := b.Acquire("r", "A")

		for _, c := range []struct {
			name, write string
			value       any
			affected    int64
		}{
			{"1=0", combined + `UPDATE d SET v = $1` + combinedWhere + `(1=0)`, "x", 0},
			{"false", combined + `UPDATE d SET v = $1` + combinedWhere + `(false)`, "x", 0},
			{"id IN (NULL)", combined + `UPDATE d SET v = $1` + combinedWhere + `(id IN (NULL))`, "x", 0},
			{"id = NULL parameter", combined + `UPDATE d SET v = 'x'` + combinedWhere + `(id = $1)`, nil, 0},
			{"false parameter", combined + `UPDATE d SET v = 'x'` + combinedWhere + `($1::bool)`, false, 0},
			{"contradiction", combined + `UPDATE d SET v = $1` + combinedWhere + `(id IS NULL AND id = 1)`, "x", 0},
			{"no such row", combined + `UPDATE d SET v = $1` + combinedWhere + `(id = 99)`, "x", 0},
			{"a row", combined + `UPDATE d SET v = $1` + combinedWhere + `(id = 1)`, "x", 1},
			{"OR", combined + `UPDATE d SET v = $1` + combinedWhere + `(id = 1 OR id = 2)`, "x", 2},
			{"pruned partition", combined + `UPDATE parts SET v = $1` + combinedWhere + `(id = 50)`, "x", 0},
			{"pruned by parameter", combined + `DELETE FROM parts` + combinedWhere + `(id = $1)`, 50, 0},
			{"empty set of rows, DELETE", combined + `DELETE FROM d` + combinedWhere + `(id = ANY ('{}'::int[]) AND v = $1)`, "x", 0},
			{"INSERT of no row", head + `INSERT INTO d SELECT 3, $1 WHERE false`, "x", 0},
			{"upsert that does nothing", head + `INSERT INTO d VALUES (1, $1) ON CONFLICT DO NOTHING`, "x", 0},
			{"RETURNING", combined + `UPDATE d SET v = $1` + combinedWhere + `(1=0) RETURNING id`, "x", 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				d.watch.Must(`TRUNCATE fired`)
				var before, after string
				contents := `SELECT (SELECT coalesce(string_agg(d::text, ';' ORDER BY id), '') FROM d) || (SELECT coalesce(string_agg(parts::text, ';'), '') FROM parts)`
				d.Watch(contents, nil, &before)
				n, err := a.Affected(c.write, c.value, stale.Resource, stale.Epoch, stale.Grant)
				if State(err) != "SF001" {
					t.Errorf("stale token: %d rows, %v; not fenced", n, err)
				}
				d.Watch(contents, nil, &after)
				var fired int
				d.Watch(`SELECT count(*) FROM fired`, nil, &fired)
				if before != after || fired != 0 {
					t.Errorf("stale token: tables held %s and hold %s; %d triggers fired", before, after, fired)
				}
				n, err = b.Affected(c.write, c.value, valid.Resource, valid.Epoch, valid.Grant)
				if err != nil || n != c.affected {
					t.Errorf("valid token: %d rows, %v; want %d", n, err, c.affected)
				}
				d.Watch(`SELECT count(*) FROM fired`, nil, &fired)
				if fired != 2 {
					t.Errorf("valid token: %d statement triggers fired, not 2", fired)
				}
			})
		}
	})
}
