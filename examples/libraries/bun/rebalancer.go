// Package rebalancer moves shards between the nodes of a cluster, written with bun.
package rebalancer

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/feature"
	"github.com/uptrace/bun/migrate"
)

// Node holds shards.
type Node struct {
	bun.BaseModel `bun:"table:nodes,alias:n"`

	ID     int64    `bun:",pk,autoincrement"`
	Name   string   `bun:",unique,notnull"`
	Zone   string   `bun:",nullzero,notnull,default:'a'"`
	Weight int      `bun:",nullzero,notnull,default:10"`
	Shards []*Shard `bun:"rel:has-many,join:id=node_id"`
}

// Shard is deleted softly.
type Shard struct {
	bun.BaseModel `bun:"table:shards,alias:s"`

	ID        int64     `bun:",pk,autoincrement"`
	Key       string    `bun:"code,unique,notnull"`
	State     string    `bun:",nullzero,notnull,default:'idle'"`
	Rows      int64     `bun:"size,notnull"`
	NodeID    int64     `bun:",notnull"`
	Node      *Node     `bun:"rel:belongs-to,join:node_id=id"`
	DeletedAt time.Time `bun:",soft_delete,nullzero"`
}

// Move is a shard's way from one node to another.
type Move struct {
	bun.BaseModel `bun:"table:moves,alias:m"`

	ShardID int64     `bun:",pk"`
	Target  int64     `bun:",notnull"`
	Tries   int       `bun:",notnull"`
	At      time.Time `bun:",nullzero,notnull,default:current_timestamp"`
}

// Rebalancer moves shards.
type Rebalancer struct{ db *bun.DB }

// New returns a rebalancer of the cluster whose tables are in db.
func New(db *bun.DB) *Rebalancer { return &Rebalancer{db} }

// Migrate creates the tables.
func (r *Rebalancer) Migrate(ctx context.Context) error {
	steps := migrate.NewMigrations()
	steps.Add(migrate.Migration{
		Name: "1",
		Up: func(ctx context.Context, db *migrate.Migrator, _ *migrate.Migration) error {
			for _, model := range []any{(*Node)(nil), (*Shard)(nil), (*Move)(nil)} {
				if _, err := db.DB().NewCreateTable().Model(model).IfNotExists().Exec(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	})
	m := migrate.NewMigrator(r.db, steps)
	if err := m.Init(ctx); err != nil {
		return err
	}
	_, err := m.Migrate(ctx)
	return err
}

// AddColumn is a later migration.
func (r *Rebalancer) AddColumn(ctx context.Context) error {
	_, err := r.db.NewAddColumn().Model((*Node)(nil)).ColumnExpr("disk bigint").Exec(ctx)
	return err
}

// Join adds a node and returns what the database chose for it.
func (r *Rebalancer) Join(ctx context.Context, name string) (Node, error) {
	n := Node{Name: name}
	_, err := r.db.NewInsert().Model(&n).Exec(ctx)
	return n, err
}

// Split adds shards to a node.
func (r *Rebalancer) Split(ctx context.Context, node string, shards []*Shard) ([]int64, error) {
	id, err := r.id(ctx, node)
	if err != nil {
		return nil, err
	}
	for _, s := range shards {
		s.NodeID = id
	}
	_, err = r.db.NewInsert().Model(&shards).Exec(ctx)
	var ids []int64
	for _, s := range shards {
		ids = append(ids, s.ID)
	}
	return ids, err
}

func (r *Rebalancer) id(ctx context.Context, node string) (id int64, err error) {
	return id, r.db.NewSelect().Model((*Node)(nil)).Column("id").Where("name = ?", node).Scan(ctx, &id)
}

// Plan notes moves to the node of all shards of a state; one that is planned already
// has one try more.
func (r *Rebalancer) Plan(ctx context.Context, state, target string) (int64, error) {
	to, err := r.id(ctx, target)
	if err != nil {
		return 0, err
	}
	var shards []Shard
	if err := r.db.NewSelect().Model(&shards).Where("state = ?", state).Order("id").Scan(ctx); err != nil {
		return 0, err
	}
	var moves []Move
	for _, s := range shards {
		moves = append(moves, Move{ShardID: s.ID, Target: to})
	}
	insert := r.db.NewInsert().Model(&moves)
	if r.db.HasFeature(feature.InsertOnDuplicateKey) {
		insert.On("DUPLICATE KEY UPDATE").Set("tries = tries + 1, target = VALUES(target)")
	} else {
		insert.On("CONFLICT (shard_id) DO UPDATE").Set("tries = m.tries + 1, target = EXCLUDED.target")
	}
	return affected(insert.Exec(ctx))
}

// Know adds a node unless it is there.
func (r *Rebalancer) Know(ctx context.Context, names ...string) (int64, error) {
	var nodes []Node
	for _, n := range names {
		nodes = append(nodes, Node{Name: n})
	}
	return affected(r.db.NewInsert().Model(&nodes).Ignore().Returning("NULL").Exec(ctx))
}

// Grow sets one column.
func (r *Rebalancer) Grow(ctx context.Context, key string, rows int64) (int64, error) {
	return affected(r.db.NewUpdate().Model(&Shard{Key: key, Rows: rows}).Column("size").Where("code = ?", key).Exec(ctx))
}

// Freeze updates where either condition holds, and returns what it froze.
func (r *Rebalancer) Freeze(ctx context.Context, above int64, key string) (keys []string, err error) {
	err = r.db.NewUpdate().Model((*Shard)(nil)).Set("state = 'frozen'").
		Where("size > ?", above).WhereOr("code = ?", key).
		Returning("code").Scan(ctx, &keys)
	return keys, err
}

// Level updates many shards in one statement, from a list of values.
func (r *Rebalancer) Level(ctx context.Context, rows map[string]int64, keys ...string) (int64, error) {
	var shards []Shard
	if err := r.db.NewSelect().Model(&shards).Where("code IN (?)", bun.List(keys)).Order("id").Scan(ctx); err != nil {
		return 0, err
	}
	for i := range shards {
		shards[i].Rows = rows[shards[i].Key]
	}
	return affected(r.db.NewUpdate().Model(&shards).Column("size").Bulk().Exec(ctx))
}

// Carry carries the planned moves out, from a CTE.
func (r *Rebalancer) Carry(ctx context.Context) (int64, error) {
	due := r.db.NewSelect().Model((*Move)(nil)).Column("shard_id", "target").Where("tries < 3")
	return affected(r.db.NewUpdate().With("due", due).Model((*Shard)(nil)).
		Set("node_id = due.target").Set("state = 'idle'").TableExpr("due").
		Where("s.id = due.shard_id").Exec(ctx))
}

// Retire deletes a shard softly.
func (r *Rebalancer) Retire(ctx context.Context, key string) (int64, error) {
	return affected(r.db.NewDelete().Model((*Shard)(nil)).Where("code = ?", key).Exec(ctx))
}

// Purge deletes retired shards for good.
func (r *Rebalancer) Purge(ctx context.Context) (int64, error) {
	return affected(r.db.NewDelete().Model((*Shard)(nil)).WhereDeleted().ForceDelete().Exec(ctx))
}

// Rename is raw SQL.
func (r *Rebalancer) Rename(ctx context.Context, from, to string) (id int64, err error) {
	err = r.db.NewRaw("UPDATE nodes SET name = ? WHERE name = ? RETURNING id", to, from).Scan(ctx, &id)
	return id, err
}

// Weigh is raw SQL too, with a value that looks like a comment.
func (r *Rebalancer) Weigh(ctx context.Context, zone string) (int64, error) {
	return affected(r.db.ExecContext(ctx, "UPDATE nodes SET weight = weight - ? WHERE zone = ? OR name = ? -- by zone", -1, zone, "it's -- not"))
}

var errBusy = errors.New("target busy")

// Swap is a transaction around two others, of which the second fails and is undone.
func (r *Rebalancer) Swap(ctx context.Context, a, b string) error {
	return r.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewUpdate().Model((*Shard)(nil)).Set("state = 'swapping'").Where("code IN (?)", bun.List([]string{a, b})).Exec(ctx); err != nil {
			return err
		}
		if err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewUpdate().Model((*Shard)(nil)).Set("state = 'swapped'").Where("code = ?", a).Exec(ctx)
			return err
		}); err != nil {
			return err
		}
		err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewDelete().Model((*Move)(nil)).Where("TRUE").Exec(ctx); err != nil {
				return err
			}
			return errBusy
		})
		if !errors.Is(err, errBusy) {
			return err
		}
		return nil
	})
}

// Count writes with a prepared statement, twice.
func (r *Rebalancer) Count(ctx context.Context, text, key string) error {
	stmt, err := r.db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for range 2 {
		if _, err := stmt.ExecContext(ctx, 3, key); err != nil {
			return err
		}
	}
	return nil
}

// Report reads.
func (r *Rebalancer) Report(ctx context.Context) (map[string]int, error) {
	var nodes []Node
	if err := r.db.NewSelect().Model(&nodes).Relation("Shards").Scan(ctx); err != nil {
		return nil, err
	}
	shards := map[string]int{}
	for _, n := range nodes {
		shards[n.Name] = len(n.Shards)
	}
	return shards, nil
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
