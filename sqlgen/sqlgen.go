// Package sqlgen is SQL as text: it lexes a statement by the rules of one
// engine, says what the statement is and which tables it writes, and splices
// the fence into it. It also holds the schema and the SQL of the fence and of
// every lease operation.
//
// It knows nothing of database/sql and of contexts. A text that it does not
// understand to the last token counts as a write and is refused.
package sqlgen

import (
	"encoding/hex"
	"strconv"
)

// Engine names a family of database servers that share one SQL dialect.
type Engine uint8

// The engines.
const (
	PostgreSQL Engine = iota + 1
	SQLite
	MySQL // MySQL 8 and MariaDB
)

var engineNames = [...]string{PostgreSQL: "PostgreSQL", SQLite: "SQLite", MySQL: "MySQL"}

func (e Engine) String() string {
	if int(e) < len(engineNames) && engineNames[e] != "" {
		return engineNames[e]
	}
	return "engine " + strconv.Itoa(int(e))
}

// Kind is what a text is.
type Kind uint8

// The kinds. A kind is that of the main statement; a SELECT whose WITH list
// writes is KindWriteInWith.
const (
	KindUnknown     Kind = iota // not understood: counts as a write
	KindEmpty                   // nothing but white space, comments and semicolons
	KindRead                    // SELECT, VALUES, TABLE, EXPLAIN without ANALYZE, …
	KindInsert                  // INSERT and REPLACE, with or without ON CONFLICT
	KindUpdate                  //
	KindDelete                  //
	KindMerge                   //
	KindWriteInWith             // a statement that reads, but whose WITH list writes
	KindBegin                   // BEGIN, START TRANSACTION
	KindCommit                  // COMMIT, END
	KindRollback                // ROLLBACK, ABORT
	KindSavepoint               // SAVEPOINT
	KindRelease                 // RELEASE [SAVEPOINT]
	KindRollbackTo              // ROLLBACK TO [SAVEPOINT]
	KindPrepareTx               // PREPARE TRANSACTION, and its COMMIT or ROLLBACK PREPARED
	KindSession                 // SET, RESET, SHOW, LISTEN, DISCARD, harmless PRAGMA, …: writes no data
	KindAttach                  // ATTACH, DETACH
	KindDefinition              // DDL: CREATE, ALTER, DROP, GRANT, …
	KindOtherWrite              // TRUNCATE, COPY, CALL, DO, EXECUTE, VACUUM, …: named by Plan.Verb
	KindSeveral                 // more than one statement in one string
)

func (k Kind) String() string {
	names := [...]string{"unknown", "empty", "read", "INSERT", "UPDATE", "DELETE", "MERGE", "write inside WITH",
		"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK TO", "prepared transaction",
		"session", "ATTACH", "definition", "other write", "several statements"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Strategy is what is done with a text when it is executed under a token.
type Strategy uint8

// The strategies.
const (
	Refuse             Strategy = iota // cannot be guarded: not sent
	Pass                               // writes nothing: sent as it is
	Splice                             // sent with the fence spliced in
	CheckFirst                         // sent as it is, after a check in the same transaction, which is opened if there is none
	CheckInTransaction                 // the same, but refused outside of a transaction that the program has begun
)

func (s Strategy) String() string {
	switch s {
	case Refuse:
		return "refuse"
	case Pass:
		return "pass"
	case Splice:
		return "splice"
	case CheckFirst:
		return "check first"
	case CheckInTransaction:
		return "check first, in a transaction"
	}
	return "strategy " + strconv.Itoa(int(s))
}

// Table is a table that a statement writes, as far as the text tells. Names
// are unquoted, and folded the way the engine folds unquoted identifiers.
type Table struct {
	Schema string // "" where the text does not qualify the name
	Name   string
}

func (t Table) String() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// TokenParams is the number of parameters that each token adds, in this order:
// resource (see [ResourceParam]), epoch (int64), grant (int64).
const TokenParams = 3

// ResourceParam returns what is bound for the name of a resource, in the texts of
// this package: the name, but on MySQL its bytes in hexadecimal. MySQL converts a
// string to the session's character_set_connection, in which two names can become
// one; digits stay what they are.
func ResourceParam(e Engine, resource string) string {
	if e == MySQL {
		return hex.EncodeToString([]byte(resource))
	}
	return resource
}
