package sqlgen

// Plan is what is known of one text on one engine. It is immutable and safe
// for concurrent use.
type Plan struct {
	Engine   Engine
	Kind     Kind
	Verb     string   // the leading verb in upper case, for errors
	Tables   []Table  // the tables written; nil where the text does not tell all of them
	Strategy Strategy // what is done with the text under a token
	Reason   string   // why it is refused, or checked first
	Advice   string   // what to do instead of a refused statement
	Params   int      // the number of parameters that the text takes
}

// Writes reports whether the statement writes, as far as the text tells. A
// text that is not understood counts as a write.
func (p *Plan) Writes() bool {
	switch p.Kind {
	case KindUnknown, KindInsert, KindUpdate, KindDelete, KindMerge, KindWriteInWith,
		KindAttach, KindDefinition, KindOtherWrite, KindSeveral:
		return true
	}
	return false
}
