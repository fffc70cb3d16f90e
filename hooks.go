package kvsteer

import (
	"fmt"
	"net/http"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Hooks are observers of a Router. Pass any value that implements one or more of
// the Hook interfaces to [WithHooks]; new interfaces never break old hooks.
// Hooks are called synchronously, some on the request path, from many goroutines
// at once: they must be quick, must not block, and must not call back into the
// Router's Close.

// HookDecision is told of every decision before its request is sent. The
// Decision may be kept.
type HookDecision interface {
	OnDecision(d *Decision)
}

// HookRejection is told of requests for which nobody was chosen though there are
// workers that serve their model: rejected by policy, with nobody well enough, or too
// many; and of those that [WithTenancy] refuses. The Decision has Chosen -1 and no number, and may be kept. Requests that could
// not be read, or whose client went away, are not told of, nor are second attempts: they
// end with an [Outcome]. [HookRefusal] is told of all of them, without a Decision.
type HookRejection interface {
	OnRejection(d *Decision, err *Error)
}

// HookFeatures is a HookDecision that wants to know what the predictor was asked:
// decisions have Features then.
type HookFeatures interface {
	HookDecision
	WantsFeatures()
}

// HookHeaders is a HookDecision that wants to know headers of requests: the Request of
// decisions then has those of the names that WantsHeaders returns. It is called once.
type HookHeaders interface {
	HookDecision
	WantsHeaders() []string
}

// HookOutcome is told how every Selection ended, exactly once each.
type HookOutcome interface {
	OnOutcome(o *Outcome)
}

// HookTrust is told when the trust in a worker's cache state changes.
type HookTrust interface {
	OnTrust(c TrustChange)
}

// HookPrompt is told of every answered request whose prompt the engine took for
// other tokens than the router did: an alarm if there is more than a rare one. Ids
// that are computed here and are not the engine's are then used no more (see
// [prompt.Prover], whose OnReport says so).
type HookPrompt interface {
	OnPromptMismatch(m *prompt.Mismatch)
}

// HookReap is told of a Selection that its owner forgot to finish and that the
// router released: a bug in the caller.
type HookReap interface {
	OnReap(decisionID uint64, age time.Duration)
}

// Outcome is how a Selection ended.
type Outcome struct {
	// Decision is that of the last attempt.
	Decision *Decision
	// Served is the worker that the request was at in the end: that of the Decision, unless
	// it was Moved.
	Served Target
	// Moved is set when a proxy in front went to another worker than the Decision's (see
	// [Selection.Moved]): Served, TTFT and Usage are of that one. Served is zero if the
	// fleet does not know it.
	Moved bool
	// TTFT is the time from the last attempt's start to its first token, 0 if
	// there was none or the caller did not report it.
	TTFT time.Duration
	// Duration is the time from Select to the end.
	Duration time.Duration
	// Usage is what the engine reported, of an answer that broke off what it had
	// reported until then.
	Usage Usage
	// CachedPredicted is the cached tokens that the router predicted for the
	// worker that served.
	CachedPredicted int
	// Cost is what the request cost, in millionths of the currency; see [TenancyOptions].
	Cost int64
	// Err is the reason of an abort, nil for a request that was done.
	Err error
	// Left is set when the request's sender went away, or its own deadline passed, before it
	// was answered: Err is then no failure of whoever served. A deadline of somebody else,
	// as errors of dials have one, does not set it.
	Left bool
	// Reaped is set when the router released a forgotten Selection.
	Reaped bool
}

// TrustChange is one transition of a worker's cache trust.
type TrustChange struct {
	Worker   string
	Instance string
	Rank     int
	From, To kvcache.Trust
	// Reason is a short fixed phrase. Of a change to Suspect it names what the numbers look
	// like, and Evidence has the numbers, in words; "" else.
	Reason, Evidence string
}

type hookSet struct {
	decision []HookDecision
	outcome  []HookOutcome
	trust    []HookTrust
	reap     []HookReap
	prompt   []HookPrompt
	features bool // somebody wants them in decisions
	headers  []string
	rejected []HookRejection
	refusal  []HookRefusal
	// strangers are the types of what is no hook.
	strangers []string
}

func (h *hookSet) add(v any) {
	known := addTo(&h.decision, v)
	if _, ok := v.(HookFeatures); ok {
		h.features = true
	}
	if w, ok := v.(HookHeaders); ok {
		for _, name := range w.WantsHeaders() {
			h.headers = append(h.headers, http.CanonicalHeaderKey(name))
		}
	}
	known = addTo(&h.outcome, v) || known
	known = addTo(&h.rejected, v) || known
	known = addTo(&h.refusal, v) || known
	known = addTo(&h.trust, v) || known
	known = addTo(&h.reap, v) || known
	known = addTo(&h.prompt, v) || known
	if !known {
		h.strangers = append(h.strangers, fmt.Sprintf("%T", v))
	}
}

func addTo[H any](list *[]H, v any) bool {
	h, ok := v.(H)
	if ok {
		*list = append(*list, h)
	}
	return ok
}

func (h *hookSet) onTrust(c TrustChange) {
	for _, x := range h.trust {
		x.OnTrust(c)
	}
}
