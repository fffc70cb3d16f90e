package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Faults go wrong on purpose. The zero value is none.
type Faults struct {
	// EventLoss is the share of KV events that never reach the router, 0 to 1.
	EventLoss float64
	// EventDelay is how long they take.
	EventDelay time.Duration
	// Stale is the time between two looks at what engines report; 0 is always the
	// latest.
	Stale time.Duration
	// Failures is the share of requests that a worker answers with an error at once,
	// 0 to 1. Then another is tried, as the router does.
	Failures float64
}

// Config is a run.
type Config struct {
	Workers []WorkerSpec
	// TransferRate is the tokens a second whose KV a worker fetches from the one that
	// has computed them, whatever else is on its way. 0 takes no time. Rules know it.
	TransferRate float64
	Faults       Faults
	// Exchange is between the routers, where there are several.
	Exchange Exchange
	// InTurn has calls come to the routers in turn. Else they come to any at random.
	InTurn bool
	// Rate is the calls a second, Poisson; Concurrency is the users of a closed
	// loop. Exactly one is set unless the workload is a trace; then Speed is by how
	// much it runs faster, 0 meaning 1.
	Rate        float64
	Concurrency int
	// Processes is those of the load generator that makes Rate, 0 meaning 1: with more of
	// them calls come in bursts, see newArrivals. ArrivalSeed decides when calls come; 0 is
	// Seed.
	Processes   int
	ArrivalSeed uint64
	Speed       float64
	// Duration is how long calls come in; 0 is the whole trace.
	Duration time.Duration
	// Calls that came in the first Warmup and the last Cooldown of Duration aren't
	// measured.
	Warmup, Cooldown time.Duration
	// Seed decides everything random.
	Seed uint64
	// Progress, if not nil, is called now and then with the virtual time.
	Progress func(now time.Duration)
}

// streams of random numbers, so that a rule's don't change the workload's.
const (
	streamWorkload = iota + 1
	streamArrival
	streamFaults
	streamRule
	streamFailures
	streamDecode
	streamSpread
	streamLosses
)

func stream(seed uint64, which uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, which)) //nolint:gosec // a simulation must be repeatable
}

// worker is an engine and whether a step of it is under way.
type worker struct {
	spec   *WorkerSpec
	engine *sim.Engine
	life   int // counts restarts
	down   bool
	step   *sim.Step // nil between steps
	ends   time.Duration
	events [][]notice // of the step, for each router
	legs   []*Leg     // that the engine has
	// prefilling are those without a first token, context is the tokens of those with
	// one.
	prefilling []*Leg
	context    int
}

// cluster is a run under way.
type cluster struct {
	cfg      Config
	workload *Workload
	routers  []*router
	pool     *pool // of the bound
	now      time.Duration
	agenda   agenda
	workers  []worker
	arrivals *arrivals
	faults   *rand.Rand
	failures *rand.Rand
	spread   *rand.Rand // of calls over routers
	losses   *rand.Rand // of messages between them
	turns    int        // of routers
	closing  bool
	live     int // calls that have not ended
	out      recorder

	hashes []kvcache.EngineHash
	tokens []uint32
}

// epoch is an arbitrary start of virtual time.
var epoch = time.Unix(1e9, 0)

// indexBytes is enough for the greatest fleets that one would simulate.
const indexBytes = 4 << 30

// Run simulates a workload under a rule; under several of them, of one kind, each is
// a router of its own, and a call comes to any of them at random.
func Run(ctx context.Context, cfg Config, w *Workload, rule Rule, more ...Rule) (*Result, error) {
	c, err := newCluster(cfg, w, rule, more...)
	if err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	return c.out.result(c), nil
}

// run lets everything happen.
func (c *cluster) run(ctx context.Context) error {
	c.start()
	const often = 1 << 14
	for n := 0; ; n++ {
		if n%often == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if c.cfg.Progress != nil {
				c.cfg.Progress(c.now)
			}
		}
		e, ok := c.agenda.next()
		if !ok {
			break
		}
		c.now = e.at
		if err := c.happen(&e); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(c.workers, func(w worker) bool { return w.down }) {
		c.abandon()
	}
	if c.live != 0 {
		return fmt.Errorf("%d requests never finished", c.live)
	}
	return nil
}

func newCluster(cfg Config, w *Workload, rule Rule, more ...Rule) (*cluster, error) {
	specs, err := expand(cfg.Workers)
	if err != nil {
		return nil, err
	}
	if !w.Trace && cfg.Duration <= 0 {
		return nil, errors.New("the workload has no end: a duration is needed")
	}
	if cfg.Speed == 0 {
		cfg.Speed = 1
	}
	if cfg.Rate < 0 || cfg.Concurrency < 0 || cfg.Speed < 0 || cfg.Rate > 0 && cfg.Concurrency > 0 {
		return nil, errors.New("arrivals need either a rate or a concurrency, positive: give -rate or -concurrency, not both")
	}
	if cfg.Processes < 0 {
		return nil, errors.New("-generator-processes is a number of processes: give 1 or more")
	}
	if cfg.Rate == 0 && (cfg.Processes > 1 || cfg.ArrivalSeed > 0) {
		return nil, errors.New("-generator-processes and -arrival-seed are for arrivals at a rate: give -rate")
	}
	if cfg.ArrivalSeed == 0 {
		cfg.ArrivalSeed = cfg.Seed
	}
	if !w.Trace && cfg.Rate == 0 && cfg.Concurrency == 0 {
		return nil, errors.New("the workload has no times of its own: a rate or a concurrency is needed, for example -rate 4 or -concurrency 16")
	}
	rules := append([]Rule{rule}, more...)
	if err := fits(cfg, rules); err != nil {
		return nil, err
	}
	c := &cluster{
		cfg: cfg, workload: w,
		arrivals: newArrivals(stream(cfg.ArrivalSeed, streamArrival), cfg.Processes),
		faults:   stream(cfg.Seed, streamFaults), failures: stream(cfg.Seed, streamFailures),
		spread: stream(cfg.Seed, streamSpread), losses: stream(cfg.Seed, streamLosses),
	}
	_, pooled := rule.(*Bound)
	blocks := 0
	for i := range specs {
		s := &specs[i]
		e, err := s.engine(!pooled)
		if err != nil {
			return nil, err
		}
		c.workers = append(c.workers, worker{spec: s, engine: e})
		blocks += e.Config().Blocks
	}
	if pooled {
		c.pool = newPool(blocks)
	}
	for n, rule := range rules {
		c.routers = append(c.routers, newRouter(c, n, rule))
	}
	c.out.window(cfg.Warmup, cfg.Duration-cfg.Cooldown, cfg.Duration > 0)
	return c, nil
}

// fits reports rules that know nothing of what the fleet is like.
func fits(cfg Config, rules []Rule) error {
	rule := rules[0]
	_, relays := rule.(Relayer)
	_, pooled := rule.(*Bound)
	truth, is := rule.(interface{ truth() bool })
	switch split, fails := Split(cfg.Workers), cfg.Faults.Failures > 0 || Fails(cfg.Workers); {
	case split && (!relays || is && truth.truth()):
		return errors.New("the rule knows no workers of separate roles")
	case fails && pooled:
		return errors.New("the bound is of workers that don't fail")
	case len(rules) > 1 && !Replicates(rule):
		return errors.New("the rule can't be that of several routers: it knows everything")
	default:
		return nil
	}
}

// start plans what begins by itself.
func (c *cluster) start() {
	for i := range c.workers {
		for _, o := range c.workers[i].spec.Outages {
			c.agenda.plan(event{at: o.At, kind: crash, worker: i})
			if o.For > 0 {
				c.agenda.plan(event{at: o.At + o.For, kind: restart, worker: i})
			}
		}
	}
	for n, r := range c.routers { // not all at a time
		part := func(d time.Duration) time.Duration { return d * time.Duration(n+1) / time.Duration(len(c.routers)) }
		if stale := c.cfg.Faults.Stale; stale > 0 {
			c.agenda.plan(event{at: part(stale), kind: report, router: r})
		}
		if r.table != nil {
			c.agenda.plan(event{at: part(beat), kind: beats, router: r})
		}
	}
	switch {
	case c.cfg.Concurrency > 0:
		for range c.cfg.Concurrency {
			c.user()
		}
	default:
		c.nextArrival()
	}
}

// user begins a session of the closed loop.
func (c *cluster) user() {
	if c.over(c.now) {
		return
	}
	if calls := c.workload.Session(); calls != nil {
		c.agenda.plan(event{at: c.now, kind: arrive, job: &Job{Call: calls[0], rest: calls[1:], closed: true}})
	}
}

func (c *cluster) over(at time.Duration) bool {
	return c.closing || c.cfg.Duration > 0 && at >= c.cfg.Duration
}

// nextArrival plans the next session of an open loop.
func (c *cluster) nextArrival() {
	calls := c.workload.Session()
	if calls == nil {
		c.closing = true
		return
	}
	at := time.Duration(float64(calls[0].At) / c.cfg.Speed)
	if c.cfg.Rate > 0 {
		at = c.arrivals.next(c.cfg.Rate / float64(c.workload.Turns))
	}
	if c.over(at) {
		c.closing = true
		return
	}
	c.agenda.plan(event{at: at, kind: arrive, job: &Job{Call: calls[0], rest: calls[1:]}})
}

func (c *cluster) happen(e *event) error {
	switch e.kind {
	case arrive:
		j := e.job
		if !j.closed && j.turn == 0 {
			c.nextArrival()
		}
		return c.admit(j)
	case step:
		if e.life == c.workers[e.worker].life {
			return c.stepDone(e.worker)
		}
	case publish:
		if e.life == c.workers[e.worker].life {
			e.router.apply(e.worker, e.batch)
		}
	case report:
		for i := range c.workers {
			e.router.scrape(i)
		}
		if c.goesOn() {
			c.agenda.plan(event{at: c.now + c.cfg.Faults.Stale, kind: report, router: e.router})
		}
	case held:
		return c.place(e.job)
	case tell:
		e.router.publish(false)
	case beats:
		e.router.beats()
		if c.goesOn() {
			c.agenda.plan(event{at: c.now + beat, kind: beats, router: e.router})
		}
	case hear:
		e.router.hear(e.message)
		return e.router.bind()
	case fetched:
		return c.arrived(e.leg, e.by)
	case expire:
		return c.release(e.by)
	case crash:
		return c.crash(e.worker)
	case restart:
		return c.restart(e.worker)
	case user:
		c.user()
	case wake:
		return e.router.bind()
	}
	return nil
}

// goesOn reports whether there are calls, or going to be. What recurs by itself is not
// to keep the simulation from ending.
func (c *cluster) goesOn() bool { return c.live > 0 || !c.closing && c.agenda.due > 0 }
