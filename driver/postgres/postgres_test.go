package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	fence "github.com/sqlfence/sqlfence/driver"
	"github.com/sqlfence/sqlfence/driver/internal/drivertest"
	"github.com/sqlfence/sqlfence/driver/postgres"
	"github.com/sqlfence/sqlfence/guard"
	"github.com/sqlfence/sqlfence/internal/leak"
	"github.com/sqlfence/sqlfence/internal/testserver"
	"github.com/sqlfence/sqlfence/sqlgen"
)

func TestMain(m *testing.M) {
	leak.Main(m, goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"))
}

func open(t *testing.T, name, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(name, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// on returns the engine on one server.
func on(dsn func(t *testing.T) string) drivertest.Engine {
	return drivertest.Engine{
		Engine: sqlgen.PostgreSQL,
		New: func(t *testing.T) (fenced, bare *sql.DB) {
			dsn := dsn(t)
			fenced, bare = open(t, postgres.DriverName, dsn), open(t, "pgx", dsn)
			if err := guard.Migrate(t.Context(), bare, sqlgen.PostgreSQL); err != nil {
				t.Fatal(err)
			}
			return fenced, bare
		},
		Refused: []string{
			"UPDATE d SET v = 'x'; DELETE FROM d",
			"SELECT 1; UPDATE d SET v = 'x'",
			"UPDATE d SET v = 'x' WHERE ((id = 1)",
			"COPY d FROM STDIN",
			"VACUUM d",
			"nonsense about d",
		},
	}
}

// each runs the test on every server.
func each(t *testing.T, test func(t *testing.T, e drivertest.Engine)) {
	for _, server := range testserver.PostgreSQL(t) {
		t.Run("PostgreSQL_"+server.Version, func(t *testing.T) {
			test(t, on(func(t *testing.T) string { return server.Database(t) }))
		})
	}
}

// eachWorld does so with a world.
func eachWorld(t *testing.T, test func(t *testing.T, w *drivertest.World)) {
	each(t, func(t *testing.T, e drivertest.Engine) { test(t, drivertest.NewWorld(t, e)) })
}

func TestG5AndG6EveryKindOfWriteOnEveryRoad(t *testing.T) { each(t, drivertest.EveryKind) }

func TestG4FailClosed(t *testing.T) { each(t, drivertest.FailClosed) }

func TestG8AFencedTransactionCannotCommit(t *testing.T) { each(t, drivertest.PoisonedTransaction) }

func TestG9TheExecutingContextDecides(t *testing.T) { each(t, drivertest.ExecutingContextDecides) }

func TestManyGoroutines(t *testing.T) { each(t, drivertest.Race) }

// config returns the configuration of the database behind db.
func config(t *testing.T, db *sql.DB) *pgx.ConnConfig {
	t.Helper()
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var cfg *pgx.ConnConfig
	if err := c.Raw(func(dc any) error {
		cfg = dc.(*stdlib.Conn).Conn().Config()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// everyServer returns the engine on each server.
func everyServer(t *testing.T) (all []drivertest.Engine) {
	for _, server := range testserver.PostgreSQL(t) {
		all = append(all, on(func(t *testing.T) string { return server.Database(t) }))
	}
	return all
}

// bareLike opens the database of the world with changes and without the fence.
func bareLike(t *testing.T, w *drivertest.World, change func(*pgx.ConnConfig)) *sql.DB {
	t.Helper()
	cfg := config(t, w.Bare)
	change(cfg)
	db := sql.OpenDB(stdlib.GetConnector(*cfg))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// like opens the database of the world behind the fence, with changes.
func like(t *testing.T, w *drivertest.World, change func(*pgx.ConnConfig), opts ...fence.Option) *sql.DB {
	t.Helper()
	cfg := config(t, w.Bare)
	if change != nil {
		change(cfg)
	}
	db := sql.OpenDB(postgres.WrapConnector(stdlib.GetConnector(*cfg), opts...))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestPolicies(t *testing.T) {
	each(t, func(t *testing.T, e drivertest.Engine) {
		drivertest.Policies(t, e, func(t *testing.T, w *drivertest.World, p guard.Policy) *sql.DB {
			return like(t, w, nil, fence.WithPolicy(p))
		})
	})
}

func TestBindingsAndAudit(t *testing.T) {
	each(t, func(t *testing.T, e drivertest.Engine) {
		drivertest.BindingsAndAudit(t, e, func(t *testing.T, w *drivertest.World, p guard.Policy) *sql.DB {
			return like(t, w, nil, fence.WithPolicy(p))
		})
	})
}

func TestDatabaseThatIsNotSetUp(t *testing.T) {
	testserver.EachPostgreSQL(t, func(t *testing.T, dsn string) {
		w := &drivertest.World{T: t, Engine: on(nil), Bare: open(t, "pgx", dsn)}
		drivertest.NotSetUp(t, w, open(t, postgres.DriverName, dsn))
	})
}

// CASES D33: a role without the privileges learns which GRANTs are missing, and
// with exactly these it can write.
func TestMissingPrivileges(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE ROLE sqlfence_app_`+config(t, w.Bare).Database+` LOGIN`)
		role := "sqlfence_app_" + config(t, w.Bare).Database
		defer w.Must(w.Bare, `DROP OWNED BY `+role+`; DROP ROLE `+role)
		w.Must(w.Bare, `GRANT SELECT, INSERT, UPDATE, DELETE ON d TO `+role)
		db := like(t, w, nil)
		defer db.Close()
		c := w.Conn(db)
		w.Must(c, `SET ROLE `+role)
		for range 2 {
			_, err := c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'x'`)
			var s *guard.SetupError
			if !errors.As(err, &s) || !strings.Contains(s.Remedy, "GRANT") {
				t.Errorf("got error %v, want a SetupError with GRANTs", err)
			}
		}
		w.IsUntouched()
		w.Must(w.Bare, sqlgen.Grants(sqlgen.PostgreSQL, role))
		_, err := c.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
		w.Want("with the GRANTs", err, nil)
		_, err = c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = v`)
		w.Want("a stale token", err, guard.ErrFenced)
		w.Must(c, `RESET ROLE`)
		w.Want("Close", c.Close(), nil)
	})
}

// waiting returns when a session of this database waits for an advisory lock.
func waiting(t *testing.T, db *sql.DB) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nobody waits")
}

// SPEC G1, at the driver: the takeover waits for a transaction with a guarded
// write, and whatever comes after it is refused, at every isolation level.
func TestG1NoStaleWriteAfterATakeover(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		ctx := w.With(drivertest.Current)
		open := func(level sql.IsolationLevel) *sql.Tx {
			tx, err := w.Fenced.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			if err := tx.QueryRow(`SELECT count(*) FROM d`).Scan(new(int)); err != nil {
				t.Fatal(err)
			}
			return tx
		}
		levels := []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
		var early []*sql.Tx
		for _, level := range levels {
			early = append(early, open(level))
		}
		writing := open(sql.LevelReadCommitted)
		if _, err := writing.Exec(`UPDATE d SET v = 'in time' WHERE id = 1`); err != nil {
			t.Fatal(err)
		}
		moved := make(chan error)
		go func() {
			moved <- guard.NewFence(w.Bare, sqlgen.PostgreSQL).Advance(context.Background(), drivertest.Unknown)
		}()
		waiting(t, w.Bare)
		select {
		case err := <-moved:
			t.Fatalf("the mark moved while a guarded transaction was open: %v", err)
		default:
		}
		w.Want("Commit", writing.Commit(), nil)
		w.Want("Advance", <-moved, nil)
		after := w.Table()
		for i, tx := range early {
			_, err := tx.Exec(`UPDATE d SET v = 'late' WHERE id = 2`)
			if levels[i] == sql.LevelReadCommitted {
				w.Want("a transaction that was open", err, guard.ErrFenced)
				w.Want("its Commit", tx.Commit(), guard.ErrFenced)
				continue
			}
			// An old snapshot: a serialization failure, and a retry is fenced.
			var p *pgconn.PgError
			if !errors.Is(err, guard.ErrFenced) && !(errors.As(err, &p) && p.Code == "40001") {
				t.Errorf("%s: got error %v", levels[i], err)
			}
			_ = tx.Rollback()
		}
		_, err := w.Fenced.ExecContext(ctx, `UPDATE d SET v = 'late' WHERE id = 2`)
		w.Want("autocommit", err, guard.ErrFenced)
		if got := w.Table(); got != after {
			t.Errorf("the table reads %q, want %q", got, after)
		}
		_, err = w.Fenced.ExecContext(w.With(drivertest.Unknown), `UPDATE d SET v = 'new owner' WHERE id = 2`)
		w.Want("the new owner", err, nil)
	})
}

// SPEC G6: constant-false conditions that PostgreSQL's planner removes, and the
// statement triggers of the user.
func TestG6FencedIsNotNoRows(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, text := range []string{
			`CREATE TABLE fired (n int)`,
			`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (1); RETURN NULL; END $$`,
			`CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON d FOR EACH STATEMENT EXECUTE FUNCTION note()`,
			`CREATE TABLE parted (id int, v text) PARTITION BY LIST (id)`,
			`CREATE TABLE part1 PARTITION OF parted FOR VALUES IN (1)`,
			`INSERT INTO parted VALUES (1, 'one')`,
		} {
			if _, err := w.Bare.Exec(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		w.Must(w.Bare, `TRUNCATE fired`)
		for _, x := range []struct {
			text string
			args []any
		}{
			{`UPDATE d SET v = 'x' WHERE false`, nil},
			{`UPDATE d SET v = 'x' WHERE 1 = 0`, nil},
			{`UPDATE d SET v = 'x' WHERE id = $1`, []any{nil}},
			{`UPDATE d SET v = 'x' WHERE $1`, []any{false}},
			{`UPDATE d SET v = 'x' WHERE id IN (NULL)`, nil},
			{`UPDATE d SET v = 'x' WHERE id = 1 AND id = 2`, nil},
			{`UPDATE parted SET v = 'x' WHERE id = 99`, nil},
			{`DELETE FROM d WHERE NULL`, nil},
			{`DELETE FROM parted WHERE id = 99`, nil},
			{`INSERT INTO d (id) SELECT 9 WHERE false`, nil},
		} {
			for _, db := range []*sql.DB{w.Fenced} {
				_, err := db.ExecContext(w.With(drivertest.Stale), x.text, x.args...)
				w.Want("stale: "+x.text, err, guard.ErrFenced)
				res, err := db.ExecContext(w.With(drivertest.Current), x.text, x.args...)
				w.Want("valid: "+x.text, err, nil)
				if err == nil {
					if n, _ := res.RowsAffected(); n != 0 {
						t.Errorf("valid: %s: %d rows", x.text, n)
					}
				}
			}
		}
		w.Must(w.Bare, `TRUNCATE fired`)
		_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'x' WHERE false`)
		w.Want("stale", err, guard.ErrFenced)
		var fired int
		if err := w.Bare.QueryRow(`SELECT count(*) FROM fired`).Scan(&fired); err != nil || fired != 0 {
			t.Errorf("the user's trigger fired %d times for a stale owner, %v", fired, err)
		}
		w.IsUntouched()
	})
}

// SPEC G10: nothing that a user may name changes what the fence calls.
func TestG10NoCapture(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		for _, text := range []string{
			`CREATE SCHEMA evil`,
			`CREATE FUNCTION evil.pass(text, int8, int8) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
			`CREATE FUNCTION evil.always(int8, int8) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
			`CREATE OPERATOR evil.> (LEFTARG = int8, RIGHTARG = int8, FUNCTION = evil.always)`,
			`CREATE OPERATOR evil.< (LEFTARG = int8, RIGHTARG = int8, FUNCTION = evil.always)`,
			`CREATE OPERATOR evil.<> (LEFTARG = int8, RIGHTARG = int8, FUNCTION = evil.always)`,
			`CREATE FUNCTION evil.yes(int8, int8) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
			`CREATE OPERATOR evil.= (LEFTARG = int8, RIGHTARG = int8, FUNCTION = evil.yes)`,
			`CREATE DOMAIN evil.int8 AS text`,
			`CREATE TABLE evil.fences (resource text, high_water int8, grant_id int8)`,
			`CREATE TABLE evil.nothing ()`,
			`CREATE TABLE sqlfence_k (ok boolean, id int)`,
			`CREATE TABLE sqlfence_guard (ok boolean)`,
			`INSERT INTO sqlfence_k VALUES (true, 1)`,
			`SET search_path = evil, pg_catalog, public`,
			`CREATE TEMP TABLE fences (resource text, high_water int8, grant_id int8)`,
			`CREATE TEMP TABLE nothing ()`,
		} {
			w.Must(c, text)
		}
		for _, text := range []string{
			`UPDATE d SET v = 'x'`,
			`DELETE FROM d`,
			`INSERT INTO d (id) VALUES (9)`,
			`UPDATE sqlfence_k SET id = 2`,
			`UPDATE d SET v = 'x' FROM sqlfence_k WHERE sqlfence_k.ok`,
			`WITH sqlfence_k AS (SELECT true AS ok), sqlfence_guard AS (SELECT 1) UPDATE d SET v = 'x' FROM sqlfence_k WHERE ok`,
			`WITH sqlfence_guard AS (SELECT 1) INSERT INTO d (id) SELECT 9 FROM sqlfence_guard`,
		} {
			_, err := c.ExecContext(w.With(drivertest.Stale), text)
			w.Want("stale: "+text, err, guard.ErrFenced)
			w.IsUntouched()
			_, err = c.ExecContext(w.With(drivertest.Current), text)
			w.Want("valid: "+text, err, nil)
			if strings.Contains(text, " d ") && w.Table() == drivertest.Untouched {
				t.Errorf("valid: %s did nothing", text)
			}
			w.Reset()
		}
		w.Must(c, `DISCARD ALL`)
		w.Want("Close", c.Close(), nil)
	})
}

// SPEC G13: two grants of one epoch.
func TestG13TwoGrantsOfOneEpoch(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		_, err := w.Fenced.ExecContext(w.With(drivertest.Rival), `UPDATE d SET v = 'rival'`)
		var f *guard.FencedError
		if !errors.As(err, &f) || f.HighWater != f.Token.Epoch || f.Token != drivertest.Rival {
			t.Errorf("the other grant: %v", err)
		}
		var p *pgconn.PgError
		if !errors.As(err, &p) {
			t.Errorf("the server's error is lost: %v", err)
		}
		w.IsUntouched()
		_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'mine'`)
		w.Want("the grant of the mark", err, nil)
	})
}

// CASES D20: every execution mode of pgx gives the same verdicts.
func TestExecModes(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
			pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			for _, leading := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, as an argument %v", mode, leading), func(t *testing.T) {
					w := w.In(t)
					db := like(t, w, func(c *pgx.ConnConfig) {
						if !leading {
							c.DefaultQueryExecMode = mode
						}
					})
					args := func(a ...any) []any {
						if leading {
							a = append([]any{mode}, a...)
						}
						return a
					}
					for _, x := range []struct {
						ctx  context.Context
						want error
					}{{t.Context(), nil}, {w.With(drivertest.Current), nil}, {w.With(drivertest.Current, drivertest.Other), nil},
						{w.With(drivertest.Stale), guard.ErrFenced}, {w.With(drivertest.Unknown), guard.ErrUnregistered}} {
						w.Reset()
						_, err := db.ExecContext(x.ctx, `UPDATE d SET v = $1, n = -$2::int WHERE id = $3`, args("mode", 5, 1)...)
						w.Want("Exec", err, x.want)
						_, err = db.ExecContext(x.ctx, `UPDATE d SET v = $tag$ $1 $tag$ WHERE id = 2`, args()...)
						w.Want("Exec without arguments", err, x.want)
						var v string
						err = db.QueryRowContext(x.ctx, `INSERT INTO d (id, v) VALUES ($1, $2) RETURNING v`, args(4, "four")...).Scan(&v)
						w.Want("QueryRow", err, x.want)
						err = db.QueryRowContext(x.ctx, `DELETE FROM d WHERE id = 3 RETURNING v`, args()...).Scan(&v)
						w.Want("QueryRow without arguments", err, x.want)
						want := drivertest.Untouched
						if x.want == nil {
							want = "1 mode -5|2  $1  20|4 four 0"
						}
						if got := w.Table(); got != want {
							t.Errorf("the table reads %q, want %q", got, want)
						}
					}
				})
			}
		}
	})
}

// The options of pgx come before the arguments and are no parameters; what
// rewrites the text does so before the fence is spliced in (DESIGN §5).
func TestLeadingOptionsOfPgx(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		named := pgx.NamedArgs{"v": "named", "id": 1}
		type row struct {
			V  string `db:"v"`
			ID int    `db:"id"`
		}
		for name, x := range map[string]struct {
			text string
			args []any
		}{
			"NamedArgs":          {`UPDATE d SET v = @v WHERE id = @id`, []any{named}},
			"StrictNamedArgs":    {`UPDATE d SET v = @v WHERE id = @id`, []any{pgx.StrictNamedArgs(named)}},
			"StructArgs":         {`UPDATE d SET v = @v WHERE id = @id`, []any{pgx.StructArgs(row{"named", 1})}},
			"mode and NamedArgs": {`UPDATE d SET v = @v WHERE id = @id`, []any{pgx.QueryExecModeExec, named}},
			"NamedArgs and mode": {`UPDATE d SET v = @v WHERE id = @id`, []any{named, pgx.QueryExecModeSimpleProtocol}},
			"no names":           {`UPDATE d SET v = 'named' WHERE id = 1`, []any{pgx.NamedArgs{}}},
		} {
			for _, query := range []bool{false, true} {
				do := func(db *sql.DB, ctx context.Context) error {
					w.Reset()
					if !query {
						_, err := db.ExecContext(ctx, x.text, x.args...)
						return err
					}
					var id int
					return db.QueryRowContext(ctx, x.text+` RETURNING id`, x.args...).Scan(&id)
				}
				w.Want(name+", bare", do(w.Bare, t.Context()), nil)
				want := w.Table()
				for _, ctx := range []context.Context{t.Context(), w.With(drivertest.Current), w.With(drivertest.Current, drivertest.Other)} {
					w.Want(name, do(w.Fenced, ctx), nil)
					if got := w.Table(); got != want || got == drivertest.Untouched {
						t.Errorf("%s: the table reads %q, bare %q", name, got, want)
					}
				}
				w.Want(name+", stale", do(w.Fenced, w.With(drivertest.Stale)), guard.ErrFenced)
				w.IsUntouched()
			}
		}
		var id int
		for _, formats := range []any{pgx.QueryResultFormats{pgx.TextFormatCode}, pgx.QueryResultFormatsByOID{23: pgx.TextFormatCode}} {
			w.Reset()
			err := w.Fenced.QueryRowContext(w.With(drivertest.Current), `UPDATE d SET v = $1 WHERE id = $2 RETURNING id`, formats, "x", 1).Scan(&id)
			w.Want(fmt.Sprintf("%T", formats), err, nil)
			w.Reset()
			_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = $1 WHERE id = $2`, formats, "x", 1)
			if err == nil {
				t.Errorf("Exec took a %T, which pgx does not", formats)
			}
			w.IsUntouched()
		}
		// A rewriter that hides a write behind a read, or an option behind itself.
		for name, r := range map[string]pgx.QueryRewriter{
			"an option":        rewriter{`UPDATE d SET v = $1`, []any{pgx.QueryExecModeExec, "x"}},
			"another rewriter": rewriter{`UPDATE d SET v = $1`, []any{named}},
			"several":          rewriter{`UPDATE d SET v = 'x'; UPDATE d SET v = 'y'`, nil},
		} {
			_, err := w.Fenced.ExecContext(w.With(drivertest.Current), `SELECT 1`, r)
			w.Want("rewritten to "+name, err, guard.ErrUnsupported)
			w.IsUntouched()
		}
		_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), `SELECT 1`, rewriter{`UPDATE d SET v = 'x'`, nil})
		w.Want("rewritten to a write", err, guard.ErrFenced)
		w.IsUntouched()
		s, err := w.Fenced.Prepare(`UPDATE d SET v = $1`)
		w.Want("Prepare", err, nil)
		defer s.Close()
		for _, arg := range []any{pgx.QueryExecModeExec, named, rewriter{`UPDATE d SET v = 'x'`, nil}} {
			if _, err := s.ExecContext(w.With(drivertest.Current), arg); err == nil {
				t.Errorf("the prepared statement took a %T", arg)
			}
			w.IsUntouched()
		}
	})
}

type rewriter struct {
	text string
	args []any
}

func (r rewriter) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return r.text, r.args, nil
}

// A rewriter must not hide a write from the policy either.
func TestRewritersAndThePolicy(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		p, err := guard.NewPolicy(guard.Tables("d"), guard.Require())
		if err != nil {
			t.Fatal(err)
		}
		db := like(t, w, nil, fence.WithPolicy(p))
		_, err = db.Exec(`SELECT 1`, rewriter{`UPDATE d SET v = 'x'`, nil})
		w.Want("rewritten to a write", err, guard.ErrUnguarded)
		_, err = db.Exec(`SELECT @v::text`, pgx.NamedArgs{"v": "x"})
		w.Want("a read", err, nil)
		w.IsUntouched()
	})
}

// Programs that write their values into the text send a new text every time.
// Without arguments pgx does not prepare it; nor with those of the fence, and a
// token is no part of any text (CASES D19).
func TestTokensPrepareNothingAnew(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		fence := guard.NewFence(w.Bare, sqlgen.PostgreSQL)
		texts := []string{`UPDATE d SET v = $1 WHERE id = 1`, `INSERT INTO d (v, id) VALUES ($1, 9) ON CONFLICT (id) DO UPDATE SET v = excluded.v`}
		for i := range 1000 {
			token := guard.Token{Resource: "job-42", Epoch: int64(100 + i), Grant: int64(i)}
			if err := fence.Advance(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				if _, err := c.ExecContext(w.With(token), text, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.ExecContext(w.With(token), fmt.Sprintf(`UPDATE d SET v = 'inlined %d' WHERE id = 1`, i)); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := c.QueryContext(t.Context(), `SELECT statement FROM pg_prepared_statements`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var prepared []string
		for rows.Next() {
			var statement string
			if err := rows.Scan(&statement); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(statement, "UPDATE") {
				prepared = append(prepared, statement)
			}
		}
		w.Want("Rows", errors.Join(rows.Err(), rows.Close()), nil)
		if len(prepared) > len(texts) {
			t.Errorf("%d prepared statements, want at most %d:\n%s", len(prepared), len(texts), strings.Join(prepared, "\n"))
		}
		w.Want("Close", c.Close(), nil)
	})
}

// SPEC G5: errors that are not about the fence are those of pgx, of the same type
// and text.
func TestErrorsOfTheServerAreUntouched(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		for _, text := range []string{
			`INSERT INTO d (id) VALUES (1)`, `UPDATE d SET n = NULL`, `UPDATE d SET n = 1/0`, `UPDATE missing SET n = 1`, `UPDATE d SET missing = 1`,
			`INSERT INTO d (id) VALUES (1) RETURNING id`,
		} {
			for _, road := range []func(db *sql.DB, ctx context.Context) error{
				func(db *sql.DB, ctx context.Context) error { return second(db.ExecContext(ctx, text)) },
				func(db *sql.DB, ctx context.Context) error { return second(db.QueryContext(ctx, text)) }, //nolint:rowserrcheck,sqlclosecheck // it fails
			} {
				bareErr, err := road(w.Bare, t.Context()), road(w.Fenced, w.With(drivertest.Current))
				var got, want *pgconn.PgError
				if reflect.TypeOf(err) != reflect.TypeOf(bareErr) || err.Error() != bareErr.Error() ||
					!errors.As(err, &got) || !errors.As(bareErr, &want) || got.Code != want.Code || got.ConstraintName != want.ConstraintName {
					t.Errorf("%s: got %#v, want %#v", text, err, bareErr)
				}
			}
		}
		w.IsUntouched()
	})
}

func second[T any](_ T, err error) error { return err }

// DESIGN §3: rules that PostgreSQL does not combine with a WITH list.
func TestTablesWithRules(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE TABLE logged (n int)`)
		w.Must(w.Bare, `CREATE RULE twice AS ON UPDATE TO d DO ALSO INSERT INTO logged VALUES (1)`)
		_, err := w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = 'x' WHERE id = 1`)
		w.Want("a table with a rule", err, guard.ErrUnsupported)
		// Pgx wraps what the server says to Parse.
		_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = $1 WHERE id = 1`, "x")
		w.Want("with an argument", err, guard.ErrUnsupported)
		var server *pgconn.PgError
		if !errors.As(err, &server) || server.Code != "0A000" {
			t.Errorf("the server's error is lost: %v", err)
		}
		rows, err := w.Fenced.QueryContext(w.With(drivertest.Current), `UPDATE d SET v = 'x' WHERE id = 1 RETURNING id`)
		if err == nil {
			rows.Close()
		}
		w.Want("by Query", err, guard.ErrUnsupported)
		w.IsUntouched()
	})
}

// What takes no WITH runs after a check in the same transaction.
func TestCheckedFirst(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE PROCEDURE p() LANGUAGE sql AS 'UPDATE d SET v = v'`)
		for _, text := range []string{`TRUNCATE d`, `DO $$ BEGIN DELETE FROM d; END $$`, `CALL p()`} {
			plan := sqlgen.Analyze(sqlgen.PostgreSQL, text)
			for _, query := range []bool{false, true} {
				do := func(ctx context.Context, db interface {
					ExecContext(context.Context, string, ...any) (sql.Result, error)
					QueryContext(context.Context, string, ...any) (*sql.Rows, error)
				}) error {
					if !query {
						return second(db.ExecContext(ctx, text))
					}
					rows, err := db.QueryContext(ctx, text)
					if err == nil {
						err = errors.Join(rows.Err(), rows.Close())
					}
					return err
				}
				wantAuto, wantTx := error(nil), error(nil)
				switch {
				case plan.Strategy == sqlgen.Refuse:
					wantAuto, wantTx = guard.ErrUnsupported, guard.ErrUnsupported
				case plan.Verb == "DO" || plan.Verb == "CALL":
					wantAuto = guard.ErrUnsupported
				}
				stale := func(want error) error {
					if want == nil {
						return guard.ErrFenced
					}
					return want
				}
				w.Want(text+", stale", do(w.With(drivertest.Stale), w.Fenced), stale(wantAuto))
				w.IsUntouched()
				w.Want(text, do(w.With(drivertest.Current), w.Fenced), wantAuto)
				w.Reset()
				tx := w.Begin(t.Context(), w.Fenced)
				w.Want(text+", in a transaction", do(w.With(drivertest.Current), tx), wantTx)
				w.Want("Rollback", tx.Rollback(), nil)
				w.IsUntouched()
				tx = w.Begin(t.Context(), w.Fenced)
				w.Want(text+", stale, in a transaction", do(w.With(drivertest.Stale), tx), stale(wantTx))
				w.Want("Commit", tx.Commit(), map[bool]error{true: guard.ErrFenced, false: nil}[wantTx == nil])
				w.IsUntouched()
			}
		}
	})
}

// CASES D17: a connection whose server has gone is replaced without a word, as
// with the bare driver.
func TestServerEndsAnIdleConnection(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Fenced.SetMaxOpenConns(1)
		var pid int
		if err := w.Fenced.QueryRow(`SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		terminate := func() {
			for gone := false; !gone; {
				if err := w.Bare.QueryRow(`SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&gone); err != nil {
					t.Fatal(err)
				}
			}
		}
		terminate()
		// What pgx says the first time is its own affair; after it, the
		// connection is another.
		_, first := w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
		_, err := w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
		w.Want(fmt.Sprintf("after %v, the next statement", first), err, nil)
		var now int
		w.Want("the next connection", w.Fenced.QueryRow(`SELECT pg_backend_pid()`).Scan(&now), nil)
		if now == pid {
			t.Errorf("the same session answers")
		}
	})
}

// BeginTx's options reach the server (CASES D17).
func TestOptionsOfTransactions(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		tx, err := w.Fenced.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
		w.Want("BeginTx", err, nil)
		var level, readOnly string
		w.Want("SHOW", tx.QueryRow(`SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')`).Scan(&level, &readOnly), nil)
		if level != "serializable" || readOnly != "on" {
			t.Errorf("the server says %s, read only %s", level, readOnly)
		}
		w.Want("Rollback", tx.Rollback(), nil)
	})
}

// CASES D16, on pgx: what only pgx takes as an argument.
func TestArgumentsOfPgx(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Must(w.Bare, `CREATE TABLE a (id int PRIMARY KEY, s text[], n numeric, ts timestamptz, j jsonb)`)
		var nilTime *time.Time
		for _, x := range []struct {
			column string
			value  any
		}{
			{"s", []string{"a", "b"}}, {"n", uint64(1 << 63)}, {"ts", nilTime}, {"ts", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
			{"j", map[string]int{"a": 1}}, {"s", sql.Named("x", []string{"n"})}, {"n", sql.NullInt64{}}, {"n", struct{}{}},
		} {
			do := func(db *sql.DB, ctx context.Context, prepared bool) (string, error) {
				w.Must(w.Bare, `TRUNCATE a`)
				text := `INSERT INTO a (id, ` + x.column + `) VALUES ($1, $2)`
				var err error
				if prepared {
					var s *sql.Stmt
					if s, err = db.Prepare(text); err == nil {
						_, err = s.ExecContext(ctx, 1, x.value)
						s.Close()
					}
				} else {
					_, err = db.ExecContext(ctx, text, 1, x.value)
				}
				var got sql.NullString
				if err := w.Bare.QueryRow(`SELECT string_agg(a::text, ';') FROM a`).Scan(&got); err != nil {
					t.Fatal(err)
				}
				return got.String, err
			}
			for _, prepared := range []bool{false, true} {
				bare, bareErr := do(w.Bare, t.Context(), prepared)
				for _, ctx := range []context.Context{t.Context(), w.With(drivertest.Current)} {
					got, err := do(w.Fenced, ctx, prepared)
					if got != bare || (err == nil) != (bareErr == nil) {
						t.Errorf("%s = %#v, prepared %v: got %s, %v; bare %s, %v", x.column, x.value, prepared, got, err, bare, bareErr)
					}
				}
			}
		}
	})
}

// CASES D32 (b): a definition changes under a prepared statement.
func TestDefinitionChangesUnderAPreparedStatement(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		run := func(db *sql.DB, ctx context.Context, column string) (first, second error) {
			c := w.Conn(db)
			defer c.Close()
			s, err := c.PrepareContext(t.Context(), `UPDATE d SET v = v WHERE id = 1 RETURNING *`)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			use := func() error {
				rows, err := s.QueryContext(ctx)
				if err == nil {
					err = rows.Close()
				}
				return err
			}
			if err := use(); err != nil {
				t.Fatal(err)
			}
			w.Must(w.Bare, `ALTER TABLE d ADD `+column+` int`)
			return use(), use()
		}
		bare1, bare2 := run(w.Bare, t.Context(), "c1")
		got1, got2 := run(w.Fenced, w.With(drivertest.Current), "c2")
		if fmt.Sprint(got1) != fmt.Sprint(bare1) || fmt.Sprint(got2) != fmt.Sprint(bare2) {
			t.Errorf("got %v, then %v; bare %v, then %v", got1, got2, bare1, bare2)
		}
	})
}

func TestRaw(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		c := w.Conn(w.Fenced)
		w.Want("Raw", c.Raw(func(dc any) error {
			if _, ok := dc.(interface{ Conn() *pgx.Conn }); ok {
				t.Error("the bare connection shows without Raw")
			}
			raw, ok := fence.Raw(dc)
			if _, isPgx := raw.(*stdlib.Conn); !ok || !isPgx {
				t.Errorf("Raw returns a %T, %v", raw, ok)
			}
			return nil
		}), nil)
	})
}

// The generic registration of pgx guards the same; nothing of pgx is lost on it,
// as this package is linked in.
func TestGenericRegistration(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		name := "generic-" + url.PathEscape(t.Name())
		fence.Register(name, stdlib.GetDefaultDriver(), sqlgen.PostgreSQL)
		db := open(t, name, config(t, w.Bare).ConnString())
		_, err := db.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = @v`, pgx.NamedArgs{"v": "x"})
		w.Want("stale", err, guard.ErrFenced)
		_, err = db.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = @v WHERE id = 1`, pgx.NamedArgs{"v": "one"})
		w.Want("valid", err, nil)
		w.IsUntouched()
	})
}

// CASES D24: a statement whose own parameters leave no room for those of the
// fence.
func TestAllParametersTaken(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		const rows = 32767 // of two parameters each
		text := strings.Builder{}
		text.WriteString(`INSERT INTO d (id, v) VALUES ($1, $2)`)
		args := []any{100, "x"}
		for i := 1; i < rows; i++ {
			fmt.Fprintf(&text, `, ($%d, $%d)`, 2*i+1, 2*i+2)
			args = append(args, 100+i, "x")
		}
		_, err := w.Fenced.ExecContext(w.With(drivertest.Stale), text.String(), args...)
		w.Want("stale", err, guard.ErrFenced)
		w.IsUntouched()
		res, err := w.Fenced.ExecContext(w.With(drivertest.Current), text.String(), args...)
		w.Want("valid", err, nil)
		if n, _ := res.RowsAffected(); n != rows {
			t.Errorf("%d rows", n)
		}
		// With the rows, in a transaction of the user's, and through Query.
		w.Reset()
		tx := w.Begin(w.With(drivertest.Current), w.Fenced)
		read, err := tx.Query(text.String()+` RETURNING id`, args...)
		w.Want("Query in a transaction", err, nil)
		n := 0
		for read.Next() {
			n++
		}
		w.Want("Rows", errors.Join(read.Err(), read.Close()), nil)
		if n != rows {
			t.Errorf("%d rows returned", n)
		}
		w.Want("Rollback", tx.Rollback(), nil)
		w.IsUntouched()
		var id int
		w.Want("QueryRow", w.Fenced.QueryRowContext(w.With(drivertest.Current), text.String()+` RETURNING id`, args...).Scan(&id), nil)
		if id != 100 {
			t.Errorf("QueryRow returned %d", id)
		}
	})
}

// A transaction that was begun by text, refused and never ended: the connection
// is given up, as pgx would have given up one with an open transaction.
func TestRefusedTransactionLeftOpen(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *drivertest.World) {
		w.Fenced.SetMaxOpenConns(1)
		c := w.Conn(w.Fenced)
		w.Must(c, `BEGIN`)
		w.Must(c, `UPDATE d SET v = 'unguarded' WHERE id = 1`)
		_, err := c.ExecContext(w.With(drivertest.Stale), `UPDATE d SET v = 'stale' WHERE id = 2`)
		w.Want("the stale write", err, guard.ErrFenced)
		w.Want("Close", c.Close(), nil)
		for range 2 {
			_, err = w.Fenced.ExecContext(w.With(drivertest.Current), `UPDATE d SET v = v`)
			w.Want("the next user", err, nil)
		}
		w.IsUntouched()
	})
}
