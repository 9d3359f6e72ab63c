package drivertest

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// MySQLComparison is for every driver of MariaDB.
var MySQLComparison = Comparison{
	Single: true,
	Setup: []string{
		`CREATE TABLE wide (id INT PRIMARY KEY, num DECIMAL(12,3), ts DATETIME(6), j JSON, b BLOB, f DOUBLE, f4 FLOAT, t BOOLEAN, c VARCHAR(7), dd DATE, u BIGINT UNSIGNED)`,
		`CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) UNIQUE CHECK (v <> 'bad'))`,
		`CREATE TRIGGER grumble BEFORE UPDATE ON d FOR EACH ROW BEGIN IF NEW.v = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too bad'; END IF; END`,
		`CREATE VIEW dv AS SELECT id, v, n FROM d`,
	},
	Statements: []Statement{
		{Text: `SELECT * FROM d ORDER BY id`, Query: true},
		{Text: `SELECT id, v FROM d WHERE id = $1`, Query: true, Args: []any{2}},
		{Text: `SELECT NULL, 1.5, 'x', CAST('2026-01-02' AS DATE), 2 > 1`, Query: true},
		{Text: `SELECT -$1, '$a ?'`, Query: true, Args: []any{7}},
		{Text: `SELECT 'DELETE FROM d'`, Query: true},
		{Text: `selekt`, Unguarded: true},
		{Text: `SELECT * FROM missing`, Query: true},
		{Text: `SET @x = 1`},
		{Text: `SHOW VARIABLES LIKE 'autocommit'`, Query: true},
		{Text: `UPDATE d SET v = $1 WHERE id = $2`, Args: []any{"x", 1}},
		{Text: `UPDATE d SET n = n + 1`},
		{Text: `UPDATE d SET v = v`},
		{Text: `UPDATE d SET v = 'x' WHERE 0`},
		{Text: `UPDATE d SET n = NULL`},
		{Text: `UPDATE d SET v = 'bad' WHERE id = 2`},
		{Text: `UPDATE IGNORE d SET n = NULL`},
		{Text: `UPDATE d SET missing = 1`},
		{Text: `UPDATE missing SET v = 1`},
		{Text: `UPDATE d SET v = $1`, Args: []any{[]int{1}}},
		{Text: `UPDATE dv SET n = 7 WHERE id = 1`},
		{Text: `UPDATE d SET v = $1 ORDER BY FIELD(id, $2, 3) DESC LIMIT 1`, Args: []any{"one of them", 2}},
		{Text: `DELETE FROM d WHERE id = $1 OR id = $2`, Args: []any{1, 2}},
		{Text: `DELETE FROM d WHERE id > $1 RETURNING *`, Query: true, Args: []any{1}},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2)`, Args: []any{4, "four"}},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2), (1, 'dup')`, Args: []any{5, nil}},
		{Text: `INSERT INTO d (id, v) VALUES ($1, $2), (6, 'six')`, Args: []any{5, nil}},
		{Text: `INSERT INTO d (id, v) VALUES (1, 'dup')`},
		{Text: `INSERT INTO d (id, v) VALUES ($1, 'four') RETURNING id, v, n`, Query: true, Args: []any{4}},
		{Text: `INSERT INTO d SELECT id + 10, v, n FROM d`},
		{Text: `INSERT INTO d (id, v) VALUES (1, 'neu') ON DUPLICATE KEY UPDATE v = VALUES(v)`},
		{Text: `INSERT IGNORE INTO d (id, v) VALUES (1, 'neu')`},
		{Text: `REPLACE INTO d (id, v) VALUES (1, 'replaced')`},
		{Text: `INSERT INTO counted (v) VALUES ('bad')`},
		{Text: `CREATE TEMPORARY TABLE IF NOT EXISTS made (id int)`, Unguarded: true},
		{Text: `UPDATE d SET v = $1 WHERE id = $2`, Args: []any{"too few"}},
		{Text: `UPDATE d SET v = 'x'`, Args: []any{"too many"}},
		{Text: `REPLACE INTO wide (id, num, ts, j, b, f, f4, t, c, dd, u) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`, Query: true,
			Args: []any{1, "12.5", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), `{"a": 1}`, []byte("\x00b"), 1.5, float32(2.25), true, "varchar", "2026-02-03", uint64(1 << 63)}},
		{Text: `UPDATE d SET v = $1 WHERE id = 1`, Args: []any{sql.Named("v", "named")}},
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
			p.Result(tx.Exec(`INSERT INTO d (id) VALUES (20), (21)`))
			p.Result(tx.Exec(`RELEASE SAVEPOINT a`))
			p.Error("Commit", tx.Commit())
		},
		"options of transactions": func(p *Program) {
			for _, opts := range []*sql.TxOptions{{Isolation: sql.LevelSerializable}, {ReadOnly: true}, {Isolation: sql.LevelReadCommitted}, {Isolation: sql.LevelLinearizable}} {
				tx, err := p.DB.BeginTx(p.Context, opts)
				p.Error("BeginTx", err)
				if err == nil {
					p.Result(tx.Exec(`UPDATE d SET v = 'rolled back' WHERE id = 1`))
					p.Error("Rollback", tx.Rollback())
				}
			}
		},
		"begun by text": func(p *Program) {
			c, err := p.DB.Conn(p.Context)
			p.Error("Conn", err)
			p.Result(c.ExecContext(p.Context, `START TRANSACTION`))
			p.Result(c.ExecContext(p.Context, `UPDATE d SET v = 'text' WHERE id = 1`))
			p.Result(c.ExecContext(p.Context, `INSERT INTO d (id) VALUES (20), (21)`))
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
		"a read-only transaction": func(p *Program) {
			tx, err := p.DB.BeginTx(p.Context, &sql.TxOptions{ReadOnly: true})
			p.Error("BeginTx", err)
			_, err = tx.Exec(`INSERT INTO d (id) VALUES (30), (31)`)
			p.Note("refused: %v", err != nil && strings.Contains(err.Error(), "1792"))
			p.Error("Rollback", tx.Rollback())
		},
	},
}
