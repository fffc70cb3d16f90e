package prompt

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Local is a source that computes ids from a model's own files. Safe for
// concurrent use.
//
// If it also has a method Token(model string, id uint32) (string, bool), reports
// of differences spell the tokens.
type Local interface {
	Source
	// Assets returns a hash of all files that decide about a model's ids, as they
	// are used now; "" if it has none for the model. It is asked for each request
	// and must be fast.
	Assets(model string) string
}

// ProverOptions configure a [Prover]. The zero value works.
type ProverOptions struct {
	// Strict leaves prompts that no engine could confirm to the next source. By
	// default they are served, and [Encoding].Degraded says that they are not proven.
	// Strict is for fleets whose engines all have the endpoints.
	Strict bool
	// Probes are compared in addition to the built-in ones.
	Probes []Probe
	// Client makes the calls to engines. Nil means one of its own, as in [Options].
	Client *http.Client
	// Timeout bounds each call to an engine. 0 means [DefaultProofTimeout].
	Timeout time.Duration
	// Parallel is how many engines are asked at a time, each one question after the
	// other. 0 means [DefaultProofParallel].
	Parallel int
	// Audit says how many answered requests must differ to count as a disproof.
	Audit AuditOptions
	// OnReport is called when a proof passes, fails, or turns out to be impossible,
	// and when that changes. A failed one is an alarm: until it is seen to, requests
	// take a slower source. It may be called concurrently; the report must not be
	// modified, and OnReport must not call Close.
	OnReport func(*ProofReport)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

const (
	// DefaultProofTimeout: an engine that starts up or is full answers late; nobody
	// waits for a proof.
	DefaultProofTimeout = 10 * time.Second
	// DefaultProofParallel bounds what a large fleet that starts costs.
	DefaultProofParallel = 8

	// An engine that does not answer is asked again after firstRetry, then after
	// twice as long, up to maxRetry.
	firstRetry = time.Second
	maxRetry   = time.Minute
	// patientAttempts is how many failures leave a proof pending. After that it
	// counts as impossible for now: an engine that takes requests but no questions
	// must not keep all prompts from being exact.
	patientAttempts = 3

	// A model that requests have disproved stays disproved for firstHold, whatever
	// probes say, since they did not find it; twice as long each time it happens
	// again, up to maxHold.
	firstHold = 5 * time.Minute
	maxHold   = time.Hour
)

// Prover is a [Local] source that serves only as long as its ids are those of the
// engines. It compares probes, a few dozen prompts in all shapes, with each engine
// that serves a model when the engine appears and when the files change, and
// watches answered requests. Make it with [NewProver], put it into [Options].Sources,
// close it when done. Safe for concurrent use.
//
// Until one engine has confirmed a model's ids, and after one has disproved them,
// requests take the chain's next source: a proof takes less than a second, the
// engine itself can be asked meanwhile, and ids that may be wrong are worth
// nothing. An engine that joins later does not interrupt: its cache is empty, so
// that nothing is lost on it before its own proof is done. One that has other ids
// disables the model's local path, for all, until the engine leaves or the files
// change: the same ids go to whichever engine is chosen.
type Prover struct {
	local  Local
	opts   ProverOptions
	probes []Probe
	client *http.Client
	audit  *Auditor
	slots  chan struct{} // one for each engine that is asked at a time

	root    context.Context //nolint:containedctx // ends what runs when Close is called
	cancel  context.CancelFunc
	running sync.WaitGroup
	ownsCli bool

	mu      sync.Mutex
	closed  bool
	unknown verdict // on models that no engine serves
	engines map[string]*provenEngine
	models  map[string]*provenModel
}

// provenEngine is an instance and the proofs about it, guarded by Prover.mu.
type provenEngine struct {
	engine Engine
	models []string // sorted
	proofs map[string]*proof

	leave context.CancelFunc
	ctx   context.Context //nolint:containedctx // ends with the engine
	busy  bool            // a goroutine asks it
	wakes int             // times that there was something new to do
	kick  chan struct{}   // ends a pause
}

// proof is what is known about one engine and one model. It is replaced, not
// changed, but for again.
type proof struct {
	report ProofReport
	apis   [numAPIs]bool // of which something was compared
	// retry says that the engine did not answer, so many times, and must be asked
	// after a while.
	retry    bool
	failures int
	after    time.Time
	// again says that it must be asked anew, whatever it answered.
	again bool
}

// NewProver returns a Prover of local. It starts nothing before an engine joins. A
// nil local serves nothing, and each request's [Degradation] says so.
func NewProver(local Local, o ProverOptions) *Prover {
	if local == nil {
		local = noLocal{}
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultProofTimeout
	}
	if o.Parallel <= 0 {
		o.Parallel = DefaultProofParallel
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Prover{
		local: local, opts: o, probes: append(builtinProbes(), o.Probes...),
		audit: NewAuditor(o.Audit), slots: make(chan struct{}, o.Parallel),
		engines: map[string]*provenEngine{}, models: map[string]*provenModel{},
	}
	if o.Client == nil {
		p.client, p.ownsCli = newClient(), true
	} else {
		p.client = staying(o.Client)
	}
	p.unknown.doubt(string(errNoEngine), [numAPIs]bool{})
	p.root, p.cancel = context.WithCancel(context.Background())
	return p
}

// Prover returns the first Prover among the Encoder's sources, nil if there is
// none: a router tells it which engines there are.
func (e *Encoder) Prover() *Prover {
	for _, s := range e.opts.Sources {
		if p, ok := s.(*Prover); ok {
			return p
		}
	}
	return nil
}

// Join says that an engine serves these models, by its names for them. Joining
// again replaces the models; another instance needs another ID. What the local
// source has no files for is passed over. It does not block.
func (p *Prover) Join(engine Engine, models []string) {
	models = slices.Clone(models)
	slices.Sort(models)
	models = slices.Compact(models)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	e := p.engines[engine.id()]
	if e == nil {
		e = &provenEngine{engine: engine, proofs: map[string]*proof{}, kick: make(chan struct{}, 1)}
		e.ctx, e.leave = context.WithCancel(p.root)
		p.engines[engine.id()] = e
	} else if slices.Equal(e.models, models) {
		return
	}
	before := e.models
	e.models = models
	for _, m := range before {
		if !slices.Contains(models, m) {
			delete(e.proofs, m)
		}
	}
	p.judgeAll(before)
	p.judgeAll(models)
	p.wake(e)
}

// Leave says that an instance is gone. What is known about it is forgotten.
func (p *Prover) Leave(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.engines[id]
	if e == nil {
		return
	}
	e.leave()
	delete(p.engines, id)
	p.judgeAll(e.models)
	p.audit.Forget(id)
}

// Observe takes in a request that an engine answered, and returns how its prompt
// differs from what it was taken for, nil if it doesn't. When too many of an
// engine's requests do, the model's local path is disabled for a while and the
// engine is asked anew; where it was the beginnings of prompts with media, only these.
// A prompt by files that have changed since says nothing.
func (p *Prover) Observe(o *Observation) *Mismatch {
	if enc := o.Encoding; enc != nil && enc.Source.local() && enc.Assets != "" && enc.Assets != p.local.Assets(o.Model) {
		return nil
	}
	m := p.audit.Observe(o)
	if m != nil && m.Tipped && m.Source.local() {
		p.disprove(m)
	}
	return m
}

// Status returns how the proofs stand, by engine and model.
func (p *Prover) Status() []ProofReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []ProofReport
	for _, id := range sortedKeys(p.engines) {
		e := p.engines[id]
		for _, m := range e.models {
			if known := e.proofs[m]; known != nil {
				all = append(all, known.report)
			} else {
				all = append(all, ProofReport{Engine: id, Model: m})
			}
		}
	}
	return all
}

// Close stops asking engines and waits for calls to end. What is proven stays so.
// It always returns nil.
func (p *Prover) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.running.Wait()
	if p.ownsCli {
		p.client.CloseIdleConnections()
	}
	return nil
}
