package kvcache

// Trust says how far the index's knowledge of one owner can be relied on.
type Trust uint8

// The trust states, from nothing known to everything known.
const (
	// Blind: nothing is known. The initial state.
	Blind Trust = iota
	// Approximate: no events; residency is inferred from our own routing.
	Approximate
	// Suspect: events arrive, but the engine's reported cached tokens disagree
	// with what the index predicts.
	Suspect
	// Resyncing: events arrive, but earlier ones were missed. What the index
	// holds is a lower bound.
	Resyncing
	// Exact: every event since the cache was empty has been applied.
	Exact
)

// String returns the state's name in lower case.
func (t Trust) String() string {
	switch t {
	case Approximate:
		return "approximate"
	case Suspect:
		return "suspect"
	case Resyncing:
		return "resyncing"
	case Exact:
		return "exact"
	default:
		return "blind"
	}
}
