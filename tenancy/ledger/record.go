package ledger

import "time"

// State is how far a request has come.
type State string

// The states. Each is recorded once for an attempt: Reserved first, then one of the others.
const (
	Reserved State = "reserved" // let through; the amounts are what was expected
	Settled  State = "settled"  // the amounts are what was used
	Voided   State = "voided"   // nothing was served, and nothing is to be paid
)

// Source is where the amounts of a settled record come from.
type Source string

// The sources, the best first.
const (
	Provider Source = "provider" // who served reported them
	Stream   Source = "stream"   // counted as the answer passed by
	Estimate Source = "estimate" // neither; what was expected
)

// Record is one line of the ledger. ID, Attempt and State identify it: written twice it
// counts once.
type Record struct {
	// ID is the request's, unique over all routers and restarts. Attempt counts from 1.
	ID      string    `json:"id"`
	Attempt int       `json:"attempt"`
	State   State     `json:"state"`
	At      time.Time `json:"at"`

	// Org, Team, Tenant and Key are whose request it was; Class is its class of service.
	Org    string `json:"org,omitempty"`
	Team   string `json:"team,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key,omitempty"`
	Class  string `json:"class,omitempty"`
	// Model is what the client asked for, Served what it was served with.
	Model  string `json:"model"`
	Served string `json:"served,omitempty"`
	// Worker or Provider served it; the other one is empty.
	Worker   string `json:"worker,omitempty"`
	Provider string `json:"provider,omitempty"`

	// Uncached, Cached and CacheWrite are the prompt's tokens, each in one of them; Output
	// includes Reasoning. Cached is meaningless unless CachedKnown.
	Uncached    int64 `json:"uncached"`
	Cached      int64 `json:"cached"`
	CachedKnown bool  `json:"cached_known"`
	CacheWrite  int64 `json:"cache_write"`
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"`
	// Cost is in millionths of the currency.
	Cost   int64  `json:"cost"`
	Source Source `json:"source,omitempty"`
}
