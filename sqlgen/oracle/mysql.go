package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mysqlConn is a connection to a server of MariaDB or MySQL, below database/sql:
// only there does a prepared statement tell how many parameters the server found.
type mysqlConn struct {
	conn driver.Conn
}

func connectMySQL(ctx context.Context, dsn string) (*mysqlConn, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &mysqlConn{conn}, nil
}

// mysqlEffect is what a program sees of a statement.
type mysqlEffect struct {
	Code         uint16 // of the error; 0 for none
	Error        string
	Affected, ID int64
	Rows         []string
}

func (e mysqlEffect) String() string {
	if e.Code != 0 {
		return fmt.Sprintf("%d: %s", e.Code, e.Error)
	}
	rows := strings.Join(e.Rows, " | ")
	if len(rows) > 200 {
		rows = rows[:200] + "…"
	}
	return fmt.Sprintf("%d affected, id %d, %d rows: %s", e.Affected, e.ID, len(e.Rows), rows)
}

func (e mysqlEffect) same(o mysqlEffect) bool {
	if e.Code != 0 || o.Code != 0 {
		return e.Code == o.Code
	}
	return e.Affected == o.Affected && e.ID == o.ID && strings.Join(e.Rows, "\n") == strings.Join(o.Rows, "\n")
}

// notPreparable is MySQL's error of a statement that it takes as a text alone.
const notPreparable = 1295

// parameters returns how many parameters the server finds in the text, or what
// it says against it. An error that is not the server's is fatal.
func (c *mysqlConn) parameters(text string) (n int, complaint *mysql.MySQLError, err error) {
	stmt, err := c.conn.Prepare(text)
	if errors.As(err, &complaint) {
		if complaint.Number == notPreparable { // it was understood
			return 0, nil, nil
		}
		return 0, complaint, nil
	}
	if err != nil {
		return 0, nil, err
	}
	n = stmt.NumInput()
	return n, nil, stmt.Close()
}

// run executes the text, prepared where the server prepares such.
func (c *mysqlConn) run(text string, args []driver.Value, returns bool) (e mysqlEffect, err error) {
	var complaint *mysql.MySQLError
	defer func() {
		if errors.As(err, &complaint) {
			e, err = mysqlEffect{Code: complaint.Number, Error: complaint.Message}, nil
		}
	}()
	stmt, err := c.conn.Prepare(text)
	if errors.As(err, &complaint) && complaint.Number == notPreparable && len(args) == 0 && !returns {
		_, err := c.conn.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
		return e, err
	}
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	if !returns {
		res, err := stmt.Exec(args)
		if err != nil {
			return e, err
		}
		if e.Affected, err = res.RowsAffected(); err != nil {
			return e, err
		}
		e.ID, err = res.LastInsertId()
		return e, err
	}
	rows, err := stmt.Query(args)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(row)
		if err == io.EOF {
			return e, nil
		}
		if err != nil {
			return e, err
		}
		var line strings.Builder
		for i, v := range row {
			if raw, ok := v.([]byte); ok {
				v = string(raw)
			}
			fmt.Fprintf(&line, "%s=%T:%v ", rows.Columns()[i], v, v)
		}
		e.Rows = append(e.Rows, line.String())
	}
}

// must executes a text of the oracle's own.
func (c *mysqlConn) must(texts ...string) error {
	for _, text := range texts {
		e, err := c.run(text, nil, false)
		if err == nil && e.Code != 0 {
			err = errors.New(e.String())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// column returns the first column of a query of the oracle's own.
func (c *mysqlConn) column(text string) ([]string, error) {
	e, err := c.run(text, nil, true)
	if err == nil && e.Code != 0 {
		err = errors.New(e.String())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	for i, row := range e.Rows {
		_, value, _ := strings.Cut(row, ":")
		e.Rows[i] = strings.TrimSuffix(value, " ")
	}
	return e.Rows, nil
}
