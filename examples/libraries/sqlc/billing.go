// Package billing is the monthly billing of a service, written with sqlc.
package billing

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

import (
	"context"
	"database/sql"
	_ "embed" // for the schema
	"errors"
	"time"

	"github.com/sqlfence/sqlfence/examples/libraries/sqlc/queries"
)

//go:embed schema.sql
var schema string

// Billing bills accounts.
type Billing struct {
	db *sql.DB
	q  *queries.Queries
}

// New returns the billing of the accounts in db.
func New(db *sql.DB) *Billing { return &Billing{db, queries.New(db)} }

// Prepare returns the billing of the accounts in db with all statements prepared.
// The tables must be there.
func Prepare(ctx context.Context, db *sql.DB) (*Billing, error) {
	q, err := queries.Prepare(ctx, db)
	return &Billing{db, q}, err
}

// Close closes prepared statements and the pool.
func (b *Billing) Close() error { return errors.Join(b.q.Close(), b.db.Close()) }

// Migrate creates the tables.
func Migrate(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, schema)
	return err
}

// AddColumn is a later migration.
func (b *Billing) AddColumn(ctx context.Context) error {
	_, err := b.db.ExecContext(ctx, `ALTER TABLE invoices ADD COLUMN sent boolean`)
	return err
}

// Open opens an account.
func (b *Billing) Open(ctx context.Context, name string) (queries.Account, error) {
	return b.q.OpenAccount(ctx, name)
}

// Import opens many accounts.
func (b *Billing) Import(ctx context.Context, names, plans []string) ([]int64, error) {
	return b.q.ImportAccounts(ctx, queries.ImportAccountsParams{Names: names, Plans: plans})
}

// Know opens an account unless it is there.
func (b *Billing) Know(ctx context.Context, name string) (int64, error) {
	return b.q.KnowAccount(ctx, name)
}

// Change changes an account's plan.
func (b *Billing) Change(ctx context.Context, name, plan string) error {
	return b.q.ChangePlan(ctx, queries.ChangePlanParams{Name: name, Plan: plan})
}

// Charge charges all accounts of a plan, and the important ones.
func (b *Billing) Charge(ctx context.Context, plan string, cents int64) (int64, error) {
	return b.q.Charge(ctx, queries.ChargeParams{Plan: plan, Cents: cents})
}

// Bill writes the month's invoices, or adds to those that are there.
func (b *Billing) Bill(ctx context.Context, month time.Time) (int64, error) {
	res, err := b.q.Bill(ctx, month)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Pay settles what an account owes.
func (b *Billing) Pay(ctx context.Context, name string) (int64, error) { return b.q.Pay(ctx, name) }

// Annotate sets a note, and returns the invoice.
func (b *Billing) Annotate(ctx context.Context, name, note string) (string, error) {
	i, err := b.q.Annotate(ctx, queries.AnnotateParams{Name: name, Note: sql.NullString{String: note, Valid: true}})
	return i.State + i.Note.String, err
}

var errDisputed = errors.New("disputed")

// Dispute is a transaction with a savepoint that is rolled back.
func (b *Billing) Dispute(ctx context.Context, name string) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	q := b.q.WithTx(tx)
	if err := q.ChangePlan(ctx, queries.ChangePlanParams{Name: name, Plan: "disputed"}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT attempt`); err != nil {
		return err
	}
	err = func() error {
		if _, err := q.Charge(ctx, queries.ChargeParams{Plan: "disputed", Cents: 1000}); err != nil {
			return err
		}
		return errDisputed
	}()
	if !errors.Is(err, errDisputed) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT attempt`); err != nil {
		return err
	}
	return tx.Commit()
}

// End closes accounts, softly.
func (b *Billing) End(ctx context.Context, names ...string) (int64, error) {
	return b.q.CloseAccounts(ctx, names)
}

// Purge deletes closed accounts with their invoices.
func (b *Billing) Purge(ctx context.Context) (int, error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	dropped, err := b.q.WithTx(tx).DropInvoices(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := b.q.WithTx(tx).DropAccounts(ctx); err != nil {
		return 0, err
	}
	return len(dropped), tx.Commit()
}

// Balances reads.
func (b *Billing) Balances(ctx context.Context) ([]queries.BalancesRow, error) {
	return b.q.Balances(ctx)
}
