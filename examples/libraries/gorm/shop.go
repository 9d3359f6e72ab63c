// Package shop is the order processing of a shop, written with gorm.
package shop

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Customer places orders.
type Customer struct {
	ID     uint
	Email  string `gorm:"uniqueIndex;not null"`
	Name   string
	Orders []Order
}

// Order is deleted softly.
type Order struct {
	ID         uint
	Number     string `gorm:"uniqueIndex;not null"`
	Status     string `gorm:"default:new;not null"`
	Priority   int    `gorm:"default:5;not null"`
	Note       *string
	CustomerID uint
	Customer   Customer
	Lines      []Line `gorm:"constraint:OnDelete:CASCADE"`
	Tags       []Tag  `gorm:"many2many:order_tags"`
	CreatedAt  time.Time
	UpdatedAt  time.Time
	DeletedAt  gorm.DeletedAt `gorm:"index"`
}

// Line is one article of an order.
type Line struct {
	ID       uint
	OrderID  uint
	SKU      string
	Quantity int
}

// Tag marks orders.
type Tag struct {
	ID   uint
	Name string `gorm:"uniqueIndex"`
}

// Stock is what is left of an article.
type Stock struct {
	SKU  string `gorm:"primaryKey"`
	Rest int
}

// Shop processes orders.
type Shop struct{ db *gorm.DB }

// New returns the shop whose tables are in db.
func New(db *gorm.DB) *Shop { return &Shop{db} }

// Migrate creates the tables.
func (s *Shop) Migrate(ctx context.Context) error {
	return s.db.WithContext(ctx).AutoMigrate(&Customer{}, &Order{}, &Line{}, &Tag{}, &Stock{})
}

// AddColumn is a later migration.
func (s *Shop) AddColumn(ctx context.Context) error {
	return s.db.WithContext(ctx).Exec(`ALTER TABLE customers ADD COLUMN phone text`).Error
}

// Register creates a customer.
func (s *Shop) Register(ctx context.Context, email, name string) (uint, error) {
	c := Customer{Email: email, Name: name}
	err := s.db.WithContext(ctx).Create(&c).Error
	return c.ID, err
}

// PlaceOrder creates an order with its lines and tags, and says which defaults the
// database chose.
func (s *Shop) PlaceOrder(ctx context.Context, email string, o Order) (Order, error) {
	c, err := s.customer(ctx, email)
	if err != nil {
		return o, err
	}
	o.CustomerID = c.ID
	return o, s.db.WithContext(ctx).Omit("Customer").Create(&o).Error
}

func (s *Shop) customer(ctx context.Context, email string) (c Customer, err error) {
	return c, s.db.WithContext(ctx).Where("email = ?", email).First(&c).Error
}

// Import creates many orders at once; what they leave open has its default.
func (s *Shop) Import(ctx context.Context, email string, orders []Order) ([]uint, error) {
	c, err := s.customer(ctx, email)
	if err != nil {
		return nil, err
	}
	for i := range orders {
		orders[i].CustomerID = c.ID
	}
	err = s.db.WithContext(ctx).Omit("Customer").CreateInBatches(orders, 2).Error
	var ids []uint
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	return ids, err
}

// Count notes what is left of articles, known ones or new ones.
func (s *Shop) Count(ctx context.Context, stock ...Stock) (int64, error) {
	res := s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "sku"}},
		DoUpdates: clause.AssignmentColumns([]string{"rest"}),
	}).Create(&stock)
	return res.RowsAffected, res.Error
}

// KnowTag creates a tag unless it is there.
func (s *Shop) KnowTag(ctx context.Context, name string) (bool, error) {
	res := s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&Tag{Name: name})
	return res.RowsAffected == 1, res.Error
}

// FindTag returns the tag, which it creates if need be.
func (s *Shop) FindTag(ctx context.Context, name string) (t Tag, err error) {
	return t, s.db.WithContext(ctx).Where(Tag{Name: name}).FirstOrCreate(&t).Error
}

func (s *Shop) order(ctx context.Context, number string) (o Order, err error) {
	return o, s.db.WithContext(ctx).Where("number = ?", number).First(&o).Error
}

// Pack writes a whole order.
func (s *Shop) Pack(ctx context.Context, number string) error {
	o, err := s.order(ctx, number)
	if err != nil {
		return err
	}
	o.Status, o.Note = "packed", nil
	return s.db.WithContext(ctx).Omit("Customer").Save(&o).Error
}

// Restore writes a whole order of a given id; gorm inserts it if its UPDATE finds no
// row.
func (s *Shop) Restore(ctx context.Context, id uint, number, email string) (uint, error) {
	c, err := s.customer(ctx, email)
	if err != nil {
		return 0, err
	}
	o := Order{ID: id, Number: number, CustomerID: c.ID, Status: "restored"}
	err = s.db.WithContext(ctx).Omit("Customer").Save(&o).Error
	return o.ID, err
}

// Annotate sets one column.
func (s *Shop) Annotate(ctx context.Context, number, note string) (int64, error) {
	res := s.db.WithContext(ctx).Model(&Order{}).Where("number = ?", number).Update("note", note)
	return res.RowsAffected, res.Error
}

// Hurry sets several columns where either condition holds.
func (s *Shop) Hurry(ctx context.Context, status string, above int) (int64, error) {
	res := s.db.WithContext(ctx).Model(&Order{}).
		Where("status = ?", status).Or("priority > ?", above).
		Updates(map[string]any{"priority": gorm.Expr("priority + ?", 1), "status": "urgent"})
	return res.RowsAffected, res.Error
}

// Ship updates the order and returns what it became, by RETURNING.
func (s *Shop) Ship(ctx context.Context, number string) (Order, error) {
	var o Order
	err := s.db.WithContext(ctx).Model(&o).
		Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}, {Name: "status"}}}).
		Where("number = ?", number).UpdateColumn("status", "shipped").Error
	return o, err
}

// AddLine appends to an association.
func (s *Shop) AddLine(ctx context.Context, number string, l Line) error {
	o, err := s.order(ctx, number)
	if err != nil {
		return err
	}
	return s.db.WithContext(ctx).Model(&o).Association("Lines").Append(&l)
}

// Retag replaces an association of many to many.
func (s *Shop) Retag(ctx context.Context, number string, names ...string) error {
	o, err := s.order(ctx, number)
	if err != nil {
		return err
	}
	var tags []Tag
	for _, n := range names {
		t, err := s.FindTag(ctx, n)
		if err != nil {
			return err
		}
		tags = append(tags, t)
	}
	return s.db.WithContext(ctx).Model(&o).Association("Tags").Replace(tags)
}

// Cancel deletes an order softly.
func (s *Shop) Cancel(ctx context.Context, number string) (int64, error) {
	res := s.db.WithContext(ctx).Where("number = ?", number).Delete(&Order{})
	return res.RowsAffected, res.Error
}

// Purge deletes cancelled orders for good, with what hangs on them.
func (s *Shop) Purge(ctx context.Context) (int64, error) {
	db := s.db.WithContext(ctx)
	var gone []Order
	if err := db.Unscoped().Where("deleted_at IS NOT NULL").Find(&gone).Error; err != nil {
		return 0, err
	}
	res := db.Unscoped().Select(clause.Associations).Delete(&gone)
	return res.RowsAffected, res.Error
}

// Recount is raw SQL, by Exec.
func (s *Shop) Recount(ctx context.Context) (int64, error) {
	res := s.db.WithContext(ctx).Exec(`UPDATE stocks SET rest = rest - 1 WHERE sku IN ? OR rest > @most`, []string{"tea", "milk"}, map[string]any{"most": 1000})
	return res.RowsAffected, res.Error
}

// Drop is raw SQL, by Raw and Scan.
func (s *Shop) Drop(ctx context.Context, sku string) (rest int, err error) {
	return rest, s.db.WithContext(ctx).Raw(`DELETE FROM stocks WHERE sku = ? RETURNING rest`, sku).Scan(&rest).Error
}

var errRefused = errors.New("payment refused")

// Pay is a transaction around two others, of which the second fails and is undone.
func (s *Shop) Pay(ctx context.Context, number string) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Model(&Order{}).Where("number = ?", number).Update("status", "paying").Error; err != nil {
			return err
		}
		if err := tx.Transaction(func(tx *gorm.DB) error {
			return tx.Model(&Order{}).Where("number = ?", number).Update("status", "paid").Error
		}); err != nil {
			return err
		}
		err := tx.Transaction(func(tx *gorm.DB) error {
			if err := tx.Where("1 = 1").Delete(&Line{}).Error; err != nil {
				return err
			}
			return errRefused
		})
		if !errors.Is(err, errRefused) {
			return err
		}
		return nil
	})
}

// Move writes with prepared statements, twice each.
func (s *Shop) Move(ctx context.Context, from, to string, n int) error {
	db := s.db.WithContext(ctx).Session(&gorm.Session{PrepareStmt: true})
	for range 2 {
		if err := db.Model(&Stock{}).Where("sku = ?", from).Update("rest", gorm.Expr(`rest - ?`, n)).Error; err != nil {
			return err
		}
		if err := db.Model(&Stock{}).Where("sku = ?", to).Update("rest", gorm.Expr(`rest + ?`, n)).Error; err != nil {
			return err
		}
	}
	return nil
}

// Report reads.
func (s *Shop) Report(ctx context.Context) (counts []int64, err error) {
	for _, model := range []any{&Customer{}, &Order{}, &Line{}, &Tag{}, &Stock{}} {
		var n int64
		if err := s.db.WithContext(ctx).Model(model).Count(&n).Error; err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	return counts, nil
}
