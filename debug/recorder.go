package debug

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
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
// It keeps 200 decisions and 50 rejections, at most 20 of a second, with at most 64 candidates
// each; sums are of all: of requests turned away also of those that never were compared with
// workers, such as for a model that nobody serves, of which no more is kept. That is some megabytes at most.
type Recorder struct {
	mu         sync.Mutex
	now        atomic.Pointer[func() time.Time] // nil: time.Now
	change     uint64                           // grows with everything that is recorded
	decisions  ring[*kept]
	byID       map[uint64]*kept
	rejections ring[*refusal]
	notes      ring[*note]
	sums       sums
	history    history
	rules      counts[ruleName]
	refused    counts[ruleName]
	shadows    counts[string]
	differs    counts[string]
	codes      counts[string]
	second     int64 // in which inSecond decisions have been kept
	inSecond   int
	refusedIn  int64 // the second in which inRefused rejections have been kept
	inRefused  int
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
	next       uint64 // the attempt that followed this one
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
	kind         string
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
	// ToWorkers and ToProviders are where they went. PromptTokens is of the prompts of the
	// former, CachedTokens of those what was expected to be cached.
	ToWorkers    int64 `json:"toWorkers"`
	ToProviders  int64 `json:"toProviders"`
	PromptTokens int64 `json:"promptTokens"`
	CachedTokens int64 `json:"cachedTokens"`
	// Rejections are all that were turned away, whatever the reason.
	Rejections int64 `json:"rejections"`
	// Done, Failed and Canceled are how requests ended.
	Done     int64 `json:"done"`
	Failed   int64 `json:"failed"`
	Canceled int64 `json:"canceled"`
	Reaped   int64 `json:"reaped"`
	// Of requests to workers whose engine reported cached tokens: the prompt's, what was reported, and
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
	if now := r.now.Load(); now != nil {
		return (*now)()
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
	r.history.at(now).decisions++
	r.supersede(d, now)
	switch w := d.Winner(); {
	case w == nil:
	case w.Type == policy.Provider:
		s.ToProviders++
	default:
		s.ToWorkers++
		s.PromptTokens += int64(d.PromptTokens)
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

// supersede ends the attempt before d: it has no Outcome.
func (r *Recorder) supersede(d *kvsteer.Decision, now time.Time) {
	if d.Previous == 0 {
		return
	}
	k := r.byID[d.Previous]
	if k == nil || k.end != nil {
		return
	}
	k.end = &ending{took: now.Sub(k.at), failure: failureRetried, next: d.ID}
	k.change = r.change
}

// OnOutcome implements [kvsteer.HookOutcome].
func (r *Recorder) OnOutcome(o *kvsteer.Outcome) {
	now := r.clock()
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
	if o.Usage.CachedKnown && !o.Moved && !outside(o.Decision) {
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
		m := r.history.at(now)
		m.timed++
		m.ttft += got
		m.predicted += want
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

// outside reports whether a provider was chosen.
func outside(d *kvsteer.Decision) bool {
	if d == nil {
		return false
	}
	w := d.Winner()
	return w != nil && w.Type == policy.Provider
}

const (
	trustExact      = "exact"
	failureCanceled = "canceled"
	failureRetried  = "tried again"
)

// Kinds of notes: somebody should look, something is better, or neither.
const (
	noteLook   = "look"
	noteBetter = "better"
	noteInfo   = "info"
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

// OnRefusal implements [kvsteer.HookRefusal]. Who left before a worker was chosen was not
// turned away.
func (r *Recorder) OnRefusal(f *kvsteer.Refusal) {
	if f.Err.Code == kvsteer.CodeCanceled {
		return
	}
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	r.sums.Rejections++
	r.history.at(now).rejections++
	r.codes.add(f.Err.Code.String())
}

// OnRejection implements [kvsteer.HookRejection]. OnRefusal is told of the same and counts.
func (r *Recorder) OnRejection(d *kvsteer.Decision, err *kvsteer.Error) {
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	code := err.Code.String()
	if err.Rule != "" {
		r.refused.add(ruleName{d.Policy, err.Rule})
	}
	if second := now.Unix(); second != r.refusedIn {
		r.refusedIn, r.inRefused = second, 0
	}
	if r.inRefused++; r.inRefused > keptASecond {
		return
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
	kind := noteBetter
	if c.To < c.From {
		kind = noteLook
	}
	r.note(rankName(c.Worker, c.Rank), text, kind)
}

// OnReap implements [kvsteer.HookReap].
func (r *Recorder) OnReap(decisionID uint64, age time.Duration) {
	r.note("", "decision "+number(decisionID)+" was never ended by the gateway and was released after "+
		age.Round(time.Second).String(), noteLook)
}

// OnPromptMismatch implements [kvsteer.HookPrompt].
func (r *Recorder) OnPromptMismatch(m *prompt.Mismatch) {
	kind := noteInfo // one of these alone says nothing
	if m.Tipped {
		kind = noteLook
	}
	r.note(m.Engine, "took a prompt of model "+short(m.Model)+" for "+number(m.Reported)+" tokens, the router for "+
		number(m.Count)+"; "+number(m.Mismatches)+" of the last "+number(m.Requests)+" differ", kind)
}

func (r *Recorder) note(worker, text, kind string) {
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change++
	r.notes.push(&note{at: now, worker: short(worker), text: cut(text, longText), kind: kind, change: r.change}, keptNotes)
}
