package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
	"github.com/sqlfence/sqlfence/lease/postgres/pgxlisten"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// openPostgreSQL makes a database on the server of the URL.
func openPostgreSQL(ctx context.Context, p *place, dsn string) error {
	server, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	p.later(server.Close)
	var version string
	if err := server.QueryRowContext(ctx, `SHOW server_version`).Scan(&version); err != nil {
		return err
	}
	version, _, _ = strings.Cut(version, " ") // without the packager's addition
	p.name, p.wire = "PostgreSQL "+version, true
	name := unique()
	if _, err := server.ExecContext(ctx, `CREATE DATABASE `+name); err != nil {
		return err
	}
	p.later(func() error {
		_, err := server.ExecContext(context.WithoutCancel(ctx), `DROP DATABASE `+name+` WITH (FORCE)`)
		return err
	})
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	u.Path = "/" + name
	dsn = u.String()
	open := func(driver, dsn string) (*sql.DB, error) {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(2 * mostClients)
		db.SetMaxIdleConns(2 * mostClients)
		p.later(db.Close)
		return db, nil
	}
	db, err := open("pgx", dsn)
	if err != nil {
		return err
	}
	if err := guard.Migrate(ctx, db, sqlgen.PostgreSQL); err != nil {
		return err
	}
	settings, err := values(ctx, db, `SELECT current_setting($1)`, "synchronous_commit", "fsync")
	if err != nil {
		return err
	}
	p.settings = "pgx through database/sql in its default mode; " + settings

	p.polling = func(context.Context) (lease.Store, error) {
		db, err := open("pgx", dsn)
		return leasepg.New(db), err
	}
	p.notifying = func(context.Context) (lease.Store, error) {
		db, err := open("pgx", dsn)
		s := leasepg.New(db, leasepg.Notifications(pgxlisten.New(dsn)))
		p.later(s.Close)
		return s, err
	}
	p.counted = func(_ context.Context, c *count) (lease.Store, bulk, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, nil, err
		}
		config.DialFunc = c.dial
		db, err := open(c.register(stdlib.GetDefaultDriver()), stdlib.RegisterConnConfig(config))
		return leasepg.New(db), inOne(db, func(tx *sql.Tx) lease.Store { return leasepg.New(tx) }), err
	}
	p.ways = append(p.ways, twoUpdates(db, `UPDATE yardstick SET n = n + $1 WHERE id = $2`))
	if err := makeYardstick(ctx, db); err != nil {
		return err
	}
	if err := p.addSqlfence(ctx); err != nil {
		return err
	}
	return p.addRiver(ctx, db)
}

// values returns settings of a server, as "name=value".
func values(ctx context.Context, db *sql.DB, query string, names ...string) (string, error) {
	for i, name := range names {
		var value string
		if err := db.QueryRowContext(ctx, query, name).Scan(&value); err != nil {
			return "", err
		}
		names[i] = name + "=" + value
	}
	return strings.Join(names, ", "), nil
}

// makeYardstick creates a table with a row for each client.
func makeYardstick(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `CREATE TABLE yardstick (id integer PRIMARY KEY, n bigint NOT NULL)`); err != nil {
		return err
	}
	for client := range mostClients {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO yardstick VALUES (%d, 0)`, client)); err != nil {
			return err
		}
	}
	return nil
}

// twoUpdates is the least that could change a state in a table and back.
func twoUpdates(db *sql.DB, update string) way {
	return way{name: "two autocommit UPDATEs of one row", pair: func(ctx context.Context, client int) (func() error, error) {
		return func() error {
			for range 2 {
				result, err := db.ExecContext(ctx, update, 1, client)
				if err != nil {
					return err
				}
				if n, err := result.RowsAffected(); err != nil || n != 1 {
					return fmt.Errorf("%d rows were updated (%w)", n, err)
				}
			}
			return nil
		}, nil
	}}
}

// addRiver adds the statements of River's leader election, executed by River's own
// driver. River elects one leader per schema, so each client has a schema.
func (p *place) addRiver(ctx context.Context, db *sql.DB) error {
	schema := func(client int) string { return fmt.Sprintf("river_%d", client) }
	driver := riverdatabasesql.New(db)
	for client := range mostClients {
		if _, err := db.ExecContext(ctx, `CREATE SCHEMA `+schema(client)); err != nil {
			return err
		}
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema(client)})
		if err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
	}
	exec := driver.GetExecutor()
	resign := func(ctx context.Context, client int, leader *riverdriver.Leader) error {
		resigned, err := exec.LeaderResign(ctx, &riverdriver.LeaderResignParams{
			ElectedAt: leader.ElectedAt, LeaderID: leader.LeaderID, LeadershipTopic: "river_leadership", Schema: schema(client),
		})
		if err == nil && !resigned {
			err = errors.New("did not resign")
		}
		return err
	}
	p.ways = append(p.ways,
		way{name: "River: LeaderAttemptElect, LeaderResign", peer: true, pair: func(ctx context.Context, client int) (func() error, error) {
			return func() error {
				leader, err := exec.LeaderAttemptElect(ctx, elect(client, schema(client)))
				if err != nil {
					return err
				}
				return resign(ctx, client, leader)
			}, nil
		}},
		// As the elector of River 0.51 does it (attemptElectWithTimeout).
		way{name: "River's elector: BEGIN, LeaderDeleteExpired, LeaderAttemptElect, COMMIT; LeaderResign", peer: true,
			pair: func(ctx context.Context, client int) (func() error, error) {
				return func() error {
					tx, err := exec.Begin(ctx)
					if err != nil {
						return err
					}
					defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
					if _, err := tx.LeaderDeleteExpired(ctx, &riverdriver.LeaderDeleteExpiredParams{Schema: schema(client)}); err != nil {
						return err
					}
					leader, err := tx.LeaderAttemptElect(ctx, elect(client, schema(client)))
					if err != nil {
						return err
					}
					if err := tx.Commit(ctx); err != nil {
						return err
					}
					return resign(ctx, client, leader)
				}, nil
			}})
	return nil
}

func elect(client int, schema string) *riverdriver.LeaderElectParams {
	return &riverdriver.LeaderElectParams{LeaderID: fmt.Sprintf("client-%d", client), Schema: schema, TTL: 30 * time.Second}
}
