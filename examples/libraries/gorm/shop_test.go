package shop_test

import (
	"context"
	"testing"

	"gorm.io/gorm"

	shop "github.com/sqlfence/sqlfence/examples/libraries/gorm"
	after "github.com/sqlfence/sqlfence/examples/libraries/gorm/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/gorm/before"
	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL),
		After:  program(after.OpenPostgreSQL),
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite),
		After:  program(after.OpenSQLite),
	})
}

func TestOnMariaDB(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine:  repertoire.MariaDB,
		Before:  program(before.OpenMariaDB),
		After:   program(after.OpenMariaDB),
		Without: []string{"update with RETURNING", "a migration"}, // it has no UPDATE … RETURNING; definitions are refused
	})
}

// program opens the shop and lists what it does.
func program(open func(dsn string) (*gorm.DB, error)) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		pool, err := db.DB()
		if err != nil {
			return nil, err
		}
		s := shop.New(db)
		if err := s.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: pool, Operations: operations(s)}, nil
	}
}

func operations(s *shop.Shop) []repertoire.Operation {
	type ctx = context.Context
	note := "leave at the door"
	return []repertoire.Operation{
		{Name: "create", Do: func(c ctx) (any, error) { return s.Register(c, "ann@example.com", "Ann") }},
		{Name: "create with associations and defaults", Do: func(c ctx) (any, error) {
			o, err := s.PlaceOrder(c, "ann@example.com", shop.Order{
				Number: "A1", Note: &note,
				Lines: []shop.Line{{SKU: "tea", Quantity: 2}, {SKU: "milk", Quantity: 1}},
				Tags:  []shop.Tag{{Name: "gift"}, {Name: "new"}},
			})
			return []any{o.ID, o.Status, o.Priority, len(o.Lines), len(o.Tags)}, err
		}},
		{Name: "batch create with defaults", Do: func(c ctx) (any, error) {
			return s.Import(c, "ann@example.com", []shop.Order{{Number: "B1"}, {Number: "B2", Priority: 9}, {Number: "B3", Status: "held"}})
		}},
		{Name: "upsert, inserting", Do: func(c ctx) (any, error) {
			return s.Count(c, shop.Stock{SKU: "tea", Rest: 10}, shop.Stock{SKU: "milk", Rest: 4})
		}},
		{Name: "upsert, updating", Do: func(c ctx) (any, error) {
			return s.Count(c, shop.Stock{SKU: "tea", Rest: 5}, shop.Stock{SKU: "salt", Rest: 1})
		}},
		{Name: "insert or nothing", Do: func(c ctx) (any, error) { return s.KnowTag(c, "rare") }},
		{Name: "first or create", Do: func(c ctx) (any, error) { return s.FindTag(c, "sold") }},
		{Name: "save", Do: func(c ctx) (any, error) { return nil, s.Pack(c, "A1") }},
		{Name: "save of a new row", Do: func(c ctx) (any, error) { return s.Restore(c, 0, "C1", "ann@example.com") }},
		{Name: "save of a row that is gone, inserting by upsert", Do: func(c ctx) (any, error) {
			return s.Restore(c, 4711, "D1", "ann@example.com")
		}},
		{Name: "partial update", Do: func(c ctx) (any, error) { return s.Annotate(c, "B1", note) }},
		{Name: "update of several columns, by OR", Do: func(c ctx) (any, error) { return s.Hurry(c, "held", 8) }},
		{Name: "update with RETURNING", Do: func(c ctx) (any, error) {
			o, err := s.Ship(c, "B2")
			return []any{o.ID, o.Status}, err
		}},
		{Name: "association of one to many", Do: func(c ctx) (any, error) { return nil, s.AddLine(c, "B1", shop.Line{SKU: "salt", Quantity: 1}) }},
		{Name: "association of many to many, replaced", Do: func(c ctx) (any, error) { return nil, s.Retag(c, "A1", "gift", "urgent") }},
		{Name: "nested transactions", Do: func(c ctx) (any, error) { return nil, s.Pay(c, "A1") }},
		{Name: "prepared statements", Do: func(c ctx) (any, error) { return nil, s.Move(c, "tea", "milk", 2) }},
		{Name: "raw SQL", Do: func(c ctx) (any, error) { return s.Recount(c) }},
		{Name: "raw SQL with RETURNING", Do: func(c ctx) (any, error) { return s.Drop(c, "salt") }},
		{Name: "soft delete", Do: func(c ctx) (any, error) { return s.Cancel(c, "A1") }},
		{Name: "delete with associations", Do: func(c ctx) (any, error) { return s.Purge(c) }},
		{Name: "reads", Read: true, Do: func(c ctx) (any, error) { return s.Report(c) }},
		{Name: "a migration", Do: func(c ctx) (any, error) { return nil, s.AddColumn(c) }},
	}
}
