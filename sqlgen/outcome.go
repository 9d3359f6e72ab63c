package sqlgen

// outcome is what was found out about one statement.
type outcome struct {
	kind     Kind
	verb     string
	tables   []Table // complete, or nil
	strategy Strategy
	reason   string
	advice   string
	edits    []edit
	check    bool
	returns  bool
	commits  bool
	raises   bool
	wraps    bool // see Plan.WrapsParam
	rows     int  // MySQL: the token where the rows of an INSERT begin
}

func pass(kind Kind, verb string) outcome { return outcome{kind: kind, verb: verb, strategy: Pass} }

func refuse(kind Kind, verb, reason, advice string) outcome {
	return outcome{kind: kind, verb: verb, strategy: Refuse, reason: reason, advice: advice}
}

// on names the tables written.
func (o outcome) on(tables ...Table) outcome {
	o.tables = tables
	return o
}

const (
	adviceSimplify = "send a plain INSERT, UPDATE, DELETE or MERGE"
	adviceCheck    = "run it in a transaction after guard.Fence.Check, under guard.Without"
)

// notUnderstood is a text that could be anything.
func notUnderstood(verb, reason string) outcome {
	return refuse(KindUnknown, verb, reason, adviceSimplify)
}
