// Package warehouse is the picking of a warehouse, written with ent.
package warehouse

//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --target gen --feature sql/upsert,sql/execquery ./schema

import (
	"context"
	"errors"
	"time"

	entsql "entgo.io/ent/dialect/sql"

	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen"
	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen/item"
	"github.com/sqlfence/sqlfence/examples/libraries/ent/gen/pick"
)

// Warehouse knows what lies where.
type Warehouse struct{ client *gen.Client }

// New returns the warehouse whose tables the client knows.
func New(client *gen.Client) *Warehouse { return &Warehouse{client} }

// Migrate creates the tables.
func (w *Warehouse) Migrate(ctx context.Context) error { return w.client.Schema.Create(ctx) }

// AddColumn is a later migration.
func (w *Warehouse) AddColumn(ctx context.Context) error {
	_, err := w.client.ExecContext(ctx, `ALTER TABLE picks ADD COLUMN picker varchar(20)`)
	return err
}

// Stock creates an item, and says which defaults it has.
func (w *Warehouse) Stock(ctx context.Context, sku string) ([]any, error) {
	i, err := w.client.Item.Create().SetSku(sku).Save(ctx)
	if err != nil {
		return nil, err
	}
	return []any{i.ID, i.Left, i.Shelf}, nil
}

// Import creates many items; what they leave open has its default.
func (w *Warehouse) Import(ctx context.Context, skus ...string) (ids []int, err error) {
	var creates []*gen.ItemCreate
	for n, sku := range skus {
		c := w.client.Item.Create().SetSku(sku)
		if n%2 == 0 {
			c.SetLeft(10 * n).SetShelf("north")
		}
		creates = append(creates, c)
	}
	items, err := w.client.Item.CreateBulk(creates...).Save(ctx)
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	return ids, err
}

// Receive adds to an item, which it creates if need be.
func (w *Warehouse) Receive(ctx context.Context, sku string, n int) error {
	return w.client.Item.Create().SetSku(sku).SetLeft(n).
		OnConflict(entsql.ConflictColumns(item.FieldSku)).
		Update(func(u *gen.ItemUpsert) { u.AddLeft(n) }).
		Exec(ctx)
}

// Know creates items unless they are there.
func (w *Warehouse) Know(ctx context.Context, skus ...string) error {
	var creates []*gen.ItemCreate
	for _, sku := range skus {
		creates = append(creates, w.client.Item.Create().SetSku(sku))
	}
	return w.client.Item.CreateBulk(creates...).
		OnConflict(entsql.ConflictColumns(item.FieldSku), entsql.DoNothing()).
		Exec(ctx)
}

// Assign creates picks of an item.
func (w *Warehouse) Assign(ctx context.Context, sku string, quantities ...int) error {
	i, err := w.client.Item.Query().Where(item.Sku(sku)).Only(ctx)
	if err != nil {
		return err
	}
	var creates []*gen.PickCreate
	for _, q := range quantities {
		creates = append(creates, w.client.Pick.Create().SetQuantity(q))
	}
	picks, err := w.client.Pick.CreateBulk(creates...).Save(ctx)
	if err != nil {
		return err
	}
	return i.Update().AddPicks(picks...).Exec(ctx)
}

// Substitute replaces an edge of many to many.
func (w *Warehouse) Substitute(ctx context.Context, sku string, by ...string) error {
	ids, err := w.client.Item.Query().Where(item.SkuIn(by...)).IDs(ctx)
	if err != nil {
		return err
	}
	i, err := w.client.Item.Query().Where(item.Sku(sku)).Only(ctx)
	if err != nil {
		return err
	}
	return i.Update().ClearSubstitutes().AddSubstituteIDs(ids...).Exec(ctx)
}

// Move sets one column of one item, and returns the item.
func (w *Warehouse) Move(ctx context.Context, sku, shelf string) (string, error) {
	i, err := w.client.Item.Query().Where(item.Sku(sku)).Only(ctx)
	if err != nil {
		return "", err
	}
	i, err = w.client.Item.UpdateOne(i).SetShelf(shelf).SetNote("moved").Save(ctx)
	if err != nil {
		return "", err
	}
	return i.Shelf, nil
}

// Mark updates where either condition holds.
func (w *Warehouse) Mark(ctx context.Context, above int, sku string) (int, error) {
	return w.client.Item.Update().
		Where(item.Or(item.LeftGT(above), item.Sku(sku))).
		SetNote("checked").AddLeft(-1).Save(ctx)
}

var errShort = errors.New("too few left")

// Pick is a transaction with another inside it, which fails and is undone.
func (w *Warehouse) Pick(ctx context.Context, sku string) error {
	tx, err := w.client.Tx(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to undo
	if _, err := tx.Pick.Update().Where(pick.HasItemWith(item.Sku(sku))).SetState("picked").Save(ctx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT attempt`); err != nil {
		return err
	}
	err = func() error {
		if _, err := tx.Pick.Delete().Exec(ctx); err != nil {
			return err
		}
		return errShort
	}()
	if !errors.Is(err, errShort) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT attempt`); err != nil {
		return err
	}
	if _, err := tx.Item.Update().Where(item.Sku(sku)).AddLeft(-2).Save(ctx); err != nil {
		return err
	}
	return tx.Commit()
}

// Recount is raw SQL.
func (w *Warehouse) Recount(ctx context.Context) (shelves []string, err error) {
	rows, err := w.client.QueryContext(ctx, `UPDATE items SET "left" = 0 WHERE "left" < 0 OR "left" > 19 RETURNING shelf`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var shelf string
		if err := rows.Scan(&shelf); err != nil {
			return nil, err
		}
		shelves = append(shelves, shelf)
	}
	return shelves, rows.Err()
}

// Retire deletes an item softly.
func (w *Warehouse) Retire(ctx context.Context, sku string, at time.Time) error {
	return w.client.Item.Update().Where(item.Sku(sku), item.DeletedAtIsNil()).SetDeletedAt(at).Exec(ctx)
}

// Purge deletes retired items for good.
func (w *Warehouse) Purge(ctx context.Context) (int, error) {
	return w.client.Item.Delete().Where(item.DeletedAtNotNil()).Exec(ctx)
}

// Drop deletes one row by its id.
func (w *Warehouse) Drop(ctx context.Context, quantity int) error {
	p, err := w.client.Pick.Query().Where(pick.Quantity(quantity)).Only(ctx)
	if err != nil {
		return err
	}
	return w.client.Pick.DeleteOne(p).Exec(ctx)
}

// Lists reads.
func (w *Warehouse) Lists(ctx context.Context) (map[string]int, error) {
	items, err := w.client.Item.Query().WithPicks().All(ctx)
	if err != nil {
		return nil, err
	}
	picks := map[string]int{}
	for _, i := range items {
		picks[i.Sku] = len(i.Edges.Picks)
	}
	return picks, nil
}
