// Package printer is the job processing of a print shop, written with xorm.
package printer

import (
	"context"
	"errors"
	"time"

	"xorm.io/xorm"
	"xorm.io/xorm/schemas"
)

// Printer prints jobs.
type Printer struct {
	ID    int64  `xorm:"pk autoincr 'id'"`
	Name  string `xorm:"varchar(40) unique notnull"`
	Paper int    `xorm:"notnull default 500"`
}

// Job is deleted softly.
type Job struct {
	ID        int64     `xorm:"pk autoincr 'id'"`
	Title     string    `xorm:"varchar(40) unique notnull"`
	State     string    `xorm:"varchar(20) notnull default 'queued'"`
	Pages     int       `xorm:"notnull default 1"`
	PrinterID int64     `xorm:"'printer_id' index"`
	Version   int       `xorm:"version"`
	CreatedAt time.Time `xorm:"created"`
	UpdatedAt time.Time `xorm:"updated"`
	DeletedAt time.Time `xorm:"deleted"`
}

// Shop prints.
type Shop struct {
	engine *xorm.Engine
	upsert string // the end of an INSERT of printers that adds to those that are there
}

// New returns the shop whose tables are in the engine's database.
func New(engine *xorm.Engine) *Shop {
	if engine.Dialect().URI().DBType == schemas.MYSQL { // MariaDB too
		return &Shop{engine, `ON DUPLICATE KEY UPDATE paper = printer.paper + VALUES(paper)`}
	}
	return &Shop{engine, `ON CONFLICT (name) DO UPDATE SET paper = printer.paper + excluded.paper`}
}

// Migrate creates the tables.
func (s *Shop) Migrate(ctx context.Context) error {
	return s.engine.Context(ctx).Sync(&Printer{}, &Job{})
}

// AddColumn is a later migration.
func (s *Shop) AddColumn(ctx context.Context) error {
	_, err := s.engine.Context(ctx).Exec(`ALTER TABLE job ADD COLUMN color varchar(10)`)
	return err
}

// Install creates a printer.
func (s *Shop) Install(ctx context.Context, name string, paper int) (int64, error) {
	p := Printer{Name: name, Paper: paper}
	_, err := s.engine.Context(ctx).Insert(&p)
	return p.ID, err
}

// Submit creates a job; what it leaves open has its default.
func (s *Shop) Submit(ctx context.Context, title string) (int64, error) {
	j := Job{Title: title}
	_, err := s.engine.Context(ctx).Omit("state", "pages").InsertOne(&j)
	return j.ID, err
}

// Import creates many jobs at once.
func (s *Shop) Import(ctx context.Context, jobs []Job) (int64, error) {
	return s.engine.Context(ctx).Insert(&jobs)
}

// Refill adds paper to a printer, which it creates if need be.
func (s *Shop) Refill(ctx context.Context, name string, sheets int) (int64, error) {
	res, err := s.engine.Context(ctx).Exec(`INSERT INTO printer (name, paper) VALUES (?, ?) `+s.upsert, name, sheets)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Print sets the state of a job, by its version.
func (s *Shop) Print(ctx context.Context, title string) (int64, error) {
	var j Job
	if found, err := s.engine.Context(ctx).Where("title = ?", title).Get(&j); err != nil || !found {
		return 0, errors.Join(err, errNoJob(found))
	}
	j.State = "printed"
	return s.engine.Context(ctx).ID(j.ID).Cols("state").Update(&j)
}

func errNoJob(found bool) error {
	if found {
		return nil
	}
	return errors.New("no such job")
}

// Route sets the printer of all jobs where either condition holds.
func (s *Shop) Route(ctx context.Context, printer, state string, above int) (int64, error) {
	var p Printer
	if found, err := s.engine.Context(ctx).Where("name = ?", printer).Get(&p); err != nil || !found {
		return 0, errors.Join(err, errNoJob(found))
	}
	return s.engine.Context(ctx).Table(new(Job)).Where("state = ?", state).Or("pages > ?", above).
		Update(map[string]any{"printer_id": p.ID})
}

// Count subtracts paper, by an expression.
func (s *Shop) Count(ctx context.Context, printer string, sheets int) (int64, error) {
	return s.engine.Context(ctx).Where("name = ?", printer).Decr("paper", sheets).NoAutoCondition().Update(new(Printer))
}

// Cancel deletes a job softly.
func (s *Shop) Cancel(ctx context.Context, title string) (int64, error) {
	return s.engine.Context(ctx).Where("title = ?", title).Delete(new(Job))
}

// Purge deletes cancelled jobs for good.
func (s *Shop) Purge(ctx context.Context) (int64, error) {
	return s.engine.Context(ctx).Unscoped().Where("deleted_at IS NOT NULL").Delete(new(Job))
}

// Rename is raw SQL that returns rows.
func (s *Shop) Rename(ctx context.Context, from, to string) (int, error) {
	rows, err := s.engine.Context(ctx).QueryString(`UPDATE printer SET name = ? WHERE name = ? RETURNING id`, to, from)
	return len(rows), err
}

var errJam = errors.New("paper jam")

// Rush is a transaction with a savepoint that is rolled back.
func (s *Shop) Rush(ctx context.Context, title string) error {
	session := s.engine.NewSession().Context(ctx)
	defer session.Close()
	if err := session.Begin(); err != nil {
		return err
	}
	if _, err := session.Table(new(Job)).Where("title = ?", title).Update(map[string]any{"pages": 99}); err != nil {
		return err
	}
	if _, err := session.Exec(`SAVEPOINT attempt`); err != nil {
		return err
	}
	err := func() error {
		if _, err := session.Exec(`DELETE FROM job`); err != nil {
			return err
		}
		return errJam
	}()
	if !errors.Is(err, errJam) {
		return err
	}
	if _, err := session.Exec(`ROLLBACK TO SAVEPOINT attempt`); err != nil {
		return err
	}
	return session.Commit()
}

// Prepared writes with prepared statements, twice.
func (s *Shop) Prepared(ctx context.Context, printer string) error {
	session := s.engine.NewSession().Context(ctx).Prepare()
	defer session.Close()
	for range 2 {
		if _, err := session.Prepare().Exec(`UPDATE printer SET paper = paper - ? WHERE name = ?`, 2, printer); err != nil {
			return err
		}
	}
	return nil
}

// Queue reads.
func (s *Shop) Queue(ctx context.Context) (titles []string, err error) {
	err = s.engine.Context(ctx).Table(new(Job)).Cols("title").OrderBy("title").Find(&titles)
	return titles, err
}
