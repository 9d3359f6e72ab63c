package driver_test

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/sqlgen"
)

// interfaces lists every interface of database/sql/driver and what becomes of it
// behind the fence. "Iff" is: there if and only if the bare one has it; "as none":
// always there, and where the bare one lacks it the answer is the one that
// database/sql gives in its absence; "bare": the bare object itself is handed out.
var interfaces = map[string]string{
	"Driver":                         "always",
	"DriverContext":                  "as none",
	"Connector":                      "always",
	"Conn":                           "always",
	"Pinger":                         "as none",
	"Execer":                         "served by ExecerContext",
	"ExecerContext":                  "iff", // or Execer
	"Queryer":                        "served by QueryerContext",
	"QueryerContext":                 "iff", // or Queryer
	"ConnPrepareContext":             "as none",
	"ConnBeginTx":                    "as none",
	"SessionResetter":                "iff",
	"Validator":                      "iff",
	"NamedValueChecker":              "as none",
	"ColumnConverter":                "iff",
	"Stmt":                           "always",
	"StmtExecContext":                "as none",
	"StmtQueryContext":               "as none",
	"Tx":                             "always",
	"Result":                         "bare",
	"Rows":                           "bare without a token",
	"RowsNextResultSet":              "as none",
	"RowsColumnTypeScanType":         "as none",
	"RowsColumnTypeDatabaseTypeName": "as none",
	"RowsColumnTypeLength":           "as none",
	"RowsColumnTypeNullable":         "as none",
	"RowsColumnTypePrecisionScale":   "as none",
	"RowsColumnScanner":              "iff",           // Go 1.27
	"ScanContext":                    "of the values", // Go 1.27
	"Valuer":                         "of the values",
	"ValueConverter":                 "of the values",
}

// A new Go with a new optional interface has to be looked at.
func TestEveryInterfaceOfDatabaseSQLIsAccountedFor(t *testing.T) {
	folder := filepath.Join(runtime.GOROOT(), "src", "database", "sql", "driver") //nolint:staticcheck // the sources of the Go that runs this
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources in %s: %v", folder, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, isInterface := spec.Type.(*ast.InterfaceType); isInterface && interfaces[spec.Name.Name] == "" && spec.Name.Name != "Value" {
					t.Errorf("driver.%s is not in the table", spec.Name.Name)
				}
			}
			return true
		})
	}
}

// contextDriver is a driver with connectors.
type contextDriver struct {
	oneDriver
	names *[]string
}

func (d contextDriver) OpenConnector(name string) (driver.Connector, error) {
	*d.names = append(*d.names, name)
	return oneConnector{d.c}, nil
}

func TestDriverContext(t *testing.T) {
	var names []string
	for _, parent := range []driver.Driver{oneDriver{bareConn{}}, contextDriver{oneDriver{bareConn{}}, &names}} {
		w := fence.Wrap(parent, sqlgen.SQLite)
		c, err := w.(driver.DriverContext).OpenConnector("some name")
		if err != nil {
			t.Fatal(err)
		}
		if c.Driver() != w {
			t.Errorf("%T: the connector's driver is %T", parent, c.Driver())
		}
		conn, err := c.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := fence.Raw(conn); !ok {
			t.Errorf("%T: a bare connection", parent)
		}
	}
	if fmt.Sprint(names) != "[some name]" {
		t.Errorf("the parent was asked for connectors %q, want one", names)
	}
}

// statements with and without what is optional.
type plainStmtConn struct{ bareConn }

func TestStmtHasTheInterfacesOfTheBareOne(t *testing.T) {
	for _, raw := range []driver.Conn{plainStmtConn{}, converterConn{}, checkerStmtConn{}} {
		bare, err := raw.Prepare("UPDATE d SET v = $1")
		if err != nil {
			t.Fatal(err)
		}
		s, err := wrapped(t, raw).Prepare("UPDATE d SET v = $1")
		if err != nil {
			t.Fatal(err)
		}
		_, want := bare.(driver.ColumnConverter)
		if _, got := s.(driver.ColumnConverter); got != want {
			t.Errorf("%T: ColumnConverter: got %v", raw, got)
		}
		checker, has := bare.(driver.NamedValueChecker)
		wantErr := driver.ErrSkip
		if has {
			wantErr = checker.CheckNamedValue(&driver.NamedValue{Value: odd{1}})
		}
		if err := s.(driver.NamedValueChecker).CheckNamedValue(&driver.NamedValue{Value: odd{1}}); err != wantErr {
			t.Errorf("%T: CheckNamedValue: got %v, want %v", raw, err, wantErr)
		}
		if got, want := s.NumInput(), bare.NumInput(); got != want {
			t.Errorf("%T: NumInput %d, want %d", raw, got, want)
		}
	}
}

// typedRows tell everything of their columns.
type typedRows struct{ oneRow }

func (typedRows) ColumnTypeDatabaseTypeName(int) string              { return "ODD" }
func (typedRows) ColumnTypeLength(int) (int64, bool)                 { return 7, true }
func (typedRows) ColumnTypeNullable(int) (nullable, ok bool)         { return true, true }
func (typedRows) ColumnTypePrecisionScale(int) (p, s int64, ok bool) { return 5, 2, true }
func (typedRows) ColumnTypeScanType(int) reflect.Type                { return reflect.TypeFor[odd]() }
func (typedRows) HasNextResultSet() bool                             { return false }
func (typedRows) NextResultSet() error                               { return fmt.Errorf("no further set") }

type rowsConn struct {
	bareConn
	rows func() driver.Rows
}

func (c rowsConn) Prepare(query string) (driver.Stmt, error) {
	return rowsStmt{bareStmt{c.bareConn, query}, c.rows}, nil
}

type rowsStmt struct {
	bareStmt
	rows func() driver.Rows
}

func (s rowsStmt) Query(args []driver.Value) (driver.Rows, error) {
	if strings.Contains(s.query, "UPDATE d") {
		return s.rows(), nil
	}
	return s.bareStmt.Query(args)
}

// What the rows of a guarded statement tell of their columns is what the bare
// rows tell, or what database/sql says where they tell nothing.
func TestRowsTellWhatTheBareOnesTell(t *testing.T) {
	ctx := guard.With(t.Context(), guard.Token{Resource: "r", Epoch: 7})
	for name, rows := range map[string]func() driver.Rows{
		"nothing":    func() driver.Rows { return &oneRow{value: int64(1)} },
		"everything": func() driver.Rows { return &typedRows{oneRow{value: int64(1)}} },
	} {
		see := func(connector driver.Connector) string {
			db := sql.OpenDB(connector)
			defer db.Close()
			r, err := db.QueryContext(ctx, "UPDATE d SET v = 1 RETURNING c")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			types, err := r.ColumnTypes()
			if err != nil {
				t.Fatal(err)
			}
			seen := ""
			for _, c := range types {
				length, hasLength := c.Length()
				nullable, hasNullable := c.Nullable()
				precision, scale, hasDecimal := c.DecimalSize()
				seen += fmt.Sprintln(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, nullable, hasNullable, precision, scale, hasDecimal)
			}
			for r.Next() {
				var v any
				seen += fmt.Sprintln(r.Scan(&v), v)
			}
			return seen + fmt.Sprintln(r.NextResultSet(), r.Err())
		}
		raw := rowsConn{rows: rows}
		bare, got := see(oneConnector{raw}), see(fence.WrapConnector(oneConnector{raw}, sqlgen.PostgreSQL))
		if got != bare {
			t.Errorf("rows that tell %s:\n got %s\nbare %s", name, got, bare)
		}
	}
}
