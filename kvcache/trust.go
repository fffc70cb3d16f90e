package kvcache

// Trust says how far the index's knowledge of one owner can be relied on. The
// index keeps it; a Follower (package follow) moves it by what the event stream
// proves, a router by what it books itself. Suspect, by what engines report, a router
// keeps beside it, so that neither overwrites the other.
//
//	.-------.   1   .-------------.
//	| Blind | ----> | Approximate | <--6, 7--> Suspect
//	'-------'       '-------------'
//	    |                  |
//	    '--------.---------'
//	             |
//	      .------'------------.
//	    2 |                   | 3
//	      v         4         v
//	.-----------. -----> .---------.
//	| Resyncing |        |  Exact  |
//	'-----------' <----- '---------'
//	    |  ^        5       |  ^
//	  6 |  | 7            6 |  | 7
//	    v  |                v  |
//	.------------------------------.
//	|           Suspect            |
//	'------------------------------'
//
//	all but Approximate -- 8 --> Blind
//
// The transitions:
//
//  1. A router books what it sends there, or [Index.Import] took over a snapshot.
//     This is the only change that the index makes itself, in Import. And it
//     answers Resyncing instead of Exact for as long as [Index.Short] tells that
//     one of its bounds made it lose blocks of the owner, and Approximate while it
//     does not know what the owner's groups need.
//  2. Events are heard, but not from a time on when the cache was empty.
//  3. Events are heard from the first on, or there have been none yet.
//  4. A replay closed the gap or proved the connection, the engine cleared its
//     cache or restarted, or somebody who knows called Promote.
//  5. A gap, a lost connection, replays without an answer, an event that could not
//     be read or did not fit.
//  6. The cached tokens that the engine reports disagree with the index. An
//     Approximate owner is not expected to agree: there it is that the engine finds
//     nothing, time and again.
//  7. They agree again, or the events were read anew because of 6: back to what
//     events prove by then.
//  8. The Follower was closed, or was disconnected for so long that what was known
//     was dropped.
type Trust uint8

// The trust states, from nothing known to everything known.
const (
	// Blind: nothing is known. The initial state.
	Blind Trust = iota
	// Approximate: no events; residency is inferred from our own routing. Or events
	// say what is held, and not what the engine can use of it; see [OtherAttention].
	Approximate
	// Suspect: the engine's reported cached tokens disagree with what the index
	// predicts.
	Suspect
	// Resyncing: events arrive, but earlier ones were missed, or what they said did
	// not fit within a bound of the index. What it holds is a lower bound.
	Resyncing
	// Exact: every event since the cache was empty has been applied, and nothing
	// that they said was lost.
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
