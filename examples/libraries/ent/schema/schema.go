// Package schema describes the warehouse for ent's generator.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Item is an article in the warehouse.
type Item struct{ ent.Schema }

// Fields of Item.
func (Item) Fields() []ent.Field {
	return []ent.Field{
		field.String("sku").Unique(),
		field.Int("left").Default(0),
		field.String("shelf").Default("ramp"),
		field.String("note").Optional().Nillable(),
		field.Time("deleted_at").Optional().Nillable(),
	}
}

// Edges of Item.
func (Item) Edges() []ent.Edge {
	return []ent.Edge{
		edge.To("picks", Pick.Type),
		edge.To("substitutes", Item.Type),
	}
}

// Pick is the task of taking an item off its shelf.
type Pick struct{ ent.Schema }

// Fields of Pick.
func (Pick) Fields() []ent.Field {
	return []ent.Field{
		field.Int("quantity").Positive(),
		field.String("state").Default("open"),
	}
}

// Edges of Pick.
func (Pick) Edges() []ent.Edge {
	return []ent.Edge{edge.From("item", Item.Type).Ref("picks").Unique()}
}
