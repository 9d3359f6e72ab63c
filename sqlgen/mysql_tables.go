package sqlgen

import (
	"slices"
	"strings"
)

// tableRef is a table that a statement names among those it joins.
type tableRef struct {
	table Table
	alias string // "" where it has none
}

// mysqlRefs appends the tables that are joined in the range: those of
// sub-selects are not among them. It is for names only; ok is false where
// something was not understood, and then the list is empty.
func (w *walker) mysqlRefs(lo, hi int, refs []tableRef) (_ []tableRef, ok bool) {
	expected := true
	for i := lo; i < hi; {
		switch {
		case w.isPunct(i, hi, ','), w.is(i, hi, kwJoin), w.says(i, hi, "straight_join"):
			expected = true
			i++
			continue
		case !expected:
			i = w.next(i)
			continue
		case w.isPunct(i, hi, '('):
			if first := w.tokens[i+1].word; first != kwSelect && first != kwWith && first != kwValues && first != kwTable {
				if refs, ok = w.mysqlRefs(i+1, w.partner(i), refs); !ok {
					return nil, false
				}
			}
			i = w.next(i)
		case w.says(i, hi, "lateral"):
			i++
			continue
		case w.mysqlIndexHint(i, hi):
			i++
		default:
			var r tableRef
			if r.table, i, ok = w.table(i, hi); !ok {
				return nil, false
			}
			if w.isPunct(i, hi, '(') { // JSON_TABLE (…)
				break
			}
			if w.is(i, hi, kwPartition) && w.isPunct(i+1, hi, '(') {
				i = w.next(i + 1)
			}
			if i < hi && w.tokens[i].word == kwAs {
				i++
			}
			if w.name(i, hi) && !w.mysqlBehindRef(i, hi) {
				r.alias = w.identifier(i)
				i++
			}
			refs = append(refs, r)
		}
		expected = false
	}
	return refs, !expected
}

func (w *walker) mysqlIndexHint(i, hi int) bool {
	return (w.says(i, hi, "use") || w.is(i, hi, kwIgnore) || w.says(i, hi, "force")) && (w.says(i+1, hi, "index") || w.says(i+1, hi, "key"))
}

// mysqlBehindRef reports whether the word at i is not an alias.
func (w *walker) mysqlBehindRef(i, hi int) bool {
	switch w.tokens[i].word {
	case kwOn, kwUsing, kwFor, kwJoin, kwIgnore, kwPartition, kwSet, kwWhere:
		return w.tokens[i-1].word != kwAs
	}
	for _, word := range []string{"inner", "cross", "left", "right", "full", "natural", "straight_join", "use", "force"} {
		if w.says(i, hi, word) {
			return true
		}
	}
	return false
}

// appendWritten appends the tables that a name can mean: an alias, or a table.
func appendWritten(tables []Table, refs []tableRef, name Table) []Table {
	found := false
	for _, r := range refs {
		meant := strings.EqualFold(name.Name, r.table.Name) && r.alias == "" &&
			(name.Schema == "" || r.table.Schema == "" || strings.EqualFold(name.Schema, r.table.Schema))
		if meant || name.Schema == "" && strings.EqualFold(name.Name, r.alias) {
			found = true
			tables = appendOnce(tables, r.table)
		}
	}
	if !found {
		tables = appendOnce(tables, name)
	}
	return tables
}

func appendOnce(tables []Table, t Table) []Table {
	if slices.Contains(tables, t) {
		return tables
	}
	return append(tables, t)
}

// mysqlAssigned returns the tables whose columns are assigned to in the range:
// all that are joined, where a column does not say whose it is.
func (w *walker) mysqlAssigned(lo, hi int, refs []tableRef) (tables []Table) {
	for i := lo; i < hi; {
		column, _, ok := w.table(i, hi)
		if !ok || column.Schema == "" || len(refs) == 1 {
			tables = tables[:0]
			for _, r := range refs {
				tables = appendOnce(tables, r.table)
			}
			return tables
		}
		owner := Table{Name: column.Schema}
		if w.isPunct(i+3, hi, '.') { // database.table.column
			owner.Schema = w.identifier(i)
		}
		tables = appendWritten(tables, refs, owner)
		for i < hi && !w.isPunct(i, hi, ',') {
			i = w.next(i)
		}
		i++
	}
	return tables
}
