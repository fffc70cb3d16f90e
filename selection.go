package kvsteer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	"github.com/kvsteer/kvsteer/providers"
)

// Target is where to send a request.
type Target struct {
	// Worker is the worker's name, Instance tells its restarts apart, Rank is the
	// data-parallel rank.
	Worker, Instance string
	Rank             int
	// Model is the model that the request is served with there, by the name that
	// policies use; "" for a request without a prompt.
	Model string
	// URL is the worker's base address; append the request's path. It must not be
	// modified.
	URL *url.URL
	// Header holds what must be set on the request, Remove the names of what must not be
	// passed on. They may be nil and must not be modified.
	Header http.Header
	Remove []string
	// Provider is the external service that this is, "" for a worker; Worker is then the
	// same. Via is then how a request gets there: around what sends it, it takes the
	// request as the client made it, with Body, to the client's path, adds credentials
	// and names, translates, and returns the answer as the client understands it. Nil for
	// a worker. ProviderKind is the name of its kind, such as "Anthropic".
	Provider     string
	ProviderKind string
	Via          func(base http.RoundTripper) http.RoundTripper
}

// Selection is a request on its way to a worker. Its owner must end it exactly
// once, by Done or Abort; further calls do nothing, and what an owner forgets
// the router releases after WithMaxIdle. All methods are safe for concurrent use.
type Selection struct {
	router *Router
	parsed parsed
	// policy decides about the request, from the first attempt to the last.
	policy policy.Policy
	// views has at least one once the request is prepared, and is not changed then.
	views []view
	one   [1]view // memory of views, and scope of the models' names, if it is one
	scope [1]string
	// tags, header and draw are what the policy asks about.
	tags   []policy.Tag
	header map[string][]string
	draw   uint64
	alias  bool // nobody serves a model of the name that the request has
	// findings are behind the tags; unclassified: a classifier failed.
	findings     []classify.Finding
	unclassified bool
	// session stands for the request's session, 0 if it has none.
	session uint64
	account account
	waits   bool // in the router's line, under pickMu
	coming  bool // in Select, and about to choose
	// weight is the tenant's, charged what it was charged when the request was booked, at
	// the time chargedAt.
	weight    float64
	charged   time.Duration
	chargedAt time.Time

	// expects is the tokens that the answer is expected to have, 0 if nobody has asked yet;
	// whoever has the Selection in a choice writes it.
	expects int
	// untaken are the attempts at providers that could not be asked in their API, under mu.
	untaken int
	// narrow is the widest context window that was too narrow.
	narrow int
	lost   bool // no worker is known to have what the request goes on from
	asked  bool // under mu: usage was asked for on our own account
	unseen bool // under mu: nobody sees the first token of the stream
	began  time.Time

	// touched is the last sign of life, Unix nanoseconds; prev and next link the
	// router's live set, under its lock.
	touched    atomic.Int64
	prev, next *Selection

	mu     sync.Mutex
	waited time.Duration
	// promptIDs is what the engine reported as the prompt, nil if it did not.
	promptIDs []uint32
	keys      *keys // until the first token or the end
	attempt   attempt
	tried     []string
	decision  *Decision
	ended     bool
}

// attempt is the current try on one worker, or on two.
type attempt struct {
	leg // that answers

	number  int
	started time.Time
	relay   *relay      // who computes the prompt for it; nil if it does so itself
	assumed *time.Timer // ends the prefill of a request whose first token nobody sees
	// otherwise: it goes another way than was predicted, and tells nothing about that.
	otherwise bool
	moved     bool // by a proxy, to a worker for which nothing was predicted
	astray    bool // by a proxy, to one that the fleet does not know
	blamed    bool // the fleet was told that its worker failed
	ttft      time.Duration
	bare      *view // what an offer gets, nil until somebody asks
	// cancel ends the request on its way to the worker, for a Transport whose
	// caller forgot it; nil if somebody else sends.
	cancel context.CancelCauseFunc
}

// leg is what an attempt has on one worker.
type leg struct {
	began    time.Time
	member   *fleet.Member // nil at an offer
	offer    *providers.Offer
	sold     *providers.Booking // of the offer
	rank     int
	owner    kvcache.Owner
	booking  booking
	features Features
	fetching time.Duration // expected, of a prompt that another worker has computed
	prompt   int           // tokens
	cached   int           // predicted cached tokens
	sure     int           // of them, those that the engine must report
	block    int           // block size in tokens
	keys     int           // index into keys.sets
	view     *view
	inferred bool // no event will confirm the booking
	target   Target
}

// booking is the request's place at a worker or an offer.
type booking interface {
	FirstToken()
	End() bool
}

func (l *leg) place() place { return place{l.member, l.rank, l.offer} }

func (a *attempt) release() {
	if a.assumed != nil {
		a.assumed.Stop()
	}
	a.booking.End()
	if a.relay != nil && !planted.LegStays {
		a.relay.booking.End()
	}
}

// errSuperseded is the reason given for an attempt that Next replaced.
var errSuperseded = errors.New("kvsteer: attempt failed")

// Target returns where to send the current attempt.
func (s *Selection) Target() Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.attempt.target
	t.Remove = s.router.opts.withheld(s.account.identity)
	return t
}

// Alternatives returns where the request could be sent if the Target failed, the best
// first, as it was when the Target was chosen: for whoever tries them himself, such as
// a proxy that is told all at once. Nothing is booked there; [Selection.Next] chooses
// anew and books, and [Selection.Moved] books where the proxy went. Workers that have gone
// since are left out. Body is for the Target: where an alternative's Model is another one,
// the body would have to name that.
func (s *Selection) Alternatives() []Target {
	s.mu.Lock()
	d := s.decision
	s.mu.Unlock()
	snap := s.router.fleet.Snapshot()
	var out []Target
	for _, i := range d.byPlace() {
		c := &d.Candidates[i]
		if c.Place < 2 {
			continue
		}
		if m := snap.Member(c.Name); m != nil && m.ID() == c.Instance {
			out = append(out, targetOf(m, c.Candidate.Rank, c.Candidate.Model))
		}
	}
	return out
}

// targetOf is a rank of a worker as the target of requests for a model.
func targetOf(m *fleet.Member, rank int, model string) Target {
	t := Target{Worker: m.Name(), Instance: m.ID(), Rank: rank, Model: model, URL: m.URL()}
	if m.Ranks() > 1 {
		t.Header = http.Header{headerRank: []string{strconv.Itoa(rank)}}
	}
	return t
}

// Body returns the bytes to send: the client's own but for fields that the
// decision had to change. It must not be modified.
func (s *Selection) Body() []byte {
	body, _ := s.sent()
	return body
}

// sent is the body to send now, and what it holds.
func (s *Selection) sent() ([]byte, jsonscan.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.attempt.relay; l != nil && l.handed {
		return l.body, l.object
	}
	if v := s.attempt.view; v != nil {
		if s.attempt.offer != nil {
			v = s.bare(v)
		}
		return v.body, v.object
	}
	return s.parsed.body, s.parsed.object
}

// Decision returns why the current attempt goes where it goes.
func (s *Selection) Decision() *Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision
}

// FirstToken says that the first generated token has arrived. From then on Next
// refuses, since the client may have seen output. Calling it is optional; without
// it the predictor does not learn from the request.
func (s *Selection) FirstToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.router.opts.now()
	if s.touched.Load() != math.MaxInt64 { // held: a Transport looks after it
		s.touched.Store(now.UnixNano())
	}
	if s.ended || s.attempt.ttft != 0 {
		return
	}
	s.attempt.ttft = max(now.Sub(s.attempt.started), 1)
	s.account.begun = true
	s.attempt.booking.FirstToken()
	s.router.freed()
	s.router.keep(s, &s.attempt.leg)
	s.forget()
	if a := &s.attempt; a.number == 1 && a.offer == nil && !a.otherwise && !a.moved && (a.relay == nil || a.relay.handed) {
		s.router.learn(a.booking, &a.features, steer.Fetched(now.Sub(a.began), a.fetching))
		if a.relay != nil {
			s.router.joint.Observe(a.ttft, a.relay.p90)
		}
	}
}

// Sent says that the request is on its way to the Target. Who goes away from then on pays
// for the prompt, if there are limits; before, for nothing. A Transport does it.
func (s *Selection) Sent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.sent = true
}

// begins says that the worker has begun to answer, whatever is still to come.
func (s *Selection) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.begun = true
}

// Touch is a sign of life. Whoever drives a Selection by hand calls it as parts of
// a long answer pass, so that it is not taken for forgotten; a Transport does.
func (s *Selection) Touch() { s.touched.Store(s.router.opts.now().UnixNano()) }

// hold keeps a Selection from being taken for forgotten until the next Touch.
func (s *Selection) hold() { s.touched.Store(math.MaxInt64) }

// Done ends the request: it was answered. Pass the zero Usage when the engine
// reported none.
func (s *Selection) Done(u Usage) { s.end(u, nil, false) }

// Abort ends the request: it was not answered, or not to the end. A nil reason
// is recorded as a cancellation. Who has gone away pays for a prompt that was [Selection.Sent]:
// so says a reason that is nil, wraps [context.Canceled], is [context.DeadlineExceeded]
// itself, or has [CodeCanceled]. A dial or a read that timed out only wraps a deadline: it
// is the worker's failure, and free.
func (s *Selection) Abort(reason error) {
	if reason == nil {
		reason = context.Canceled
	}
	reason = unquoted(reason)
	if departure(reason) {
		s.leave(reason)
		return
	}
	s.fail(reason)
}

// leave ends a request whose sender has gone away, for whatever reason.
func (s *Selection) leave(reason error) { s.finish(Usage{}, reason, false, true) }

// departs notes that the sender has gone away while the answer was read. Whoever reads it ends
// the request.
func (s *Selection) departs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.departed = true
}

// fail ends a request that its sender still waits for, whatever the reason looks like: a
// provider's credentials may have been cancelled.
func (s *Selection) fail(reason error) { s.end(Usage{}, reason, false) }

// end ends a request of which nobody says that its sender has gone away, and reports
// whether this call did it.
func (s *Selection) end(u Usage, reason error, reaped bool) bool {
	return s.finish(u, reason, reaped, false)
}

// finish reports whether this call ended the request.
func (s *Selection) finish(u Usage, reason error, reaped, left bool) bool {
	s.mu.Lock()
	if s.ended {
		if planted.SelectionEndsTwice {
			for _, h := range s.router.opts.hooks.outcome {
				h.OnOutcome(&Outcome{Decision: s.decision, Err: reason})
			}
		}
		s.mu.Unlock()
		return false
	}
	s.ended, s.account.left = true, left
	if a := &s.attempt; a.offer != nil && reason == nil && u.Known {
		a.sold.Answered(u.Output) // before its booking ends
	}
	s.attempt.release()
	if reason == nil {
		s.router.keep(s, &s.attempt.leg)
	}
	s.forget()
	// Nothing of an attempt that has ended changes any more, but for how it is cut off.
	a, d, cancel, ids := &s.attempt, s.decision, s.attempt.cancel, s.promptIDs
	departed := s.account.departed
	s.mu.Unlock()

	r := s.router
	r.live.remove(s)
	r.freed()
	if reaped && cancel != nil {
		cancel(errReaped) // nobody reads the answer: the worker need not go on
	}
	if a.relay != nil {
		u = a.relay.credit(u)
	}
	cost := r.closeAccount(s, u, reason, reaped)
	if !a.moved && a.relay == nil && a.offer == nil {
		if s.auditable(&a.leg) {
			r.audit(&a.leg, u)
		}
		if reason == nil {
			r.listen(&a.leg, u)
		}
	}
	r.settleShare(s, a, d, u)
	switch {
	case reason != nil:
	case a.offer != nil: // its booking was told
	default:
		if !a.moved {
			r.observeDecode(a, u)
		}
		r.auditPrompt(a, u, ids)
	}
	if len(r.opts.hooks.outcome) == 0 {
		return true
	}
	o := &Outcome{
		Decision: d, TTFT: a.ttft, Duration: r.opts.now().Sub(s.began), Usage: u,
		CachedPredicted: a.expected(), Cost: cost, Err: reason, Reaped: reaped, Left: reason != nil && (left || departed),
	}
	if o.Moved = a.moved || a.astray; !a.astray {
		o.Served = a.target
	}
	for _, h := range r.opts.hooks.outcome {
		h.OnOutcome(o)
	}
	return true
}

// Next gives up the current attempt because of cause and chooses the next
// worker, never one that was tried before; every constraint is checked again. On
// success Target, Body and Decision speak of the new attempt. It fails when the
// first token has been seen, when the attempts are used up, or when nobody is
// left; the Selection is then still the owner's to end. The error is a
// [CodeUpstream] that wraps cause, or a [CodeCanceled] when ctx has ended.
//
// The cause counts against the health of the worker that is given up, unless it is nil,
// wraps [context.Canceled], is the [StatusError] of a 429, or ctx has ended. An [Answer]
// that was begun has said so already.
func (s *Selection) Next(ctx context.Context, cause error) error {
	cause = unquoted(cause)
	s.blame(ctx, cause)
	return s.advance(ctx, cause)
}

func (s *Selection) advance(ctx context.Context, cause error) error {
	if cause == nil {
		cause = errSuperseded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if planted.PromptInLog {
		cause = errors.Join(cause, errors.New(string(s.parsed.body)))
	}
	if l := s.router.opts.logger; l != nil && !s.ended {
		l.Warn("kvsteer: an attempt failed", slog.Uint64("decision", s.decision.ID),
			slog.Int("attempt", s.attempt.number), slog.String("worker", s.attempt.target.Worker), slog.Any("cause", cause))
	}
	s.learn(cause)
	switch {
	case s.ended:
		return &Error{Code: CodeUpstream, Message: "the selection has ended", Err: cause}
	case s.attempt.ttft != 0:
		return &Error{Code: CodeUpstream, Message: "the worker failed after its first token", Err: cause}
	case s.attempt.number-s.untaken >= s.router.opts.maxAttempts:
		return &Error{Code: CodeUpstream, Message: "every attempt failed", Err: cause}
	case ctx.Err() != nil:
		return canceled(ctx)
	}
	s.Touch()
	s.attempt.release()
	s.router.freed()
	s.tried = append(s.tried, s.attempt.failed().id())
	if err := s.router.pick(ctx, s, s.attempt.number+1); err != nil {
		return &Error{
			Code: CodeUpstream, Message: "every worker that could be tried failed", Err: cause,
			Rule: err.Rule, RetryAfter: err.RetryAfter,
		}
	}
	if err := s.router.enter(s); err != nil && s.router.opts.tenancy.RefuseUnrecorded {
		return unrecorded(err)
	}
	return nil
}

// streamed keeps how many parts with content an answer had, of a stream.
func (s *Selection) streamed(chunks int, kind answerKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == eventAnswer {
		s.account.chunks = chunks
	}
}

// reported keeps the prompt's ids as the engine has them.
func (s *Selection) reported(ids []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promptIDs = ids
}

// computes is the worker that computes the prompt.
func (s *Selection) computes() *fleet.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt.computes().member
}

// drive says how the current attempt can be cut off, and returns its worker.
func (s *Selection) drive(cancel context.CancelCauseFunc) *fleet.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt.cancel = cancel
	s.account.sent = true
	return s.attempt.member
}
