package sqlgen

// keyword is a word that the walkers look at. All others are identifiers to
// them.
type keyword uint8

const (
	notKeyword keyword = iota
	kwAbort
	kwAlter
	kwAnalyse
	kwAnalyze
	kwAs
	kwAtomic
	kwAttach
	kwBegin
	kwBinary
	kwBreadth
	kwBy
	kwCall
	kwCascade
	kwCheckpoint
	kwClose
	kwCluster
	kwComment
	kwCommit
	kwConflict
	kwCopy
	kwCreate
	kwCurrent
	kwCycle
	kwDeallocate
	kwDeclare
	kwDefault
	kwDelete
	kwDepth
	kwDetach
	kwDiscard
	kwDo
	kwDrop
	kwEnd
	kwExcept
	kwExecute
	kwExplain
	kwFetch
	kwFirst
	kwFor
	kwFrom
	kwFunction
	kwGlobal
	kwGrant
	kwGroup
	kwHaving
	kwIf
	kwIgnore
	kwImport
	kwIndexed
	kwInsert
	kwIntersect
	kwInto
	kwJoin
	kwLimit
	kwListen
	kwLoad
	kwLocal
	kwLock
	kwMaterialized
	kwMerge
	kwMove
	kwNot
	kwNotify
	kwOf
	kwOffset
	kwOn
	kwOnly
	kwOr
	kwOrder
	kwPartition
	kwPragma
	kwPrepare
	kwPrepared
	kwProcedure
	kwReassign
	kwRecursive
	kwRefresh
	kwReindex
	kwRelease
	kwReplace
	kwReset
	kwReturning
	kwRevoke
	kwRollback
	kwSavepoint
	kwSearch
	kwSecurity
	kwSelect
	kwSet
	kwShow
	kwStart
	kwStdout
	kwTable
	kwTemp
	kwTemporary
	kwTo
	kwTransaction
	kwTrigger
	kwTruncate
	kwUnion
	kwUnlisten
	kwUnlogged
	kwUpdate
	kwUsing
	kwVacuum
	kwValues
	kwVerbose
	kwView
	kwWhere
	kwWith
	kwWork
)

// keywordNames holds the keywords in upper case, sorted.
var keywordNames = [...]string{
	kwAbort:        "ABORT",
	kwAlter:        "ALTER",
	kwAnalyse:      "ANALYSE",
	kwAnalyze:      "ANALYZE",
	kwAs:           "AS",
	kwAtomic:       "ATOMIC",
	kwAttach:       "ATTACH",
	kwBegin:        "BEGIN",
	kwBinary:       "BINARY",
	kwBreadth:      "BREADTH",
	kwBy:           "BY",
	kwCall:         "CALL",
	kwCascade:      "CASCADE",
	kwCheckpoint:   "CHECKPOINT",
	kwClose:        "CLOSE",
	kwCluster:      "CLUSTER",
	kwComment:      "COMMENT",
	kwCommit:       "COMMIT",
	kwConflict:     "CONFLICT",
	kwCopy:         "COPY",
	kwCreate:       "CREATE",
	kwCurrent:      "CURRENT",
	kwCycle:        "CYCLE",
	kwDeallocate:   "DEALLOCATE",
	kwDeclare:      "DECLARE",
	kwDefault:      "DEFAULT",
	kwDelete:       "DELETE",
	kwDepth:        "DEPTH",
	kwDetach:       "DETACH",
	kwDiscard:      "DISCARD",
	kwDo:           "DO",
	kwDrop:         "DROP",
	kwEnd:          "END",
	kwExcept:       "EXCEPT",
	kwExecute:      "EXECUTE",
	kwExplain:      "EXPLAIN",
	kwFetch:        "FETCH",
	kwFirst:        "FIRST",
	kwFor:          "FOR",
	kwFrom:         "FROM",
	kwFunction:     "FUNCTION",
	kwGlobal:       "GLOBAL",
	kwGrant:        "GRANT",
	kwGroup:        "GROUP",
	kwHaving:       "HAVING",
	kwIf:           "IF",
	kwIgnore:       "IGNORE",
	kwImport:       "IMPORT",
	kwIndexed:      "INDEXED",
	kwInsert:       "INSERT",
	kwIntersect:    "INTERSECT",
	kwInto:         "INTO",
	kwJoin:         "JOIN",
	kwLimit:        "LIMIT",
	kwListen:       "LISTEN",
	kwLoad:         "LOAD",
	kwLocal:        "LOCAL",
	kwLock:         "LOCK",
	kwMaterialized: "MATERIALIZED",
	kwMerge:        "MERGE",
	kwMove:         "MOVE",
	kwNot:          "NOT",
	kwNotify:       "NOTIFY",
	kwOf:           "OF",
	kwOffset:       "OFFSET",
	kwOn:           "ON",
	kwOnly:         "ONLY",
	kwOr:           "OR",
	kwOrder:        "ORDER",
	kwPartition:    "PARTITION",
	kwPragma:       "PRAGMA",
	kwPrepare:      "PREPARE",
	kwPrepared:     "PREPARED",
	kwProcedure:    "PROCEDURE",
	kwReassign:     "REASSIGN",
	kwRecursive:    "RECURSIVE",
	kwRefresh:      "REFRESH",
	kwReindex:      "REINDEX",
	kwRelease:      "RELEASE",
	kwReplace:      "REPLACE",
	kwReset:        "RESET",
	kwReturning:    "RETURNING",
	kwRevoke:       "REVOKE",
	kwRollback:     "ROLLBACK",
	kwSavepoint:    "SAVEPOINT",
	kwSearch:       "SEARCH",
	kwSecurity:     "SECURITY",
	kwSelect:       "SELECT",
	kwSet:          "SET",
	kwShow:         "SHOW",
	kwStart:        "START",
	kwStdout:       "STDOUT",
	kwTable:        "TABLE",
	kwTemp:         "TEMP",
	kwTemporary:    "TEMPORARY",
	kwTo:           "TO",
	kwTransaction:  "TRANSACTION",
	kwTrigger:      "TRIGGER",
	kwTruncate:     "TRUNCATE",
	kwUnion:        "UNION",
	kwUnlisten:     "UNLISTEN",
	kwUnlogged:     "UNLOGGED",
	kwUpdate:       "UPDATE",
	kwUsing:        "USING",
	kwVacuum:       "VACUUM",
	kwValues:       "VALUES",
	kwVerbose:      "VERBOSE",
	kwView:         "VIEW",
	kwWhere:        "WHERE",
	kwWith:         "WITH",
	kwWork:         "WORK",
}

func (k keyword) String() string { return keywordNames[k] }

// keywordsByLetter holds, for each first letter, where its keywords begin.
var keywordsByLetter = func() (begin [27]keyword) {
	k := notKeyword + 1
	for letter := range begin {
		begin[letter] = k
		for int(k) < len(keywordNames) && int(keywordNames[k][0]-'A') == letter {
			k++
		}
	}
	return begin
}()

// lookupKeyword allocates nothing, and compares only with the few keywords of
// the same first letter and length: most words are no keywords.
func lookupKeyword(word string) keyword {
	letter := word[0]&^0x20 - 'A'
	if letter >= 26 {
		return notKeyword
	}
next:
	for k := keywordsByLetter[letter]; k < keywordsByLetter[letter+1]; k++ {
		name := keywordNames[k]
		if len(name) != len(word) {
			continue
		}
		for i := 1; i < len(word); i++ {
			if word[i]&^0x20 != name[i] {
				continue next
			}
		}
		return k
	}
	return notKeyword
}
