package debug

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// What a Recorder keeps at most.
const (
	keptDecisions  = 200
	keptRejections = 50
	keptNotes      = 50
	// keptASecond is how many decisions a second are kept: of more the first ones, so that
	// the list goes back for a while.
	keptASecond = 20
	// keptNames bounds the rules, shadow policies and codes that are counted apart; the
	// rest counts as other.
	keptNames = 256
)

// Recorder remembers what the console shows of the past: the latest decisions, those whom
// nobody was chosen for, changes of trust, and sums. Give it to [kvsteer.WithHooks] when the
// Router is made. The zero value is ready, safe for concurrent use and must not be copied.
// It needs no closing.
//
// It keeps 200 decisions, at most 20 of a second, with at most 64 candidates each; sums are
// of all decisions. That is some megabytes at most.
type Recorder struct {
	mu         sync.Mutex
	now        func() time.Time // nil: time.Now
	change     uint64           // grows with everything that is recorded
	decisions  ring[*kept]
	byID       map[uint64]*kept
	rejections ring[*refusal]
	notes      ring[*note]
	sums       sums
	rules      counts[ruleName]
	refused    counts[ruleName]
	shadows    counts[string]
	differs    counts[string]
	codes      counts[string]
	second     int64 // in which inSecond decisions have been kept
	inSecond   int
}

type ruleName struct{ policy, rule string }

// kept is a decision that is shown. The decision itself is never changed.
type kept struct {
	d       *kvsteer.Decision
	omitted int // candidates
	at      time.Time
	end     *ending
	change  uint64
}

// ending is what came of a decision.
type ending struct {
	ttft, took time.Duration
	usage      kvsteer.Usage
	failure    string
	moved      string
}

// refusal is a request for which nobody was chosen.
type refusal struct {
	at         time.Time
	d          *kvsteer.Decision
	code, rule string
	message    string
	retryAfter time.Duration
	change     uint64
}

// note is something that an operator may want to know.
type note struct {
	at           time.Time
	worker, text string
	bad          bool
	change       uint64
}

// sums are of everything since the Recorder began.
type sums struct {
	Decisions int64 `json:"decisions"`
	// Kept of these have been shown.
	Kept int64 `json:"kept"`
	// Exact ones went to a worker whose cache was known exactly, Degraded ones say that
	// something is less than exact, Waited ones waited in the router.
	Exact    int64 `json:"exact"`
	Degraded int64 `json:"degraded"`
	Waited   int64 `json:"waited"`
	// PromptTokens is of prompts, CachedTokens of those what was expected to be cached.
	PromptTokens int64 `json:"promptTokens"`
	CachedTokens int64 `json:"cachedTokens"`
	Rejections   int64 `json:"rejections"`
	// Done, Failed and Canceled are how requests ended.
	Done     int64 `json:"done"`
	Failed   int64 `json:"failed"`
	Canceled int64 `json:"canceled"`
	Reaped   int64 `json:"reaped"`
	// Of requests whose engine reported cached tokens: the prompt's, what was reported, and
	// what had been predicted.
	ReportedPrompt    int64 `json:"reportedPrompt"`
	ReportedCached    int64 `json:"reportedCached"`
	ReportedPredicted int64 `json:"reportedPredicted"`
	// Of requests whose time to first token is known: how many, and the sums of what was
	// measured, of what had been predicted, and of the absolute differences, in
	// milliseconds.
	Timed       int64   `json:"timed"`
	TimedTTFT   float64 `json:"timedTtftMs"`
	TimedPredic float64 `json:"timedPredictedMs"`
	TimedError  float64 `json:"timedErrorMs"`
}

func (r *Recorder) clock() time.Time {
	if r.now != nil {
		return r.now()
	}
	return time.Now()
}

// OnDecision implements [kvsteer.HookDecision].
func (r *Recorder) OnDecision(d *kvsteer.Decision) {
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	s := &r.sums
	s.Decisions++
	s.PromptTokens += int64(d.PromptTokens)
	if w := d.Winner(); w != nil {
		s.CachedTokens += int64(w.CachedTokens)
		if w.TrustState == trustExact {
			s.Exact++
		}
	}
	if len(d.Degradations) > 0 {
		s.Degraded++
	}
	if d.Waited > 0 {
		s.Waited++
	}
	r.rules.add(ruleName{d.Policy, d.Rule})
	for i := range d.Shadows {
		r.shadows.add(d.Shadows[i].Policy)
		if d.Shadows[i].Differs {
			r.differs.add(d.Shadows[i].Policy)
		}
	}
	if second := now.Unix(); second != r.second {
		r.second, r.inSecond = second, 0
	}
	if r.inSecond++; r.inSecond > keptASecond {
		return
	}
	s.Kept++
	k := &kept{at: now, change: r.change}
	k.d, k.omitted = lean(d)
	if old, full := r.decisions.push(k, keptDecisions); full {
		delete(r.byID, old.d.ID)
	}
	if r.byID == nil {
		r.byID = make(map[uint64]*kept, keptDecisions)
	}
	r.byID[d.ID] = k
}

// OnOutcome implements [kvsteer.HookOutcome].
func (r *Recorder) OnOutcome(o *kvsteer.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	s := &r.sums
	failure := failureOf(o)
	switch {
	case o.Err == nil:
		s.Done++
	case failure == failureCanceled:
		s.Canceled++
	default:
		s.Failed++
	}
	if o.Reaped {
		s.Reaped++
	}
	if o.Usage.CachedKnown && !o.Moved {
		s.ReportedPrompt += int64(o.Usage.Prompt())
		s.ReportedCached += int64(o.Usage.CacheRead)
		s.ReportedPredicted += int64(o.CachedPredicted)
	}
	if o.Decision == nil {
		return
	}
	if w := o.Decision.Winner(); w != nil && o.TTFT > 0 && !o.Moved {
		got, want := milliseconds(o.TTFT), milliseconds(w.PredictedTTFT)
		s.Timed++
		s.TimedTTFT += got
		s.TimedPredic += want
		s.TimedError += max(got-want, want-got)
	}
	k := r.byID[o.Decision.ID]
	if k == nil {
		return
	}
	k.end = &ending{ttft: o.TTFT, took: o.Duration, usage: o.Usage, failure: failure}
	if o.Moved {
		k.end.moved = short(o.Served.Worker)
	}
	k.change = r.change
}

const (
	trustExact      = "exact"
	failureCanceled = "canceled"
)

// failureOf names the kind of a failure. The cause itself may hold anything.
func failureOf(o *kvsteer.Outcome) string {
	switch {
	case o.Err == nil:
		return ""
	case o.Reaped:
		return "never ended by its owner"
	default:
		return kindOf(o.Err)
	}
}

func kindOf(err error) string {
	var e *kvsteer.Error
	switch {
	case errors.Is(err, context.Canceled):
		return failureCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	case errors.As(err, &e):
		return e.Code.String()
	default:
		return "failed"
	}
}

// OnRejection implements [kvsteer.HookRejection].
func (r *Recorder) OnRejection(d *kvsteer.Decision, err *kvsteer.Error) {
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	r.sums.Rejections++
	code := err.Code.String()
	r.codes.add(code)
	if err.Rule != "" {
		r.refused.add(ruleName{d.Policy, err.Rule})
	}
	f := &refusal{
		at: now, code: code, rule: short(err.Rule), message: cut(err.Message, longText),
		retryAfter: err.RetryAfter, change: r.change,
	}
	f.d, _ = lean(d)
	r.rejections.push(f, keptRejections)
}

// OnTrust implements [kvsteer.HookTrust].
func (r *Recorder) OnTrust(c kvsteer.TrustChange) {
	text := "cache is " + c.To.String() + ", was " + c.From.String()
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	r.note(rankName(c.Worker, c.Rank), text, c.To < c.From)
}

// OnReap implements [kvsteer.HookReap].
func (r *Recorder) OnReap(decisionID uint64, age time.Duration) {
	r.note("", "decision "+number(decisionID)+" was never ended by the gateway and was released after "+
		age.Round(time.Second).String(), true)
}

// OnPromptMismatch implements [kvsteer.HookPrompt].
func (r *Recorder) OnPromptMismatch(m *prompt.Mismatch) {
	r.note(m.Engine, "took a prompt of model "+short(m.Model)+" for "+number(m.Reported)+" tokens, the router for "+
		number(m.Count)+"; "+number(m.Mismatches)+" of the last "+number(m.Requests)+" differ", m.Tipped)
}

func (r *Recorder) note(worker, text string, bad bool) {
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	r.notes.push(&note{at: now, worker: short(worker), text: cut(text, longText), bad: bad, change: r.change}, keptNotes)
}
