package drivertest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/sqlfence/sqlfence/guard"
)

// PostgreSQLComparison is for every driver of PostgreSQL.
var PostgreSQLComparison = Comparison{
	Setup: []string{
		`CREATE TABLE wide (id int PRIMARY KEY, s text[], num numeric(12,3), ts timestamptz, j jsonb, b bytea, u uuid, f float8, t bool, c varchar(7), d date)`,
		`CREATE TABLE counted (id int GENERATED ALWAYS AS IDENTITY, v text CHECK (v <> 'bad') UNIQUE)`,
		`CREATE FUNCTION grumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v = 'bad' THEN RAISE EXCEPTION 'too bad' USING DETAIL = 'as told'; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER grumble BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION grumble()`,
		`CREATE VIEW dv AS SELECT id, v, n FROM d`,
	},
	Statements: []Statement{
		{Text: `SELECT * FROM d ORDER BY id`},
		{Text: `SELECT id, v FROM d WHERE id = $1`, Args: []any{2}},
		{Text: `SELECT 1 / (3 - g) FROM generate_series(1, 5) AS g`}, // fails after two rows
		{Text: `SELECT NULL::int4, 1.5::numeric(5,2), 'x'::varchar(3), now() IS NULL, ARRAY[1,2], '{"a":1}'::jsonb, interval '1 day'`},
		{Text: `SELECT -$1::int, $tag$ $1 $tag$`, Args: []any{7}},
		{Text: `SELECT 'DELETE FROM d'`},
		{Text: `;`},
		{Text: `-- nothing`},
		{Text: `selekt`, Unguarded: true},
		{Text: `SELECT * FROM missing`},
		{Text: `SET application_name = 'compared'`},
		{Text: `SHOW transaction_isolation`},
		{Text: `UPDATE d SET v = $1 WHERE id = $2`, Args: []any{"x", 1}},
		{Text: `UPDATE d SET n = n + 1`},
		{Text: `UPDATE d SET v = v WHERE false`},
		{Text: `UPDATE d SET v = $1 WHERE id = $2 RETURNING id, v, n`, Args: []any{"r", 3}},
		{Text: `UPDATE d SET v = 'x' RETURNING 10 / (id - 2)`}, // fails after a row
		{Text: `UPDATE d SET n = NULL`},
		{Text: `UPDATE d SET v = 'bad' WHERE id = 2`},
		{Text: `UPDATE d SET missing = 1`},
		{Text: `UPDATE missing SET v = 1`},
		{Text: "-- where is it? é\nUPDATE d\n\tSET v = 'ü日本',\n\t    v = $1\n\tWHERE id = $2 AND\n\t      missing = 1\nRETURNING id", Args: []any{"it's ü", nil}},
		{Text: `DELETE FROM d WHERE v = 'ß' OR id = $1 RETURNING missing`, Args: []any{7}},
		{Text: `DELETE FROM d WHERE`, Unguarded: true},
		{Text: `UPDATE d SET v = 1 +, n = 2`},
		{Text: `INSERT INTO d (id, missing) VALUES ($1, 2)`, Args: []any{"1"}},
		{Text: `WITH a AS (SELECT $1::int AS x) INSERT INTO d (id) SELECT y FROM a`, Args: []any{9}},
		{Text: `INSERT INTO d (id) VALUES ('a')`},
		{Text: `UPDATE d SET v = $1`, Args: []any{[]int{1}}},
		{Text: `UPDATE d SET n = $1`, Args: []any{"no number"}},
		{Text: `UPDATE dv SET n = 7 WHERE id = 1 RETURNING *`},
		{Text: `DELETE FROM d WHERE id = $1 OR id = $2`, Args: []any{1, 2}},
		{Text: `DELETE FROM d RETURNING *`},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2)`, Args: []any{4, "four"}},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2), (1, 'dup') RETURNING id`, Args: []any{5, nil}},
		{Text: `INSERT INTO d SELECT id + 10, v, n FROM d RETURNING id, v`},
		{Text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING v`},
		{Text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON CONFLICT DO NOTHING`},
		{Text: `INSERT INTO counted (v) VALUES ('bad')`},
		{Text: `INSERT INTO counted (id, v) VALUES (1, 'x')`},
		{Text: `WITH gone AS (DELETE FROM d WHERE id > $1 RETURNING id) SELECT id, 'gone' FROM gone ORDER BY id`, Args: []any{1}},
		{Text: `CREATE TEMP TABLE IF NOT EXISTS made (id int)`, Unguarded: true},
		{Text: `DO $$ BEGIN RAISE NOTICE 'noted'; END $$`, Unguarded: true},
		{Text: `SELECT 1; SELECT 2`, Unguarded: true},
		{Text: `TRUNCATE d`, Unguarded: true},
		{Text: `UPDATE d SET v = $1 WHERE id = $2`, Args: []any{"too few"}},
		{Text: `UPDATE d SET v = 'x'`, Args: []any{"too many"}},
		{Text: `UPDATE d SET v = $1 WHERE id = 1`, Args: []any{sql.Named("v", "named")}},
	},
	Stories: map[string]func(p *Program){
		"savepoints": func(p *Program) {
			tx, err := p.DB.BeginTx(p.Context, nil)
			p.Error("BeginTx", err)
			p.Result(tx.Exec(`SAVEPOINT a`))
			p.Result(tx.Exec(`UPDATE d SET n = NULL`))
			p.Result(tx.Exec(`UPDATE d SET v = 'in a failed transaction'`))
			p.Result(tx.Exec(`ROLLBACK TO a`))
			p.Result(tx.Exec(`UPDATE d SET v = 'saved' WHERE id = 1`))
			p.Result(tx.Exec(`RELEASE a`))
			p.Error("Commit", tx.Commit())
		},
		"a failed transaction is committed": func(p *Program) {
			tx, err := p.DB.BeginTx(p.Context, nil)
			p.Error("BeginTx", err)
			p.Result(tx.Exec(`UPDATE d SET v = 'lost'`))
			p.Result(tx.Exec(`UPDATE d SET n = NULL`))
			p.Error("Commit", tx.Commit())
		},
		"isolation and read only": func(p *Program) {
			for _, opts := range []*sql.TxOptions{{Isolation: sql.LevelSerializable}, {Isolation: sql.LevelRepeatableRead, ReadOnly: true},
				{Isolation: sql.LevelReadUncommitted}, {Isolation: sql.LevelSnapshot}, {Isolation: sql.LevelLinearizable}} {
				tx, err := p.DB.BeginTx(p.Context, opts)
				p.Error(fmt.Sprint("BeginTx ", opts), err)
				if err != nil {
					continue
				}
				p.Rows(tx.Query(`SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')`))
				p.Error("Rollback", tx.Rollback())
			}
		},
		"a write in a read-only transaction": func(p *Program) {
			tx, err := p.DB.BeginTx(p.Context, &sql.TxOptions{ReadOnly: true})
			p.Error("BeginTx", err)
			_, err = tx.Exec(`UPDATE d SET v = 'x'`)
			// The statement is another one, and the server names its verb.
			p.Note("refused: %v", err != nil && strings.Contains(err.Error(), "25006"))
			p.Error("Rollback", tx.Rollback())
		},
		"begun by text": func(p *Program) {
			c, err := p.DB.Conn(p.Context)
			p.Error("Conn", err)
			p.Result(c.ExecContext(p.Context, `BEGIN`))
			p.Result(c.ExecContext(p.Context, `UPDATE d SET v = 'text' WHERE id = 1`))
			p.Result(c.ExecContext(p.Context, `COMMIT`))
			p.Result(c.ExecContext(p.Context, `ROLLBACK`))
			p.Error("Close", c.Close())
		},
		"a context that ends in a transaction": func(p *Program) {
			ctx, cancel := context.WithCancel(p.Context)
			tx, err := p.DB.BeginTx(ctx, nil)
			p.Error("BeginTx", err)
			p.Result(tx.ExecContext(p.Context, `UPDATE d SET v = 'lost'`))
			cancel()
			p.Note("committed: %v", tx.Commit() == nil) // what it says depends on who is first
			p.Error("Ping", p.DB.PingContext(p.Context))
		},
		"a statement's context ends while it runs": func(p *Program) {
			ctx, cancel := context.WithTimeout(p.Context, 60*time.Millisecond)
			defer cancel()
			_, err := p.DB.ExecContext(ctx, `UPDATE d SET v = 'late' WHERE pg_sleep(30) IS NOT NULL`)
			p.Note("failed: %v", err != nil)
			p.Error("Ping", p.DB.PingContext(p.Context))
		},
		"many rows": func(p *Program) {
			rows, err := p.DB.QueryContext(p.Context, `INSERT INTO d (id, v) SELECT g, repeat('x', 100) FROM generate_series(100, 3000) AS g RETURNING id, v`)
			p.Error("Query", err)
			n := 0
			for rows.Next() {
				var id int
				var v sql.RawBytes
				p.Error("Scan", rows.Scan(&id, &v))
				n += id + len(v)
				if id == 2000 {
					break
				}
			}
			p.Note("%d", n)
			p.Error("Close", rows.Close())
			p.Error("Err", rows.Err())
		},
		"one statement under many contexts": func(p *Program) {
			s, err := p.DB.PrepareContext(p.Context, `UPDATE d SET v = $1 WHERE id = $2 RETURNING v`)
			p.Error("Prepare", err)
			for i := range 3 {
				p.Rows(s.QueryContext(p.Context, fmt.Sprint(i), i+1))
				p.Rows(s.QueryContext(guard.Without(p.Context), fmt.Sprint(i), i+1))
			}
			p.Error("Close", s.Close())
			p.Error("Close again", s.Close())
			p.Result(s.ExecContext(p.Context, "x", 1))
		},
	},
}
