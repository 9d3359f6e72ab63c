package cart_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sqlfence/sqlfence/examples/libraries/repertoire"
	cart "github.com/sqlfence/sqlfence/examples/libraries/scs"
	after "github.com/sqlfence/sqlfence/examples/libraries/scs/after"
	before "github.com/sqlfence/sqlfence/examples/libraries/scs/before"
)

func TestOnPostgreSQL(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.PostgreSQL,
		Before: program(before.OpenPostgreSQL, cart.NewPostgreSQL),
		After:  program(after.OpenPostgreSQL, cart.NewPostgreSQL),
		Apart:  []string{"sessions"},
	})
}

func TestOnSQLite(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.SQLite,
		Before: program(before.OpenSQLite, cart.NewSQLite),
		After:  program(after.OpenSQLite, cart.NewSQLite),
		Apart:  []string{"sessions"},
	})
}

func TestOnMariaDB(t *testing.T) {
	repertoire.Play(t, repertoire.Subject{
		Engine: repertoire.MariaDB,
		Before: program(before.OpenMariaDB, cart.NewMariaDB),
		After:  program(after.OpenMariaDB, cart.NewMariaDB),
		Apart:  []string{"sessions"},
	})
}

func program(open func(dsn string) (*sql.DB, error), start func(*sql.DB) *cart.Web) func(context.Context, string) (*repertoire.Program, error) {
	return func(ctx context.Context, dsn string) (*repertoire.Program, error) {
		db, err := open(dsn)
		if err != nil {
			return nil, err
		}
		w := start(db)
		if err := w.Migrate(ctx); err != nil {
			return nil, err
		}
		return &repertoire.Program{Closer: w, Operations: operations(w)}, nil
	}
}

// visitor asks the shop and keeps its cookie.
type visitor struct {
	shop    http.Handler
	cookies []*http.Cookie
}

func (v *visitor) get(ctx context.Context, path string) (int, string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	rw := httptest.NewRecorder()
	v.shop.ServeHTTP(rw, r)
	if got := rw.Result().Cookies(); len(got) > 0 {
		v.cookies = got
	}
	return rw.Code, rw.Body.String()
}

func operations(w *cart.Web) []repertoire.Operation {
	type ctx = context.Context
	v := &visitor{shop: w.Handler()}
	return []repertoire.Operation{
		{Name: "create", Do: func(c ctx) (any, error) { return w.Order(c, "tea", "milk") }},
		{Name: "partial update", Do: func(c ctx) (any, error) { return w.Ship(c) }},
		{Name: "a session is saved", Read: true, Do: func(c ctx) (any, error) {
			code, _ := v.get(c, "/add?article=salt")
			if code != http.StatusNoContent {
				return code, errors.New("the session was not saved")
			}
			return code, nil
		}},
		{Name: "a session is loaded and saved again", Read: true, Do: func(c ctx) (any, error) {
			code, _ := v.get(c, "/add?article=rice")
			if code != http.StatusNoContent {
				return code, errors.New("the session was not saved")
			}
			return code, nil
		}},
	}
}

// A refused order leaves the visitor's cart as it is, since scs saves sessions outside
// of the token.
func TestARefusedOrderLeavesTheCart(t *testing.T) {
	cartIsLeft(t, repertoire.PostgreSQL, after.OpenPostgreSQL, cart.NewPostgreSQL)
	cartIsLeft(t, repertoire.SQLite, after.OpenSQLite, cart.NewSQLite)
	cartIsLeft(t, repertoire.MariaDB, after.OpenMariaDB, cart.NewMariaDB)
}

func cartIsLeft(t *testing.T, engine repertoire.Engine, open func(dsn string) (*sql.DB, error), start func(*sql.DB) *cart.Web) {
	engine.Fenced(t, func(t *testing.T, dsn string, stale, valid context.Context) {
		db, err := open(dsn)
		if err != nil {
			t.Fatal(err)
		}
		w := start(db)
		t.Cleanup(func() { w.Close() })
		if err := w.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := &visitor{shop: w.Handler()}
		for _, step := range []struct {
			ctx  context.Context
			path string
			want int
		}{
			{stale, "/add?article=salt", http.StatusNoContent},
			{stale, "/buy", http.StatusInternalServerError},
			{valid, "/buy", http.StatusCreated},
			{valid, "/buy", http.StatusInternalServerError}, // the cart is empty
		} {
			if code, body := v.get(step.ctx, step.path); code != step.want {
				t.Fatalf("%s: %d %s, want %d", step.path, code, body, step.want)
			}
		}
	})
}
