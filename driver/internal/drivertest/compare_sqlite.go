package drivertest

import (
	"context"
	"database/sql"
	"time"
)

// SQLiteComparison is for every driver of SQLite.
var SQLiteComparison = Comparison{
	Single: true,
	Setup: []string{
		`CREATE TABLE wide (id INTEGER PRIMARY KEY, s TEXT, num NUMERIC, ts TIMESTAMP, b BLOB, f REAL, t BOOLEAN, c VARCHAR(7), d DATE, g INT AS (id + 1))`,
		`CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT CHECK (v <> 'bad') UNIQUE)`,
		`CREATE TRIGGER grumble BEFORE UPDATE ON d WHEN NEW.v = 'bad' BEGIN SELECT RAISE(ABORT, 'too bad'); END`,
		`CREATE VIEW dv AS SELECT id, v, n FROM d`,
		`CREATE TRIGGER dv_update INSTEAD OF UPDATE ON dv BEGIN UPDATE d SET n = NEW.n WHERE id = NEW.id; END`,
	},
	Statements: []Statement{
		{Text: `SELECT * FROM d ORDER BY id`},
		{Text: `SELECT id, v FROM d WHERE id = $1`, Args: []any{2}},
		{Text: `SELECT abs(CASE id WHEN 3 THEN -9223372036854775808 ELSE id END) FROM d ORDER BY id`}, // fails after two rows
		{Text: `SELECT NULL, 1.5, 'x', x'00', CAST(1 AS BOOLEAN)`},
		{Text: `SELECT -$1, '$1 $2'`, Args: []any{7}},
		{Text: `SELECT 'DELETE FROM d'`},
		{Text: `selekt`, Unguarded: true},
		{Text: `SELECT * FROM missing`},
		{Text: `PRAGMA user_version`},
		{Text: `UPDATE d SET v = $1 WHERE id = $2`, Args: []any{"x", 1}},
		{Text: `UPDATE d SET n = n + 1`},
		{Text: `UPDATE d SET v = v WHERE 0`},
		{Text: `UPDATE d SET v = $1 WHERE id = $2 RETURNING id, v, n`, Args: []any{"r", 3}},
		{Text: `UPDATE d SET v = 'x' RETURNING abs(CASE id WHEN 2 THEN -9223372036854775808 ELSE id END)`},
		{Text: `UPDATE d SET n = NULL`},
		{Text: `UPDATE d SET v = 'bad' WHERE id = 2`},
		{Text: `UPDATE OR IGNORE d SET n = NULL`},
		{Text: `UPDATE OR ROLLBACK d SET n = NULL`},
		{Text: `UPDATE d SET missing = 1`},
		{Text: `UPDATE missing SET v = 1`},
		{Text: `UPDATE d SET v = $1`, Args: []any{[]int{1}}},
		{Text: `UPDATE dv SET n = 7 WHERE id = 1`},
		{Text: `DELETE FROM d WHERE id = $1 OR id = $2`, Args: []any{1, 2}},
		{Text: `DELETE FROM d RETURNING *`},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2)`, Args: []any{4, "four"}},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2), (1, 'dup') RETURNING id`, Args: []any{5, nil}},
		{Text: `INSERT OR REPLACE INTO d (id, v) VALUES (1, 'replaced'), (9, 'new')`},
		{Text: `REPLACE INTO d (id, v) VALUES (2, 'replaced') RETURNING *`},
		{Text: `INSERT INTO d SELECT id + 10, v, n FROM d RETURNING id, v`},
		{Text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING v`},
		{Text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON CONFLICT DO NOTHING`},
		{Text: `INSERT INTO counted (v) VALUES ('bad')`},
		{Text: `INSERT OR FAIL INTO d (id, v) VALUES (11, 'kept'), (1, 'dup')`},
		{Text: `INSERT INTO d DEFAULT VALUES`},
		{Text: `WITH x AS (SELECT $1 AS id) DELETE FROM d WHERE id IN (SELECT id FROM x) RETURNING id`, Args: []any{1}},
		{Text: `CREATE TEMP TABLE IF NOT EXISTS made (id int)`, Unguarded: true},
		{Text: `SELECT 1; SELECT 2`, Unguarded: true},
		{Text: `UPDATE d SET v = $1 WHERE id = $2`, Args: []any{"too few"}},
		{Text: `UPDATE d SET v = 'x'`, Args: []any{"too many"}},
		{Text: `INSERT OR REPLACE INTO wide (id, s, num, ts, b, f, t, c, d) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *`,
			Args: []any{1, "s", "12.5", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), []byte("\x00b"), 1.5, true, "varchar", "2026-02-03"}},
		{Text: `UPDATE d SET v = :v WHERE id = :id RETURNING v`, Args: []any{sql.Named("v", "n"), sql.Named("id", 1)}},
		{Text: `UPDATE d SET v = ?2 WHERE id = ?1`, Args: []any{1, "numbered"}},
		{Text: `UPDATE d SET v = $1`, Args: []any{uint64(1 << 63)}},
	},
	Stories: map[string]func(p *Program){
		"savepoints": func(p *Program) {
			tx, err := p.DB.BeginTx(p.Context, nil)
			p.Error("BeginTx", err)
			p.Result(tx.Exec(`SAVEPOINT a`))
			p.Result(tx.Exec(`UPDATE d SET n = NULL`))
			p.Result(tx.Exec(`UPDATE d SET v = 'in a healthy transaction' WHERE id = 2`))
			p.Result(tx.Exec(`ROLLBACK TO a`))
			p.Result(tx.Exec(`UPDATE d SET v = 'saved' WHERE id = 1`))
			p.Result(tx.Exec(`RELEASE a`))
			p.Error("Commit", tx.Commit())
		},
		"SQLite rolls back by itself": func(p *Program) {
			tx, err := p.DB.BeginTx(p.Context, nil)
			p.Error("BeginTx", err)
			p.Result(tx.Exec(`UPDATE d SET v = 'lost'`))
			p.Result(tx.Exec(`INSERT OR ROLLBACK INTO d (id) VALUES (1)`))
			p.Error("Commit", tx.Commit())
		},
		"options of transactions": func(p *Program) {
			for _, opts := range []*sql.TxOptions{{Isolation: sql.LevelSerializable}, {ReadOnly: true}, {Isolation: sql.LevelReadCommitted}} {
				tx, err := p.DB.BeginTx(p.Context, opts)
				p.Error("BeginTx", err)
				if err == nil {
					p.Rows(tx.Query(`PRAGMA query_only`))
					p.Error("Rollback", tx.Rollback())
				}
			}
		},
		"begun by text": func(p *Program) {
			c, err := p.DB.Conn(p.Context)
			p.Error("Conn", err)
			p.Result(c.ExecContext(p.Context, `BEGIN IMMEDIATE`))
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
	},
}
