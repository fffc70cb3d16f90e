package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
	"github.com/kvsteer/kvsteer/internal/sim"
)

// simulation is what the flags of `kvsteer simulate` say.
type simulation struct {
	workload, fleetFile, rules, concurrency string

	rate, speed           float64
	processes             int
	arrivalSeed           uint64
	duration              time.Duration
	warmup, cooldown, slo time.Duration
	limit                 int

	workers, prefills, decodes                 int
	cacheTokens, blockSize, budget, maxRunning int
	prefillRate, transferRate                  float64
	slow                                       string
	loss, failures                             float64
	delay, stale                               time.Duration
	replicas                                   replicas

	seed   uint64
	repeat int
	json   bool
	grid   bool
	plot   string
	jobs   int
}

const simulateUsage = `usage: kvsteer simulate [flags]

Runs a fleet of model engines in virtual time and compares routing rules. What
it prints is a simulation, not a measurement of any engine.

Workloads: shared-prefix, multi-turn, control, hot-prefix, agents, long-prompts, or a
JSONL file (timestamp in ms, input_length, output_length, hash_ids of 512-token
blocks: Mooncake's format). Requests arrive at the times of the trace, at random with
-rate, or from -concurrency users who each wait for an answer; all but a trace need
one of the two.

Rules: kvsteer is this library as it comes, kvsteer-queue the same with WithQueue.
kvsteer:NAME=VALUE+NAME=VALUE tries out others: constant, running, most, waiting and
wanting are the weights of a request's own prefill as a cost to others
(docs/routing.md), wantmost how many that wait count for wanting; progress=0 counts work ahead as a whole until it is done; answer=0
leaves out how long the request's own answer takes; oracle=1 predicts by the engines'
true state; gather is for how many seconds at most one waits for others of its moment;
queue=1 holds requests in the router while workers are busy, with hold and aging in
seconds; with -replicas, near=0 lets each router take the one best
and turn=SECONDS has each choose so much later than the one before it. random, round-robin, least-requests, power-of-two,
session-hash, sglang, llm-d and dynamo are what others do, with the same knowledge of
caches and load. lowest-ttft sees the engines' true state. bound is no router: one
cache and one queue for all workers, the shortest prompt first; bound-fifo is the
same, first come first served.

A fleet file lists workers, equal ones with a count; all fields can be left out:

  workers:
    - {count: 4, role: prefill, class: h100, prefill_rate: 20000, cache_tokens: 1000000}
    - {count: 4, role: decode, class: h100, prefill_rate: 20000, cache_tokens: 1000000}
    - {class: l40s, speed: 0.5, token_budget: 8192, max_running: 128, block_size: 16,
       outages: [{at: 2m, for: 30s}]}
  transfer_rate: 200000 # tokens a second from one that computes prompts

A worker with the role prefill computes prompts for those with the role decode, and
nothing else; without a role it serves whole requests. bound and lowest-ttft know no
roles; the rules of other systems choose among the workers of each role for all
prompts, kvsteer has those computed elsewhere for which that is faster.

With -replicas so many routers share the requests at random, whatever session they
belong to. Each has a predictor, an index and a view of its own; all get the KV events.
With -exchange on they tell each other what they have in flight and what they have just
sent where, as routers with WithReplicas do; what is lost is mended each second. With off
each knows of others' requests what the engines report: give -stale 1s, the fleet's
default, or that is always the latest. bound and lowest-ttft have no replicas, and what
dynamo knows of blocks in use is each router's own.

Examples:

  kvsteer simulate -rate 0.5
  kvsteer simulate -workload multi-turn -concurrency 8,16,32 -rules random,kvsteer -plot out
  kvsteer simulate -workload trace.jsonl -workers 8 -prefill-rate 12000 -cache-tokens 1000000
  kvsteer simulate -workload trace.jsonl -fleet fleet.yaml -seed 7 -repeat 3 -json
  kvsteer simulate -workload agents -rate 3 -rules kvsteer -replicas 4 -exchange-loss 0.05 -stale 1s
  kvsteer simulate -workload long-prompts -rate 2 -workers 8 -prefill-workers 4 -decode-workers 4

Flags:

`

func (o *simulation) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("simulate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, simulateUsage)
		f.PrintDefaults()
	}
	f.StringVar(&o.workload, "workload", "shared-prefix", "the `name` of a workload, or the file of a trace")
	f.StringVar(&o.rules, "rules", "", "the `rules` to compare, comma-separated (default: "+strings.Join(simulate.RuleNames(), ",")+
		", as far as they know what the fleet is like)")
	f.Float64Var(&o.rate, "rate", 0, "Poisson arrivals, `requests` a second")
	f.IntVar(&o.processes, "generator-processes", 1, "of so `many` processes of the load generator that draw the same gaps each, "+
		"as GuideLLM 0.8.1's do; makes bursts")
	f.Uint64Var(&o.arrivalSeed, "arrival-seed", 0, "`seed` of when requests arrive, in all repetitions (0: that of each)")
	f.StringVar(&o.concurrency, "concurrency", "", "closed loop with so many `users`; a list makes a sweep")
	f.Float64Var(&o.speed, "speed", 1, "run a trace's arrivals so many times as fast")
	f.DurationVar(&o.duration, "duration", 0, "how long requests come in (default: the whole trace, else 345s)")
	o.warmup, o.cooldown = -1, -1
	f.Func("warmup", "`time` at the beginning of which requests aren't measured (default: 0 for a trace, else 60s)", span(&o.warmup))
	f.Func("cooldown", "`time` at the end of which requests aren't measured (default: 0 for a trace, else 45s)", span(&o.cooldown))
	f.DurationVar(&o.slo, "slo", 0, "time to first token of a good request (default: 4s for multi-turn, else 8s)")
	f.IntVar(&o.limit, "limit", 0, "read so many `requests` of a trace (0: all)")
	f.StringVar(&o.fleetFile, "fleet", "", "YAML `file` that describes the workers; instead of -workers and what describes them")
	f.IntVar(&o.workers, "workers", 3, "number of workers")
	f.IntVar(&o.prefills, "prefill-workers", 0, "so `many` of the workers compute prompts for those that decode, and nothing else")
	f.IntVar(&o.decodes, "decode-workers", 0, "so `many` of the workers answer prompts that others have computed")
	f.Float64Var(&o.transferRate, "transfer-rate", 0, "`tokens` a second that are handed over (0: that of the fleet, or 200,000)")
	f.IntVar(&o.cacheTokens, "cache-tokens", 0, "KV cache of each in `tokens` (0: 196,608)")
	f.Float64Var(&o.prefillRate, "prefill-rate", 0, "prefill `tokens` a second of each (0: about 2,600, a 27B model in FP8 on an L40S)")
	f.IntVar(&o.blockSize, "block-size", 0, "`tokens` of a block (0: 512 for a trace, else 16)")
	f.IntVar(&o.budget, "token-budget", 0, "most `tokens` of a step (0: 2,048)")
	f.IntVar(&o.maxRunning, "max-running", 0, "most `requests` in a batch (0: 256)")
	f.StringVar(&o.slow, "slow", "", "make the first worker slower: a `factor` such as 3")
	f.Float64Var(&o.loss, "event-loss", 0, "share of KV events that never arrive, 0 to 1")
	f.Float64Var(&o.failures, "failures", 0, "share of requests that a worker answers with an error, 0 to 1; another is tried")
	f.DurationVar(&o.delay, "event-delay", 0, "how long KV events take")
	f.DurationVar(&o.stale, "stale", 0, "time between two looks at the engines' metrics (0: always the latest)")
	o.replicas.flags(f)
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything random")
	f.IntVar(&o.repeat, "repeat", 1, "run with so many seeds and give the mean of each figure")
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line for each point of a sweep")
	f.BoolVar(&o.grid, "grid", false, "repeat with 4, 8, 16 workers, 400k, 1M, 4M tokens of cache, speeds 0.5, 1, 1.5; print Markdown")
	f.StringVar(&o.plot, "plot", "", "write SVG plots into this `directory`")
	f.IntVar(&o.jobs, "jobs", 2, "simulations to run at a time")
	return f
}

// runSimulate is the command.
func runSimulate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o simulation
	f := o.flags(stderr)
	if code, ok := parse(f, args, stderr); !ok {
		return code
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "kvsteer simulate: unexpected argument %q\n", f.Arg(0))
		return exitUsage
	}
	for name, share := range map[string]float64{"event-loss": o.loss, "failures": o.failures, "exchange-loss": o.replicas.loss} {
		if !(share >= 0 && share <= 1) {
			fmt.Fprintf(stderr, "kvsteer simulate: -%s %v: want a share, 0 to 1\n", name, share)
			return exitUsage
		}
	}
	if err := o.replicas.check(); err != nil {
		fmt.Fprintf(stderr, "kvsteer simulate: %v\n", err)
		return exitUsage
	}
	if err := o.run(ctx, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "kvsteer simulate: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// point is one load of a sweep.
type point struct {
	concurrency int
	name        string
	results     []*simulate.Result // by rule; of the first seed, rows are means
}

func (o *simulation) run(ctx context.Context, stdout, stderr io.Writer) error {
	if o.grid {
		return o.runGrid(ctx, stdout, stderr)
	}
	points, err := o.measure(ctx, stderr)
	if err != nil {
		return err
	}
	if err := o.print(stdout, points); err != nil {
		return err
	}
	if o.plot != "" {
		return plots(o.plot, points)
	}
	return nil
}

// measure runs what the flags say.
func (o *simulation) measure(ctx context.Context, stderr io.Writer) ([]point, error) {
	fleet, err := o.fleet()
	if err != nil {
		return nil, err
	}
	specs := fleet.Workers
	names, err := o.names(fleet)
	if err != nil {
		return nil, err
	}
	workload, err := o.workloads(blockSize(specs, o.synthetic()))
	if err != nil {
		return nil, err
	}
	points, err := o.points(workload().Name)
	if err != nil {
		return nil, err
	}
	cfg := o.config(fleet, workload().Trace)
	if o.repeat < 1 {
		return nil, errors.New("-repeat must be at least 1")
	}

	bar := newBar(stderr, len(points)*len(names)*o.repeat, length(cfg, workload()))
	defer bar.done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(o.jobs, 1))
	all := make([][][]*simulate.Result, len(points))
	for p := range points {
		all[p] = make([][]*simulate.Result, len(names))
		for n, name := range names {
			all[p][n] = make([]*simulate.Result, o.repeat)
			for k := range o.repeat {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					c := cfg
					c.Concurrency, c.Seed = points[p].concurrency, o.seed+uint64(k)
					var done func()
					c.Progress, done = bar.run()
					r, err := o.one(ctx, c, name, workload)
					if err != nil {
						cancel(fmt.Errorf("%s: %w", name, err))
						return
					}
					all[p][n][k] = r
					done()
				})
			}
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for p := range points {
		for _, runs := range all[p] {
			points[p].results = append(points[p].results, mean(runs))
		}
	}
	return points, nil
}

func (o *simulation) one(
	ctx context.Context, c simulate.Config, name string, workload func() *simulate.Workload,
) (*simulate.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rules, err := o.replicas.rules(c.Workers, name, c.Seed)
	if err != nil {
		return nil, err
	}
	w := workload()
	w.Reseed(c.Seed)
	if o.slo > 0 {
		w.SLO = o.slo
	}
	r, err := simulate.Run(ctx, c, w, rules[0], rules[1:]...)
	if err != nil {
		return nil, err
	}
	r.Router = name
	return r, nil
}

// synthetic returns what makes the named workload; nil if it is none.
func (o *simulation) synthetic() func(int, *rand.Rand) *simulate.Workload {
	switch o.workload {
	case "shared-prefix":
		return simulate.SharedPrefix
	case "multi-turn":
		return simulate.MultiTurn
	case "control":
		return simulate.Control
	case "hot-prefix":
		return simulate.HotPrefix
	case "agents":
		return simulate.Agents
	case "long-prompts":
		return simulate.LongPrompts
	default:
		return nil
	}
}

// blockSize fills in the block size where the fleet leaves it open: that of
// traces for a trace, else vLLM's.
func blockSize(specs []simulate.WorkerSpec, synthetic func(int, *rand.Rand) *simulate.Workload) int {
	size := simulate.TraceBlock
	if synthetic != nil {
		size = sim.DefaultBlockSize
	}
	for _, s := range specs {
		if s.BlockSize != 0 {
			size = s.BlockSize
			break
		}
	}
	for i := range specs {
		if specs[i].BlockSize == 0 {
			specs[i].BlockSize = size
		}
	}
	return size
}

// workloads returns what makes the workload, anew for each run.
func (o *simulation) workloads(blockSize int) (func() *simulate.Workload, error) {
	if blockSize < 1 {
		return nil, fmt.Errorf("a block size of %d tokens", blockSize)
	}
	if synthetic := o.synthetic(); synthetic != nil {
		return func() *simulate.Workload { return synthetic(blockSize, nil) }, nil
	}
	f, err := os.Open(o.workload)
	if err != nil {
		return nil, fmt.Errorf("the workload is neither a name nor a file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	calls, err := simulate.ReadTrace(f, blockSize, o.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.workload, err)
	}
	name := strings.TrimSuffix(filepath.Base(o.workload), filepath.Ext(o.workload))
	return func() *simulate.Workload { return simulate.Trace(name, calls) }, nil
}

func (o *simulation) config(f *simulate.Fleet, trace bool) simulate.Config {
	c := simulate.Config{
		Workers: f.Workers, TransferRate: f.TransferRate, Rate: o.rate, Processes: o.processes, ArrivalSeed: o.arrivalSeed,
		Speed: o.speed, Duration: o.duration,
		Warmup: max(o.warmup, 0), Cooldown: max(o.cooldown, 0),
		Faults:   simulate.Faults{EventLoss: o.loss, EventDelay: o.delay, Stale: o.stale, Failures: o.failures},
		Exchange: o.replicas.config(),
	}
	if o.transferRate > 0 {
		c.TransferRate = o.transferRate
	}
	if c.TransferRate <= 0 {
		c.TransferRate = kvsteer.DefaultTransferRate
	}
	if trace {
		return c
	}
	// The published benchmark's: 60 s of warm-up, 240 s measured, 45 s after.
	if c.Duration == 0 {
		c.Duration = 345 * time.Second
	}
	if o.warmup < 0 {
		c.Warmup = min(60*time.Second, c.Duration/4)
	}
	if o.cooldown < 0 {
		c.Cooldown = min(45*time.Second, c.Duration/4)
	}
	return c
}

// length is how long requests come in.
func length(c simulate.Config, w *simulate.Workload) time.Duration {
	if c.Duration > 0 {
		return c.Duration
	}
	return time.Duration(float64(w.Last) / c.Speed)
}

// span reads a time that isn't negative into at.
func span(at *time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		if err == nil && d < 0 {
			err = errors.New("it can't be negative")
		}
		*at = d
		return err
	}
}

// points are the loads to simulate.
func (o *simulation) points(workload string) ([]point, error) {
	if o.concurrency == "" {
		return []point{{name: workload}}, nil
	}
	var out []point
	for s := range strings.SplitSeq(o.concurrency, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-concurrency takes numbers of users, not %q", s)
		}
		out = append(out, point{concurrency: n, name: workload})
	}
	if len(out) > 1 {
		for i := range out {
			out[i].name += "@" + strconv.Itoa(out[i].concurrency)
		}
	}
	return out, nil
}
