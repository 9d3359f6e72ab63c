// Package library is the loans of a public library, written with go-jet. What is in gen
// was generated from a database with schema.sql.
package library

import (
	"context"
	"database/sql"
	_ "embed" // for the schema
	"errors"

	. "github.com/go-jet/jet/v2/postgres" //nolint:revive,staticcheck // as go-jet's own documentation writes it

	"github.com/sqlfence/sqlfence/examples/libraries/jet/gen/model"
	. "github.com/sqlfence/sqlfence/examples/libraries/jet/gen/table" //nolint:revive,staticcheck // likewise
)

//go:embed schema.sql
var schema string

// Library lends books.
type Library struct{ db *sql.DB }

// New returns the library whose tables are in db.
func New(db *sql.DB) *Library { return &Library{db} }

// Migrate creates the tables.
func (l *Library) Migrate(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, schema)
	return err
}

// AddColumn is a later migration.
func (l *Library) AddColumn(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, `ALTER TABLE loans ADD COLUMN due date`)
	return err
}

// Buy creates a book, and returns the defaults that it has.
func (l *Library) Buy(ctx context.Context, title string) (book model.Books, err error) {
	err = Books.INSERT(Books.Title).VALUES(title).RETURNING(Books.AllColumns).QueryContext(ctx, l.db, &book)
	return book, err
}

// Import creates many books at once.
func (l *Library) Import(ctx context.Context, titles ...string) (int64, error) {
	insert := Books.INSERT(Books.Title, Books.Copies)
	for n, title := range titles {
		if n%2 == 0 {
			insert = insert.VALUES(title, DEFAULT)
		} else {
			insert = insert.VALUES(title, n)
		}
	}
	return affected(insert.ExecContext(ctx, l.db))
}

// Add adds copies of a book, which it creates if need be.
func (l *Library) Add(ctx context.Context, title string, copies int32) (int64, error) {
	return affected(Books.INSERT(Books.Title, Books.Copies).MODEL(model.Books{Title: title, Copies: copies}).
		ON_CONFLICT(Books.Title).DO_UPDATE(SET(Books.Copies.SET(Books.Copies.ADD(Books.EXCLUDED.Copies)))).
		ExecContext(ctx, l.db))
}

// Lend notes that a reader has a book, unless it is noted already.
func (l *Library) Lend(ctx context.Context, title string, readers ...string) (int64, error) {
	var book model.Books
	if err := SELECT(Books.AllColumns).FROM(Books).WHERE(Books.Title.EQ(String(title))).QueryContext(ctx, l.db, &book); err != nil {
		return 0, err
	}
	insert := Loans.INSERT(Loans.BookID, Loans.Reader)
	for _, reader := range readers {
		insert = insert.VALUES(book.ID, reader)
	}
	return affected(insert.ON_CONFLICT().DO_NOTHING().ExecContext(ctx, l.db))
}

// Move sets a column where either condition holds, and returns the titles.
func (l *Library) Move(ctx context.Context, shelf, title string, above int64) (titles []string, err error) {
	var books []model.Books
	err = Books.UPDATE(Books.Shelf).SET(shelf).
		WHERE(Books.Title.EQ(String(title)).OR(Books.Copies.GT(Int(above)))).
		RETURNING(Books.Title).QueryContext(ctx, l.db, &books)
	for _, b := range books {
		titles = append(titles, b.Title)
	}
	return titles, err
}

// Return updates from another table.
func (l *Library) Return(ctx context.Context, title, reader string) (int64, error) {
	return affected(Loans.UPDATE().SET(Loans.State.SET(String("back"))).FROM(Books).
		WHERE(Books.ID.EQ(Loans.BookID).AND(Books.Title.EQ(String(title))).AND(Loans.Reader.EQ(String(reader)))).
		ExecContext(ctx, l.db))
}

// Archive deletes what came back, and adds the copies, in one statement.
func (l *Library) Archive(ctx context.Context) (int64, error) {
	back := CTE("back")
	book := Loans.BookID.From(back)
	return affected(WITH(
		back.AS(Loans.DELETE().WHERE(Loans.State.EQ(String("back"))).RETURNING(Loans.BookID)),
	)(
		Books.UPDATE().SET(Books.Copies.SET(Books.Copies.ADD(Int(1)))).FROM(back).WHERE(Books.ID.EQ(book)),
	).ExecContext(ctx, l.db))
}

var errMissing = errors.New("book missing")

// Audit is a transaction with a savepoint that is rolled back.
func (l *Library) Audit(ctx context.Context) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := Books.UPDATE().SET(Books.Shelf.SET(CONCAT(Books.Shelf, String("!")))).WHERE(Bool(true)).ExecContext(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT attempt`); err != nil {
		return err
	}
	err = func() error {
		if _, err := Loans.DELETE().WHERE(Bool(true)).ExecContext(ctx, tx); err != nil {
			return err
		}
		return errMissing
	}()
	if !errors.Is(err, errMissing) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT attempt`); err != nil {
		return err
	}
	return tx.Commit()
}

// Withdraw deletes a book softly.
func (l *Library) Withdraw(ctx context.Context, title string) (int64, error) {
	return affected(Books.UPDATE().SET(Books.WithdrawnAt.SET(NOW())).WHERE(Books.Title.EQ(String(title))).ExecContext(ctx, l.db))
}

// Purge deletes withdrawn books for good.
func (l *Library) Purge(ctx context.Context) (int64, error) {
	return affected(Books.DELETE().WHERE(Books.WithdrawnAt.IS_NOT_NULL()).ExecContext(ctx, l.db))
}

// Recount is raw SQL with named arguments.
func (l *Library) Recount(ctx context.Context, least int) (int64, error) {
	return affected(RawStatement(`UPDATE books SET copies = #least WHERE copies < #least`, RawArgs{"#least": least}).ExecContext(ctx, l.db))
}

// Titles reads.
func (l *Library) Titles(ctx context.Context) (titles []string, err error) {
	var books []model.Books
	err = SELECT(Books.Title).FROM(Books).ORDER_BY(Books.Title).QueryContext(ctx, l.db, &books)
	for _, b := range books {
		titles = append(titles, b.Title)
	}
	return titles, err
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
