package kvsteer

import (
	"context"
	crand "crypto/rand"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// Router chooses a worker for every request. It is safe for concurrent use.
// Close releases what New started.
type Router struct {
	opts      options
	fleet     *fleet.Fleet
	encoder   *prompt.Encoder
	ownsEnc   bool
	predictor Predictor
	index     *kvcache.Index
	residency *residency
	proofs    proofs
	warnings  warnings
	live      liveSet
	queue     *queue        // nil: requests don't wait for workers
	moment    *moment       // nil: nor for each other
	scratch   sync.Pool     // of *evaluation
	keyPool   sync.Pool     // of *keys
	inputs    sync.Pool     // of *classify.Input
	engineAt  atomic.Uint32 // whose tokenizer is asked next
	lingering atomic.Int32  // requests that a policy lets wait

	// pickMu makes looking, choosing and booking one step: see docs/adr/0002. It
	// is taken after Selection.mu and before any lock of the fleet or the index.
	pickMu    sync.Mutex
	rng       *rand.Rand
	sessions  sessions
	responses sessions // by response id
	decisions uint64

	// run tells this router's requests from those of others, and of other times.
	run     string
	entries atomic.Uint64 // in the ledger

	joint    steer.Joint
	replicas *replicas // nil: it is the only one
	hush     func()    // ends listening to others

	closed    atomic.Bool
	stop      chan struct{}
	closeOnce sync.Once
	wg        sync.WaitGroup
}

// New returns a Router over the fleet that [WithFleet] names and starts to follow
// the events of its workers.
func New(opts ...Option) (*Router, error) {
	o := defaultOptions()
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("kvsteer: New takes no nil Option")
		}
		opt.apply(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Router{
		opts: o, fleet: o.fleet, encoder: o.encoder, predictor: o.predictor,
		stop: make(chan struct{}), run: crand.Text(),
	}
	if r.predictor == nil {
		r.predictor = NewPredictor(PredictorOptions{})
	}
	if r.encoder == nil {
		r.encoder, r.ownsEnc = prompt.NewEncoder(prompt.Options{Now: o.now}), true
	}
	if o.index.Now == nil {
		o.index.Now = o.now
	}
	seed := o.seed
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // breaks ties, guards nothing
	}
	r.rng = rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // as above
	r.index = kvcache.NewIndex(o.index)
	r.scratch.New = func() any { return &evaluation{Round: steer.Round{Weights: &r.opts.weights}} }
	r.keyPool.New = func() any { return new(keys) }
	r.inputs.New = func() any { return new(classify.Input) }
	r.proofs = newProofs(r.encoder)
	r.residency = newResidency(r.index, &r.opts, &r.proofs)
	if o.exchange != nil {
		r.replicas = newReplicas(r, o.exchange, o.replicas)
		r.residency.replicas = r.replicas
	}
	r.residency.warm = o.takeSnapshot(DefaultSnapshotWait)
	if r.residency.warm != nil {
		r.wg.Go(r.coolDown)
	}
	r.residency.watch(o.fleet)
	if t := o.tenancy; t != nil && t.Labels != nil && o.logger != nil {
		o.logger.Info("kvsteer: tenants in metrics", slog.String("labels", t.Labels.Report()))
	}
	r.wg.Go(r.reap)
	switch {
	case o.queue != nil:
		r.queue = newQueue(o.queue)
		r.wg.Go(r.serve)
	case o.gather > 0:
		r.moment = &moment{most: o.gather, places: map[place]int{}}
	default:
	}
	if r.replicas != nil {
		ctx, cancel := context.WithCancel(context.Background())
		r.hush = cancel
		r.replicas.start(ctx)
	}
	return r, nil
}

// Close stops following events and waits for the router's goroutines. Selections
// that have not ended stay valid. It is idempotent.
func (r *Router) Close() error {
	r.closeOnce.Do(func() {
		r.closed.Store(true)
		close(r.stop)
		if r.hush != nil {
			r.hush()
		}
		r.wg.Wait()
		r.residency.close()
		if r.ownsEnc {
			_ = r.encoder.Close() // it has nothing to report
		}
	})
	return nil
}

// Select chooses a worker for req and books the request on it. The Selection
// must be ended by Done or Abort. The error is an *Error.
//
// Select blocks only while an engine is asked for token ids, which has a
// deadline of its own, for some milliseconds while others are in it too, see [WithGather],
// and, with [WithQueue], while workers are busy; ctx bounds the whole.
func (r *Router) Select(ctx context.Context, req *Request) (*Selection, error) {
	s := &Selection{router: r, began: r.opts.now()}
	if err := r.serveFirst(ctx, s, req); err != nil {
		api := ""
		if req != nil {
			api = req.API.String()
		}
		r.refusal(Refusal{API: api, Model: s.parsed.model, TenantLabel: s.account.label, Took: r.opts.now().Sub(s.began)}, err)
		return nil, err
	}
	r.live.add(s)
	return s, nil
}

// serveFirst books a new Selection, or tells the hooks that know decisions why not.
func (r *Router) serveFirst(ctx context.Context, s *Selection, req *Request) error {
	s.coming = true
	r.moment.comes()
	defer func() {
		if s.coming { // a hook or policy may have panicked, or it was refused
			r.goes()
		}
	}()
	if err := r.prepare(ctx, s, req); err != nil {
		r.turnedAway(req, err)
		return err
	}
	handed := false
	defer func() {
		if handed {
			return
		}
		// A hook or policy panicked, or nobody waits any more: no one else could.
		if s.attempt.booking != nil {
			s.attempt.release()
			r.freed()
		}
		s.account.give()
	}()
	if err := r.admit(ctx, s); err != nil {
		r.refused(s, err)
		return err
	}
	if err := r.pick(ctx, s, 1); err != nil {
		return err
	}
	if err := r.enter(s); err != nil && r.opts.tenancy.RefuseUnrecorded {
		no := unrecorded(err)
		r.refused(s, no)
		return no
	}
	handed = true
	return nil
}

// Explain returns the decision that Select would make now, and reserves nothing.
// The Decision is never nil: when nobody could be chosen it comes with the error,
// Chosen is -1, and it lists the candidates as far as there were any.
func (r *Router) Explain(ctx context.Context, req *Request) (*Decision, error) {
	s := &Selection{router: r, began: r.opts.now()}
	if err := r.prepare(ctx, s, req); err != nil {
		d := &Decision{Chosen: -1, Attempt: 1}
		if req != nil {
			d.API, d.Model = req.API.String(), req.Model
		}
		return d, err
	}
	ev := r.evaluation()
	defer r.release(ev)
	defer s.forget()
	r.hash(s)
	saturated := r.look(s, ev)
	d := r.decide(s, ev, 1, s.began)
	d.Saturated = saturated
	if len(ev.Plan.Order) == 0 {
		return d, r.nobody(s, ev)
	}
	return d, nil
}

// prepare does everything that needs no lock: reading the body and getting
// token ids. What is known of a request that is refused is in s, too.
func (r *Router) prepare(ctx context.Context, s *Selection, req *Request) error {
	if r.closed.Load() {
		return &Error{Code: CodeClosed, Message: "the router was closed"}
	}
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	if req == nil {
		return badRequest(nil, "the Request is nil")
	}
	id, refused := r.identify(ctx, req)
	if refused != nil {
		return refused
	}
	p, err := r.opts.parse(req)
	if err != nil {
		return err
	}
	s.parsed.model = p.model
	s.account.identity = id
	p.belong(id)
	s.account.label = r.opts.label(p.hints.tenant)
	if refused := permitted(id, p.model); refused != nil {
		return refused
	}
	if err := r.opts.tenancy.isolate(&p, id); err != nil {
		return err
	}
	s.parsed, s.session = p, p.sessionKey()
	if refused := r.anothers(s, p.hints.previous); refused != nil {
		return refused
	}
	s.weight = r.queue.weight(s)
	s.policy = r.opts.current()
	s.header = kept(s.policy, req.Header, r.opts.hooks.headers)
	r.classify(ctx, s, req)
	if err := r.view(ctx, s, req.TokenIDs); err != nil {
		return err
	}
	s.touched.Store(s.began.UnixNano())
	return nil
}

// tokenizingEngine takes turns among the workers that could be asked for token
// ids, so that none is asked for all; one that does not answer is passed over.
func (r *Router) tokenizingEngine(members []*fleet.Member) prompt.Engine {
	start := int(r.engineAt.Add(1) % math.MaxInt16)
	for i := range members {
		m := members[(start+i)%len(members)]
		e := engineOf(m)
		if r.encoder.Available(&e) {
			return e
		}
	}
	return prompt.Engine{}
}

// pick chooses a worker for s, books the request on it and tells the hooks. For
// a second attempt the caller holds s.mu.
func (r *Router) pick(ctx context.Context, s *Selection, number int) *Error {
	began := s.began
	if number > 1 {
		began = r.opts.now()
	}
	ev := r.evaluation()
	defer func() { r.release(ev) }()
	r.hash(s)
	id, ev, err := r.settle(ctx, s, ev, number)
	if err != nil {
		r.rejection(s, ev, number, err)
		return err
	}
	d := r.decide(s, ev, number, began)
	if d.ID = id; number > 1 && s.decision != nil {
		d.Previous = s.decision.ID
	}
	s.decision = d
	for _, h := range r.opts.hooks.decision {
		h.OnDecision(s.decision)
	}
	return nil
}

// turnedAway tells the hooks of a request whose sender may not make it.
func (r *Router) turnedAway(req *Request, err error) {
	var e *Error
	if len(r.opts.hooks.rejected) == 0 || !errors.As(err, &e) {
		return
	}
	switch e.Code {
	case CodeUnauthenticated, CodeForbidden, CodeUnavailable:
		d := &Decision{Chosen: -1, Attempt: 1, API: req.API.String(), Model: req.Model}
		for _, h := range r.opts.hooks.rejected {
			h.OnRejection(d, e)
		}
	default:
	}
}

// refused tells the hooks of a request that no worker was sought for.
func (r *Router) refused(s *Selection, err *Error) {
	if len(r.opts.hooks.rejected) == 0 {
		return
	}
	ev := r.evaluation()
	defer r.release(ev)
	d := r.decide(s, ev, 1, s.began)
	for _, h := range r.opts.hooks.rejected {
		h.OnRejection(d, err)
	}
}

// rejection tells the hooks of a request for which nobody was chosen.
func (r *Router) rejection(s *Selection, ev *evaluation, number int, err *Error) {
	if len(r.opts.hooks.rejected) == 0 || number > 1 {
		return
	}
	switch err.Code {
	case CodeRejectedByPolicy, CodeNoCandidates, CodeSaturated:
	default:
		return
	}
	d := r.decide(s, ev, number, s.began)
	d.Chosen, d.Saturated = -1, err.Code == CodeSaturated
	for _, h := range r.opts.hooks.rejected {
		h.OnRejection(d, err)
	}
}

// look evaluates without booking, and reports whether the request would wait. Like
// choose it lets go of the lock even when a Policy or a Predictor panics: they are the
// user's code.
func (r *Router) look(s *Selection, ev *evaluation) (saturated bool) {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if r.queue != nil {
		r.queue.arrive()
		defer func() { r.queue.promised = r.queue.promised[:0] }()
	}
	r.evaluate(s, ev, 1, true)
	if r.queue == nil || len(ev.Plan.Order) == 0 {
		return false
	}
	ready, _ := r.queue.ready(ev)
	return !ready
}

// choose evaluates and books, and returns the decision's number, or what the request
// waits for if it has to.
func (r *Router) choose(s *Selection, ev *evaluation, number int) (id uint64, waits waiting, err *Error) {
	r.lockPick()
	defer r.pickMu.Unlock()
	defer r.together() // they may have waited for this one
	queues, gathers := r.queue != nil && number == 1, r.moment.arrives(s)
	if queues {
		r.queue.arrive()
		defer func() { r.queue.promised = r.queue.promised[:0] }()
	}
	r.evaluate(s, ev, number, queues || gathers)
	if len(ev.Plan.Order) == 0 {
		return 0, nil, r.nobody(s, ev)
	}
	if queues {
		switch w, err := r.line(s, ev); {
		case err != nil:
			return 0, nil, err
		case w != nil:
			return 0, w, nil
		}
	}
	if gathers {
		if g := r.moment.join(s, ev); g != nil {
			return 0, g, nil
		}
	}
	if id = r.commit(s, ev, number, queues || gathers); id == 0 {
		return 0, nil, r.nobody(s, ev)
	}
	if queues {
		r.queue.charge(s, ev.work(), r.opts.now())
	}
	return id, nil, nil
}

// lockPick locks pickMu. It is held for some microseconds by many: to sleep would
// take longer than to let others run a few times and look again.
func (r *Router) lockPick() {
	const looks = 300
	for range looks {
		if r.pickMu.TryLock() {
			return
		}
		runtime.Gosched()
	}
	r.pickMu.Lock()
}

// commit books what was evaluated, if asked as a question only, and returns the
// decision's number; 0 if the policy has changed its mind. The caller holds pickMu.
func (r *Router) commit(s *Selection, ev *evaluation, number int, asked bool) uint64 {
	if asked {
		q := s.prompt()
		q.Attempt = number
		ev.Choose(&q, s.policy) // until now it was a question
		if len(ev.Plan.Order) == 0 {
			return 0
		}
		if before, _ := ev.computing(ev.Plan.Order[0]); before != ev {
			q.Prefill, q.TargetTTFT, q.TargetITL = true, 0, 0
			if before.Choose(&q, s.policy); len(before.Plan.Order) == 0 {
				return 0
			}
			ev.relayedBy(before.Candidates[before.Plan.Order[0]].Name)
		}
	}
	r.book(s, ev, number)
	r.decisions++
	return r.decisions
}

func (r *Router) evaluation() *evaluation {
	return r.scratch.Get().(*evaluation) //nolint:forcetypeassert // the pool holds nothing else
}

func (r *Router) release(ev *evaluation) {
	ev.forget(r)
	r.scratch.Put(ev)
}

// reap releases forgotten Selections until Close.
func (r *Router) reap() {
	const parts = 4 // a forgotten Selection lives at most a quarter too long
	tick := time.NewTicker(max(r.opts.maxIdle/parts, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			r.sweep()
		}
	}
}

func (r *Router) sweep() {
	now := r.opts.now()
	for _, s := range r.live.idleSince(now.Add(-r.opts.maxIdle)) {
		age := now.Sub(s.began)
		id := s.Decision().ID
		if !s.end(Usage{}, errReaped, true) {
			continue // its owner was faster after all
		}
		if l := r.opts.logger; l != nil {
			l.Warn("kvsteer: released a Selection that was never ended",
				slog.Uint64("decision", id), slog.Duration("age", age))
		}
		for _, h := range r.opts.hooks.reap {
			h.OnReap(id, age)
		}
	}
}

var errReaped = errors.New("kvsteer: selection released: no sign of life, and its owner never ended it")

// InFlight counts the Selections that have not ended.
func (r *Router) InFlight() int { return r.live.len() }

// PolicyInForce returns the policy that decides.
func (r *Router) PolicyInForce() policy.Policy { return r.opts.current() }

// MaxBody is the largest request body that is accepted, in bytes: gateways that read
// bodies themselves need not read further. See [WithMaxBody].
func (r *Router) MaxBody() int64 { return r.opts.maxBody }
