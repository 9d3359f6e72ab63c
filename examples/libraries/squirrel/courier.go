// Package courier is the dispatch of a courier service, written with squirrel.
package courier

import (
	"context"
	"database/sql"
	"errors"

	sq "github.com/Masterminds/squirrel"
)

// Dispatch sends parcels on their way.
type Dispatch struct {
	db     *sql.DB
	sql    sq.StatementBuilderType
	upsert string // the end of an INSERT of couriers that adds to those that are there
}

const (
	onConflict  = "ON CONFLICT (name) DO UPDATE SET parcels = couriers.parcels + excluded.parcels"
	onDuplicate = "ON DUPLICATE KEY UPDATE parcels = couriers.parcels + VALUES(parcels)" // of MariaDB and MySQL
)

// New returns the dispatch whose tables are in db.
func New(db *sql.DB, placeholders sq.PlaceholderFormat) *Dispatch {
	return &Dispatch{db, sq.StatementBuilder.PlaceholderFormat(placeholders).RunWith(db), onConflict}
}

// NewPrepared is New with every statement prepared, once per text.
func NewPrepared(db *sql.DB, placeholders sq.PlaceholderFormat) *Dispatch {
	return &Dispatch{db, sq.StatementBuilder.PlaceholderFormat(placeholders).RunWith(sq.NewStmtCache(db)), onConflict}
}

// NewMariaDB is New for a database of MariaDB or MySQL.
func NewMariaDB(db *sql.DB, placeholders sq.PlaceholderFormat) *Dispatch {
	d := New(db, placeholders)
	d.upsert = onDuplicate
	return d
}

// NewMariaDBPrepared is NewPrepared for a database of MariaDB or MySQL.
func NewMariaDBPrepared(db *sql.DB, placeholders sq.PlaceholderFormat) *Dispatch {
	d := NewPrepared(db, placeholders)
	d.upsert = onDuplicate
	return d
}

// Migrate creates the tables.
func (d *Dispatch) Migrate(ctx context.Context) error {
	for _, text := range []string{
		`CREATE TABLE IF NOT EXISTS parcels (code varchar(20) PRIMARY KEY, city varchar(20) NOT NULL, state varchar(10) NOT NULL DEFAULT 'new', grams int NOT NULL DEFAULT 100, courier varchar(20))`,
		`CREATE TABLE IF NOT EXISTS couriers (name varchar(20) PRIMARY KEY, parcels int NOT NULL DEFAULT 0)`,
	} {
		if _, err := d.db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// AddColumn is a later migration.
func (d *Dispatch) AddColumn(ctx context.Context) error {
	_, err := d.db.ExecContext(ctx, `ALTER TABLE parcels ADD COLUMN signed varchar(20)`)
	return err
}

// Accept creates a parcel, and returns the defaults that it has.
func (d *Dispatch) Accept(ctx context.Context, code, city string) (state string, grams int, err error) {
	err = d.sql.Insert("parcels").Columns("code", "city").Values(code, city).
		Suffix("RETURNING state, grams").QueryRowContext(ctx).Scan(&state, &grams)
	return state, grams, err
}

// Import creates many parcels at once.
func (d *Dispatch) Import(ctx context.Context, city string, codes ...string) (int64, error) {
	insert := d.sql.Insert("parcels").Columns("code", "city", "grams")
	for n, code := range codes {
		insert = insert.Values(code, city, sq.Expr("1000 + ?", n))
	}
	return affected(insert.ExecContext(ctx))
}

// Hire adds a courier, or parcels to one that is there.
func (d *Dispatch) Hire(ctx context.Context, name string, parcels int) (int64, error) {
	return affected(d.sql.Insert("couriers").SetMap(map[string]any{"name": name, "parcels": parcels}).
		Suffix(d.upsert).ExecContext(ctx))
}

// Copy inserts from a SELECT.
func (d *Dispatch) Copy(ctx context.Context, city string) (int64, error) {
	return affected(d.sql.Insert("couriers").Columns("name", "parcels").
		Select(sq.Select("city", "COUNT(*)").From("parcels").Where(sq.Eq{"city": city}).GroupBy("city")).ExecContext(ctx))
}

// Assign sets a column of what either condition finds.
func (d *Dispatch) Assign(ctx context.Context, courier, city string, above int) (int64, error) {
	return affected(d.sql.Update("parcels").Set("courier", courier).
		Where(sq.Or{sq.Eq{"city": city}, sq.Gt{"grams": above}}).ExecContext(ctx))
}

// Weigh sets columns by expressions, with a prefix and a comment at the end.
func (d *Dispatch) Weigh(ctx context.Context, courier string) (int64, error) {
	return affected(d.sql.Update("couriers").
		Prefix("WITH carried AS (SELECT COUNT(*) AS n FROM parcels WHERE courier = ?)", courier).
		Set("parcels", sq.Expr("(SELECT n FROM carried) + ?", 1)).
		Where("name = ?", courier).Suffix("-- weighed").ExecContext(ctx))
}

var errLost = errors.New("parcel lost")

// Deliver is a transaction with a savepoint that is rolled back.
func (d *Dispatch) Deliver(ctx context.Context, codes ...string) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b := d.sql.RunWith(tx)
	if _, err := b.Update("parcels").Set("state", "delivered").Where(sq.Eq{"code": codes}).ExecContext(ctx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT attempt`); err != nil {
		return err
	}
	err = func() error {
		if _, err := b.Delete("parcels").ExecContext(ctx); err != nil {
			return err
		}
		return errLost
	}()
	if !errors.Is(err, errLost) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT attempt`); err != nil {
		return err
	}
	return tx.Commit()
}

// Archive deletes what was delivered, and returns it.
func (d *Dispatch) Archive(ctx context.Context) (codes []string, err error) {
	rows, err := sq.QueryContextWith(ctx, d.db, sq.Expr("DELETE FROM parcels WHERE state = 'delivered' OR state IS NULL RETURNING code"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var code string
		if err := rows.Scan(&code); err != nil {
			return nil, err
		}
		codes = append(codes, code)
	}
	return codes, rows.Err()
}

// Dismiss deletes couriers.
func (d *Dispatch) Dismiss(ctx context.Context, name string) (int64, error) {
	return affected(d.sql.Delete("couriers").Where(sq.Eq{"name": name}).ExecContext(ctx))
}

// Open reads.
func (d *Dispatch) Open(ctx context.Context) (n int, err error) {
	err = d.sql.Select("COUNT(*)").From("parcels").Where(sq.NotEq{"state": "delivered"}).QueryRowContext(ctx).Scan(&n)
	return n, err
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
