package main

import (
	"context"
	"database/sql"
)

// The application. It knows database/sql and the context that it is handed,
// and nothing of leases and fences: this file imports nothing else.

// jobs is the application's table.
type jobs struct {
	db    *sql.DB
	table string
}

// add inserts a row.
func (j jobs) add(ctx context.Context, id int, value string) error {
	_, err := j.db.ExecContext(ctx, `INSERT INTO `+j.table+` (id, value) VALUES ($1, $2)`, id, value)
	return err
}

// finish updates a row.
func (j jobs) finish(ctx context.Context, id int, value string) error {
	_, err := j.db.ExecContext(ctx, `UPDATE `+j.table+` SET value = $1 WHERE id = $2`, value, id)
	return err
}

// cancel deletes a row.
func (j jobs) cancel(ctx context.Context, id int) error {
	_, err := j.db.ExecContext(ctx, `DELETE FROM `+j.table+` WHERE id = $1`, id)
	return err
}
