package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// errNotText is returned for what the parser's interface cannot carry: C
// strings end at NUL, and protobuf strings are UTF-8.
var errNotText = errors.New("not UTF-8 text without NUL")

// parse returns the statements of a text as PostgreSQL's own grammar reads
// them, without the locations: two texts that mean the same have equal trees.
func parse(text string) ([]*pg.Node, error) {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return nil, errNotText
	}
	result, err := pg.Parse(text)
	if err != nil {
		return nil, err
	}
	statements := make([]*pg.Node, len(result.Stmts))
	for i, raw := range result.Stmts {
		statements[i] = raw.Stmt
		stripLocations(raw.Stmt.ProtoReflect())
	}
	return statements, nil
}

func stripLocations(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Kind() == protoreflect.MessageKind && field.IsList():
			for list, i := value.List(), 0; i < list.Len(); i++ {
				stripLocations(list.Get(i).Message())
			}
		case field.Kind() == protoreflect.MessageKind:
			stripLocations(value.Message())
		case field.Kind() == protoreflect.Int32Kind:
			name := string(field.Name())
			if name == "location" || name == "stmt_len" || strings.HasSuffix(name, "_location") {
				m.Clear(field)
			}
		}
		return true
	})
}

// walk calls visit for a message and for every message below it, until visit
// returns false.
func walk(m protoreflect.Message, visit func(proto.Message) bool) bool {
	if !visit(m.Interface()) {
		return false
	}
	more := true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.MessageKind {
			return true
		}
		if field.IsList() {
			for list, i := value.List(), 0; more && i < list.Len(); i++ {
				more = walk(list.Get(i).Message(), visit)
			}
		} else {
			more = walk(value.Message(), visit)
		}
		return more
	})
	return more
}

// names collects every string of a tree: identifiers, literals, operators.
func names(m protoreflect.Message, into map[string]bool) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Kind() == protoreflect.MessageKind && field.IsList():
			for list, i := value.List(), 0; i < list.Len(); i++ {
				names(list.Get(i).Message(), into)
			}
		case field.Kind() == protoreflect.MessageKind:
			names(value.Message(), into)
		case field.Kind() == protoreflect.StringKind && !field.IsList():
			into[value.String()] = true
		}
		return true
	})
}

// highestParam is the highest n of the $n in a tree, 0 when there is none.
func highestParam(m protoreflect.Message) int {
	highest := 0
	walk(m, func(m proto.Message) bool {
		if p, ok := m.(*pg.ParamRef); ok {
			highest = max(highest, int(p.Number))
		}
		return true
	})
	return highest
}

// nestedWrite names the first data-modifying statement at or below a message.
func nestedWrite(m protoreflect.Message) string {
	found := ""
	walk(m, func(m proto.Message) bool {
		switch m := m.(type) {
		case *pg.InsertStmt:
			found = "INSERT"
		case *pg.UpdateStmt:
			found = "UPDATE"
		case *pg.DeleteStmt:
			found = "DELETE"
		case *pg.MergeStmt:
			found = "MERGE"
		case *pg.SelectStmt:
			if m.IntoClause != nil {
				found = "SELECT INTO"
			}
		}
		return found == ""
	})
	return found
}

// writeOf tells what a statement writes when it is executed, "" for nothing.
// It lists what does not write, so that a kind nobody thought of counts as a
// write. Functions that write are visible to no text.
func writeOf(n *pg.Node) string {
	switch s := n.Node.(type) {
	case *pg.Node_SelectStmt:
		return nestedWrite(n.ProtoReflect())
	case *pg.Node_DeclareCursorStmt:
		return nestedWrite(n.ProtoReflect())
	case *pg.Node_ExplainStmt:
		if !explainExecutes(s.ExplainStmt) {
			return ""
		}
		return writeOf(s.ExplainStmt.Query)
	case *pg.Node_CopyStmt:
		switch c := s.CopyStmt; {
		case c.IsFrom:
			return "COPY FROM"
		case c.IsProgram, c.Filename != "":
			return "COPY to a file or a program"
		case c.Query != nil:
			return writeOf(c.Query)
		}
		return ""
	case *pg.Node_VariableSetStmt, *pg.Node_VariableShowStmt, *pg.Node_TransactionStmt, *pg.Node_ListenStmt,
		*pg.Node_UnlistenStmt, *pg.Node_NotifyStmt, *pg.Node_LockStmt, *pg.Node_DiscardStmt, *pg.Node_DeallocateStmt,
		*pg.Node_ClosePortalStmt, *pg.Node_FetchStmt, *pg.Node_ConstraintsSetStmt, *pg.Node_CheckPointStmt,
		*pg.Node_LoadStmt, *pg.Node_VacuumStmt, *pg.Node_ClusterStmt, *pg.Node_ReindexStmt,
		*pg.Node_PrepareStmt: // EXECUTE counts as a write
		return ""
	}
	return statementName(n)
}

// statementName is the name of a statement's node: InsertStmt, DropStmt, …
func statementName(n *pg.Node) string {
	name := ""
	n.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		name = string(field.Message().Name())
		return false
	})
	return name
}

// explainExecutes reports whether an EXPLAIN runs its statement. As in the
// server, the last of several ANALYZE options counts; a value that the server
// would refuse counts as true.
func explainExecutes(e *pg.ExplainStmt) bool {
	executes := false
	for _, option := range e.Options {
		d := option.GetDefElem()
		if d == nil || !strings.EqualFold(d.Defname, "analyze") {
			continue
		}
		executes = true
		switch arg := d.Arg; {
		case arg.GetString_() != nil:
			switch strings.ToLower(arg.GetString_().Sval) {
			case "false", "off":
				executes = false
			}
		case arg.GetInteger() != nil:
			executes = arg.GetInteger().Ival != 0
		case arg.GetBoolean() != nil:
			executes = arg.GetBoolean().Boolval
		}
	}
	return executes
}

// isSingleWrite reports whether a statement is one of the writes that programs
// send: INSERT, UPDATE, DELETE, MERGE, alone or inside a WITH list.
func isSingleWrite(n *pg.Node) bool {
	switch n.Node.(type) {
	case *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		return true
	case *pg.Node_SelectStmt:
		w := nestedWrite(n.ProtoReflect())
		return w != "" && w != "SELECT INTO"
	}
	return false
}

// writtenTables lists the tables that a statement names as its targets. known
// is false where it may write others, whose names the text does not tell.
func writtenTables(n *pg.Node) (tables map[string]bool, known bool) {
	tables = map[string]bool{}
	add := func(r *pg.RangeVar) {
		if r != nil {
			tables[strconv.Quote(r.Schemaname)+"."+strconv.Quote(r.Relname)] = true
		}
	}
	targets := func(m protoreflect.Message) {
		walk(m, func(m proto.Message) bool {
			switch s := m.(type) {
			case *pg.InsertStmt:
				add(s.Relation)
			case *pg.UpdateStmt:
				add(s.Relation)
			case *pg.DeleteStmt:
				add(s.Relation)
			case *pg.MergeStmt:
				add(s.Relation)
			}
			return true
		})
	}
	switch s := n.Node.(type) {
	case *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt, *pg.Node_SelectStmt, *pg.Node_CreateTableAsStmt:
		// INTO below the top is refused by the server.
		if into := intoClause(n); into != nil {
			add(into.Rel)
		}
		targets(n.ProtoReflect())
		return tables, true
	case *pg.Node_DeclareCursorStmt:
		return writtenTables(s.DeclareCursorStmt.Query)
	case *pg.Node_ExplainStmt:
		if explainExecutes(s.ExplainStmt) {
			return writtenTables(s.ExplainStmt.Query)
		}
		return tables, true
	case *pg.Node_TruncateStmt:
		for _, r := range s.TruncateStmt.Relations {
			add(r.GetRangeVar())
		}
		return tables, s.TruncateStmt.Behavior != pg.DropBehavior_DROP_CASCADE
	case *pg.Node_CopyStmt:
		if s.CopyStmt.IsFrom {
			add(s.CopyStmt.Relation)
		} else if s.CopyStmt.Query != nil {
			return writtenTables(s.CopyStmt.Query)
		}
		return tables, true
	}
	return tables, writeOf(n) == ""
}

// intoClause is the INTO of a statement itself; in a set operation it belongs to
// the first query.
func intoClause(n *pg.Node) *pg.IntoClause {
	if c := n.GetCreateTableAsStmt(); c != nil {
		return c.Into
	}
	s := n.GetSelectStmt()
	for s.GetLarg() != nil {
		s = s.Larg
	}
	return s.GetIntoClause()
}
