// Package pgxlisten lets a lease store on PostgreSQL listen for releases over a
// connection of pgx.
//
//	store := leasepg.New(db, leasepg.Notifications(pgxlisten.New(dsn)))
//
// The name must lead straight to the server: a pooler in transaction mode delivers
// no notifications.
package pgxlisten

import (
	"context"

	"github.com/jackc/pgx/v5"

	leasepg "github.com/sqlfence/sqlfence/lease/postgres"
)

type listener struct{ dsn string }

// New returns a listener that connects to a URL or keyword/value string, as
// [pgx.Connect] takes it.
func New(dsn string) leasepg.Listener { return listener{dsn} }

func (l listener) Connect(ctx context.Context) (leasepg.Connection, error) {
	config, err := pgx.ParseConfig(l.dsn)
	if err != nil {
		return nil, err
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "sqlfence listener"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return connection{conn}, nil
}

type connection struct{ conn *pgx.Conn }

func (c connection) Exec(ctx context.Context, text string) error {
	_, err := c.conn.Exec(ctx, text)
	return err
}

func (c connection) QueryBool(ctx context.Context, text, arg string) (result bool, err error) {
	err = c.conn.QueryRow(ctx, text, arg).Scan(&result)
	return result, err
}

func (c connection) Wait(ctx context.Context) (channel, payload string, err error) {
	n, err := c.conn.WaitForNotification(ctx)
	if err != nil {
		return "", "", err
	}
	return n.Channel, n.Payload, nil
}

func (c connection) Close(ctx context.Context) error { return c.conn.Close(ctx) }
