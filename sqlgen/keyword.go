package sqlgen

// keyword is a word that the walkers look at. All others are identifiers to
// them.
type keyword uint8

const (
	notKeyword keyword = iota
	kwAbort
	kwAction
	kwAfter
	kwAll
	kwAlter
	kwAnalyze
	kwAnd
	kwAs
	kwAsc
	kwAtomic
	kwAttach
	kwBegin
	kwBreadth
	kwBy
	kwCall
	kwCase
	kwCheckpoint
	kwClose
	kwCluster
	kwComment
	kwCommit
	kwConflict
	kwCopy
	kwCreate
	kwCurrent
	kwCursor
	kwCycle
	kwDeallocate
	kwDeclare
	kwDefault
	kwDeferred
	kwDelete
	kwDepth
	kwDetach
	kwDiscard
	kwDo
	kwDrop
	kwEnd
	kwExcept
	kwExclusive
	kwExecute
	kwExplain
	kwFetch
	kwFirst
	kwFor
	kwFrom
	kwGrant
	kwImmediate
	kwImport
	kwIndexed
	kwInsert
	kwIntersect
	kwInto
	kwLimit
	kwListen
	kwLoad
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
	kwOverriding
	kwPlan
	kwPragma
	kwPrepare
	kwPrepared
	kwQuery
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
	kwSchema
	kwSearch
	kwSecurity
	kwSelect
	kwSet
	kwShow
	kwStart
	kwTable
	kwTemp
	kwTemporary
	kwTo
	kwTransaction
	kwTrigger
	kwTruncate
	kwUnion
	kwUnlisten
	kwUpdate
	kwUsing
	kwVacuum
	kwValues
	kwVerbose
	kwWhere
	kwWith
	kwWork
)

var keywords = map[string]keyword{
	"ABORT":        kwAbort,
	"ACTION":       kwAction,
	"AFTER":        kwAfter,
	"ALL":          kwAll,
	"ALTER":        kwAlter,
	"ANALYZE":      kwAnalyze,
	"AND":          kwAnd,
	"AS":           kwAs,
	"ASC":          kwAsc,
	"ATOMIC":       kwAtomic,
	"ATTACH":       kwAttach,
	"BEGIN":        kwBegin,
	"BREADTH":      kwBreadth,
	"BY":           kwBy,
	"CALL":         kwCall,
	"CASE":         kwCase,
	"CHECKPOINT":   kwCheckpoint,
	"CLOSE":        kwClose,
	"CLUSTER":      kwCluster,
	"COMMENT":      kwComment,
	"COMMIT":       kwCommit,
	"CONFLICT":     kwConflict,
	"COPY":         kwCopy,
	"CREATE":       kwCreate,
	"CURRENT":      kwCurrent,
	"CURSOR":       kwCursor,
	"CYCLE":        kwCycle,
	"DEALLOCATE":   kwDeallocate,
	"DECLARE":      kwDeclare,
	"DEFAULT":      kwDefault,
	"DEFERRED":     kwDeferred,
	"DELETE":       kwDelete,
	"DEPTH":        kwDepth,
	"DETACH":       kwDetach,
	"DISCARD":      kwDiscard,
	"DO":           kwDo,
	"DROP":         kwDrop,
	"END":          kwEnd,
	"EXCEPT":       kwExcept,
	"EXCLUSIVE":    kwExclusive,
	"EXECUTE":      kwExecute,
	"EXPLAIN":      kwExplain,
	"FETCH":        kwFetch,
	"FIRST":        kwFirst,
	"FOR":          kwFor,
	"FROM":         kwFrom,
	"GRANT":        kwGrant,
	"IMMEDIATE":    kwImmediate,
	"IMPORT":       kwImport,
	"INDEXED":      kwIndexed,
	"INSERT":       kwInsert,
	"INTERSECT":    kwIntersect,
	"INTO":         kwInto,
	"LIMIT":        kwLimit,
	"LISTEN":       kwListen,
	"LOAD":         kwLoad,
	"LOCK":         kwLock,
	"MATERIALIZED": kwMaterialized,
	"MERGE":        kwMerge,
	"MOVE":         kwMove,
	"NOT":          kwNot,
	"NOTIFY":       kwNotify,
	"OF":           kwOf,
	"OFFSET":       kwOffset,
	"ON":           kwOn,
	"ONLY":         kwOnly,
	"OR":           kwOr,
	"ORDER":        kwOrder,
	"OVERRIDING":   kwOverriding,
	"PLAN":         kwPlan,
	"PRAGMA":       kwPragma,
	"PREPARE":      kwPrepare,
	"PREPARED":     kwPrepared,
	"QUERY":        kwQuery,
	"REASSIGN":     kwReassign,
	"RECURSIVE":    kwRecursive,
	"REFRESH":      kwRefresh,
	"REINDEX":      kwReindex,
	"RELEASE":      kwRelease,
	"REPLACE":      kwReplace,
	"RESET":        kwReset,
	"RETURNING":    kwReturning,
	"REVOKE":       kwRevoke,
	"ROLLBACK":     kwRollback,
	"SAVEPOINT":    kwSavepoint,
	"SCHEMA":       kwSchema,
	"SEARCH":       kwSearch,
	"SECURITY":     kwSecurity,
	"SELECT":       kwSelect,
	"SET":          kwSet,
	"SHOW":         kwShow,
	"START":        kwStart,
	"TABLE":        kwTable,
	"TEMP":         kwTemp,
	"TEMPORARY":    kwTemporary,
	"TO":           kwTo,
	"TRANSACTION":  kwTransaction,
	"TRIGGER":      kwTrigger,
	"TRUNCATE":     kwTruncate,
	"UNION":        kwUnion,
	"UNLISTEN":     kwUnlisten,
	"UPDATE":       kwUpdate,
	"USING":        kwUsing,
	"VACUUM":       kwVacuum,
	"VALUES":       kwValues,
	"VERBOSE":      kwVerbose,
	"WHERE":        kwWhere,
	"WITH":         kwWith,
	"WORK":         kwWork,
}

// maxKeyword is the length of the longest keyword.
var maxKeyword = func() (n int) {
	for k := range keywords {
		n = max(n, len(k))
	}
	return n
}()

// lookupKeyword allocates nothing.
func lookupKeyword(word string) keyword {
	var buf [16]byte
	if len(word) > maxKeyword || len(word) > len(buf) {
		return notKeyword
	}
	for i := range len(word) {
		c := word[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		buf[i] = c
	}
	return keywords[string(buf[:len(word)])]
}
