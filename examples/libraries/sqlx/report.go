// Package report is the nightly report of a chain of shops, written with sqlx.
package report

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"
)

// Sale is a row that the tills write.
type Sale struct {
	ID     string `db:"id"`
	Day    string `db:"day"`
	Region string `db:"region"`
	Cents  int64  `db:"cents"`
}

// Report is a line of a night's report.
type Report struct {
	Day    string         `db:"day"`
	Region string         `db:"region"`
	Cents  int64          `db:"cents"`
	State  string         `db:"state"`
	Tries  int            `db:"tries"`
	Note   sql.NullString `db:"note"`
}

// Cron makes reports.
type Cron struct {
	db     *sqlx.DB
	upsert string // the end of an INSERT that changes the lines that are there
	ignore string // the end of one that leaves them
}

// New returns the report over the tables in db, a database of PostgreSQL or SQLite.
func New(db *sqlx.DB) *Cron {
	return &Cron{
		db,
		`ON CONFLICT (day, region) DO UPDATE SET cents = excluded.cents, tries = reports.tries + 1`,
		`ON CONFLICT DO NOTHING`,
	}
}

// NewMariaDB returns the report over the tables in db, a database of MariaDB or MySQL.
func NewMariaDB(db *sqlx.DB) *Cron {
	return &Cron{
		db,
		`ON DUPLICATE KEY UPDATE cents = VALUES(cents), tries = reports.tries + 1`,
		`ON DUPLICATE KEY UPDATE day = reports.day`,
	}
}

// Migrate creates the tables.
func (c *Cron) Migrate(ctx context.Context) error {
	for _, text := range []string{
		`CREATE TABLE IF NOT EXISTS sales (id varchar(20) PRIMARY KEY, day varchar(10) NOT NULL, region varchar(20) NOT NULL, cents bigint NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS reports (day varchar(10), region varchar(20), cents bigint NOT NULL DEFAULT 0,
			state varchar(10) NOT NULL DEFAULT 'open', tries int NOT NULL DEFAULT 0, note text, PRIMARY KEY (day, region))`,
	} {
		if _, err := c.db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// AddColumn is a later migration.
func (c *Cron) AddColumn(ctx context.Context) error {
	_, err := c.db.ExecContext(ctx, `ALTER TABLE reports ADD COLUMN sent varchar(10)`)
	return err
}

// Book inserts a batch from a slice of structs.
func (c *Cron) Book(ctx context.Context, sales []Sale) (int64, error) {
	return affected(c.db.NamedExecContext(ctx, `INSERT INTO sales (id, day, region, cents) VALUES (:id, :day, :region, :cents)`, sales))
}

// Begin inserts a line with its defaults and returns what they are.
func (c *Cron) Begin(ctx context.Context, day, region string) (r Report, err error) {
	err = c.db.GetContext(ctx, &r, c.db.Rebind(`INSERT INTO reports (day, region) VALUES (?, ?) RETURNING *`), day, region)
	return r, err
}

// Sum fills the day's lines, which it inserts or updates.
func (c *Cron) Sum(ctx context.Context, day string) (int64, error) {
	return affected(c.db.NamedExecContext(ctx, `
		INSERT INTO reports (day, region, cents)
		SELECT day, region, SUM(cents) FROM sales WHERE day = :day GROUP BY day, region
		`+c.upsert,
		map[string]any{"day": day}))
}

// Open inserts a line unless it is there.
func (c *Cron) Open(ctx context.Context, day, region string) (bool, error) {
	n, err := affected(c.db.ExecContext(ctx, c.db.Rebind(`INSERT INTO reports (day, region) VALUES (?, ?) `+c.ignore), day, region))
	return n == 1, err
}

// Close sets one column of the listed regions.
func (c *Cron) Close(ctx context.Context, day string, regions ...string) (int64, error) {
	query, args, err := sqlx.In(`UPDATE reports SET state = 'closed' WHERE day = ? AND region IN (?)`, day, regions)
	if err != nil {
		return 0, err
	}
	return affected(c.db.ExecContext(ctx, c.db.Rebind(query), args...))
}

// Annotate updates from a struct and reads what became of the lines.
func (c *Cron) Annotate(ctx context.Context, r Report) (changed []Report, err error) {
	rows, err := c.db.NamedQueryContext(ctx, `UPDATE reports SET note = :note WHERE day = :day AND region = :region OR cents > 100000 RETURNING day, region, state, note`, r)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Report
		if err := rows.StructScan(&r); err != nil {
			return nil, err
		}
		changed = append(changed, r)
	}
	return changed, rows.Err()
}

// Correct writes with a prepared statement, twice, and with a prepared named one.
func (c *Cron) Correct(ctx context.Context, day string, cents int64) error {
	stmt, err := c.db.PreparexContext(ctx, c.db.Rebind(`UPDATE reports SET cents = cents + ? WHERE day = ?`))
	if err != nil {
		return err
	}
	defer stmt.Close()
	for range 2 {
		if _, err := stmt.ExecContext(ctx, cents, day); err != nil {
			return err
		}
	}
	named, err := c.db.PrepareNamedContext(ctx, `UPDATE reports SET tries = tries + :n WHERE day = :day`)
	if err != nil {
		return err
	}
	defer named.Close()
	_, err = named.ExecContext(ctx, map[string]any{"n": 1, "day": day})
	return err
}

var errUnsure = errors.New("sum differs")

// Restate is a transaction with a savepoint that is rolled back.
func (c *Cron) Restate(ctx context.Context, day string) error {
	tx, err := c.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.NamedExecContext(ctx, `UPDATE reports SET state = 'restated' WHERE day = :day`, Report{Day: day}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT attempt`); err != nil {
		return err
	}
	err = func() error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM reports`); err != nil {
			return err
		}
		return errUnsure
	}()
	if !errors.Is(err, errUnsure) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT attempt`); err != nil {
		return err
	}
	return tx.Commit()
}

// Forget deletes sales that are reported.
func (c *Cron) Forget(ctx context.Context, day string) (gone []string, err error) {
	err = c.db.SelectContext(ctx, &gone, c.db.Rebind(`DELETE FROM sales WHERE day = ? AND EXISTS (SELECT 1 FROM reports WHERE reports.day = sales.day) RETURNING id`), day)
	return gone, err
}

// Lines reads.
func (c *Cron) Lines(ctx context.Context) (lines []Report, err error) {
	err = c.db.SelectContext(ctx, &lines, `SELECT day, region, cents, state, tries, note FROM reports ORDER BY day, region`)
	return lines, err
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
