package main

import (
	"context"
	"database/sql"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/lease"
	leasemysql "github.com/sqlfence/sqlfence/lease/mysql"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// openMySQL makes a database on the server of the DSN.
func openMySQL(ctx context.Context, p *place, dsn string) error {
	server, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	p.later(server.Close)
	var version string
	if err := server.QueryRowContext(ctx, `SELECT VERSION()`).Scan(&version); err != nil {
		return err
	}
	number, rest, _ := strings.Cut(version, "-")
	engine := "MySQL"
	if strings.Contains(rest, "MariaDB") {
		engine = "MariaDB"
	}
	p.name, p.wire = engine+" "+number, true
	name := unique()
	if _, err := server.ExecContext(ctx, `CREATE DATABASE `+name); err != nil {
		return err
	}
	p.later(func() error {
		_, err := server.ExecContext(context.WithoutCancel(ctx), `DROP DATABASE `+name)
		return err
	})
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	config.DBName = name
	open := func(driver string, config *mysql.Config) (*sql.DB, error) {
		db, err := sql.Open(driver, config.FormatDSN())
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(2 * mostClients)
		db.SetMaxIdleConns(2 * mostClients)
		p.later(db.Close)
		return db, nil
	}
	db, err := open("mysql", config)
	if err != nil {
		return err
	}
	if err := guard.Migrate(ctx, db, sqlgen.MySQL); err != nil {
		return err
	}
	settings, err := values(ctx, db, `SELECT variable_value FROM information_schema.global_variables WHERE variable_name = ?`, "innodb_flush_log_at_trx_commit")
	if engine == "MySQL" {
		settings, err = values(ctx, db, `SELECT variable_value FROM performance_schema.global_variables WHERE variable_name = ?`, "innodb_flush_log_at_trx_commit")
	}
	if err != nil {
		return err
	}
	p.settings = "go-sql-driver/mysql; " + settings
	p.polling = func(context.Context) (lease.Store, error) {
		db, err := open("mysql", config)
		return leasemysql.New(db), err
	}
	p.counted = func(_ context.Context, c *count) (lease.Store, bulk, error) {
		counted := config.Clone()
		counted.Net = unique()
		mysql.RegisterDialContext(counted.Net, func(ctx context.Context, address string) (net.Conn, error) {
			return c.dial(ctx, config.Net, address)
		})
		db, err := open(c.register(&mysql.MySQLDriver{}), counted)
		return leasemysql.New(db), inOne(db, func(tx *sql.Tx) lease.Store { return leasemysql.New(tx) }), err
	}
	p.ways = append(p.ways, twoUpdates(db, `UPDATE yardstick SET n = n + ? WHERE id = ?`))
	if err := makeYardstick(ctx, db); err != nil {
		return err
	}
	return p.addSqlfence(ctx)
}
