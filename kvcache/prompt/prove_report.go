package prompt

import (
	"fmt"
	"strconv"
	"time"
)

// ProofState is what is known about an engine and ids computed here.
type ProofState uint8

const (
	// ProofPending: the engine has not answered yet.
	ProofPending ProofState = iota
	// ProofPassed: all prompts that could be compared have the engine's ids.
	ProofPassed
	// ProofImpossible: nothing could be compared; the report's Reason says why.
	ProofImpossible
	// ProofFailed: the engine has other ids.
	ProofFailed
)

// String returns the state in lower case.
func (s ProofState) String() string {
	switch s {
	case ProofPending:
		return "pending"
	case ProofPassed:
		return "passed"
	case ProofImpossible:
		return "impossible"
	case ProofFailed:
		return "failed"
	default:
		return "unknown"
	}
}

// ProofReport is how a proof stands: that the local source's ids for a model are
// those of one engine. It holds nothing of any client's prompt.
type ProofReport struct {
	// Engine is the instance's ID, Model its name for the model.
	Engine, Model string
	// Assets is the hash of the files that the local source used.
	Assets string
	State  ProofState
	// Compared and Skipped count probes; those are skipped that the local source or
	// the engine does not take.
	Compared, Skipped int
	// Reason is a fixed phrase: why nothing could be compared, or what keeps the
	// proof pending.
	Reason string
	// Difference is the first one found by a probe, nil if there was none.
	Difference *Difference
	// Mismatch is the observed request that tipped the scale when requests in
	// production, not probes, showed that ids differ.
	Mismatch *Mismatch
	// At is when this became so.
	At time.Time
}

// String is a line for a log.
func (r *ProofReport) String() string {
	s := fmt.Sprintf("local token ids of model %q on %s: proof %s", r.Model, r.Engine, r.State)
	switch {
	case r.Difference != nil:
		s += ": " + r.Difference.String()
	case r.Mismatch != nil:
		s += ": " + r.Mismatch.String()
	case r.Reason != "":
		s += ": " + r.Reason
	default:
		s += ", " + strconv.Itoa(r.Compared) + " prompts compared"
	}
	return s
}

// Difference is where the ids of a probe differ. Probes are ours, so it may show
// their tokens.
type Difference struct {
	// Probe is the probe's name.
	Probe string
	API   API
	// Position is that of the first token that differs, from 0.
	Position int
	// Local and Engine are the tokens at that position.
	Local, Engine TokenAt
	// LocalCount and EngineCount are how many tokens the prompt has.
	LocalCount, EngineCount int
}

// TokenAt is what one side has at a position.
type TokenAt struct {
	ID uint32
	// Text is the token as the vocabulary spells it, "" if that isn't known.
	Text string
	// End says that there is no token: the prompt is over.
	End bool
}

// String is the id with its spelling.
func (t TokenAt) String() string {
	switch {
	case t.End:
		return "the end"
	case t.Text == "":
		return strconv.FormatUint(uint64(t.ID), 10)
	default:
		return strconv.FormatUint(uint64(t.ID), 10) + " " + strconv.Quote(t.Text)
	}
}

// String says which token differs and how.
func (d *Difference) String() string {
	return fmt.Sprintf("probe %q: token %d is %s here (of %d), %s in the engine (of %d)",
		d.Probe, d.Position, d.Local, d.LocalCount, d.Engine, d.EngineCount)
}

// firstDifference returns the position of the first token that differs, -1 if
// none does.
func firstDifference(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}
