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

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
	"github.com/kvsteer/kvsteer/internal/sim"
)

// simulation is what the flags of `kvsteer simulate` say.
type simulation struct {
	workload, fleetFile, rules, concurrency string

	rate, speed           float64
	duration              time.Duration
	warmup, cooldown, slo time.Duration
	limit                 int

	workers, cacheTokens, blockSize, budget, maxRunning int
	prefillRate                                         float64
	slow                                                string
	loss                                                float64
	delay, stale                                        time.Duration

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

Workloads: shared-prefix, multi-turn, control, hot-prefix, agents, or a JSONL file
(timestamp in ms, input_length, output_length, hash_ids of 512-token blocks:
Mooncake's format).

Rules: all below, kvsteer-queue, and bound-fifo. kvsteer is this library as it
comes, kvsteer-queue the same with WithQueue. kvsteer:NAME=VALUE+NAME=VALUE tries
out others: constant, running, most and waiting are the weights of a request's own
prefill as a cost to others (docs/routing.md); progress=0 counts work ahead as a
whole until it is done; oracle=1 predicts by the engines' true state; queue=1
holds requests in the router while workers are busy, with hold and aging in
seconds. random, round-robin, least-requests, power-of-two, session-hash, sglang,
llm-d and dynamo are what others do, with the same knowledge of caches and load.

`

func (o *simulation) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("simulate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, simulateUsage)
		f.PrintDefaults()
	}
	f.StringVar(&o.workload, "workload", "shared-prefix", "shared-prefix, multi-turn, control, hot-prefix, agents, or a trace `file`")
	f.StringVar(&o.rules, "rules", strings.Join(simulate.RuleNames(), ","), "the rules to compare, comma-separated")
	f.Float64Var(&o.rate, "rate", 0, "Poisson arrivals, `requests` a second")
	f.StringVar(&o.concurrency, "concurrency", "", "closed loop with so many `users`; a list makes a sweep")
	f.Float64Var(&o.speed, "speed", 1, "run a trace's arrivals so many times as fast")
	f.DurationVar(&o.duration, "duration", 0, "how long requests come in (default: the whole trace, else 345s)")
	f.DurationVar(&o.warmup, "warmup", -1, "don't measure requests of the beginning (default: 0 for a trace, else 60s)")
	f.DurationVar(&o.cooldown, "cooldown", -1, "don't measure requests of the end (default: 0 for a trace, else 45s)")
	f.DurationVar(&o.slo, "slo", 0, "time to first token of a good request (default: 4s for multi-turn, else 8s)")
	f.IntVar(&o.limit, "limit", 0, "read so many `requests` of a trace (0: all)")
	f.StringVar(&o.fleetFile, "fleet", "", "YAML `file` that describes the workers; instead of the flags below")
	f.IntVar(&o.workers, "workers", 3, "number of workers")
	f.IntVar(&o.cacheTokens, "cache-tokens", 0, "KV cache of each in `tokens` (0: 196,608)")
	f.Float64Var(&o.prefillRate, "prefill-rate", 0, "prefill `tokens` a second of each (0: about 2,600, a 27B model in FP8 on an L40S)")
	f.IntVar(&o.blockSize, "block-size", 0, "`tokens` of a block (0: 512 for a trace, else 16)")
	f.IntVar(&o.budget, "token-budget", 0, "most `tokens` of a step (0: 2,048)")
	f.IntVar(&o.maxRunning, "max-running", 0, "most `requests` in a batch (0: 256)")
	f.StringVar(&o.slow, "slow", "", "make the first worker slower: a `factor` such as 3")
	f.Float64Var(&o.loss, "event-loss", 0, "share of KV events that never arrive, 0 to 1")
	f.DurationVar(&o.delay, "event-delay", 0, "how long KV events take")
	f.DurationVar(&o.stale, "stale", 0, "time between two looks at the engines' metrics (0: always the latest)")
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
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "kvsteer simulate: unexpected argument %q\n", f.Arg(0))
		return exitUsage
	}
	if o.loss < 0 || o.loss > 1 {
		fmt.Fprintf(stderr, "kvsteer simulate: -event-loss %v: want a share, 0 to 1\n", o.loss)
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
	names := strings.Split(o.rules, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
		if _, err := simulate.NewRule(names[i], o.seed); err != nil {
			return nil, err
		}
	}
	specs, err := o.fleet()
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
	cfg := o.config(specs, workload().Trace)
	if o.repeat < 1 {
		return nil, errors.New("-repeat must be at least 1")
	}

	bar := newBar(stderr, len(points)*len(names)*o.repeat)
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
					r, err := o.one(ctx, c, name, workload)
					if err != nil {
						cancel(fmt.Errorf("%s: %w", name, err))
						return
					}
					all[p][n][k] = r
					bar.step()
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
	rule, err := simulate.NewRule(name, c.Seed)
	if err != nil {
		return nil, err
	}
	w := workload()
	w.Reseed(c.Seed)
	if o.slo > 0 {
		w.SLO = o.slo
	}
	r, err := simulate.Run(ctx, c, w, rule)
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

func (o *simulation) fleet() ([]simulate.WorkerSpec, error) {
	if o.fleetFile != "" {
		f, err := os.Open(o.fleetFile)
		if err != nil {
			return nil, fmt.Errorf("the fleet: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		return simulate.ReadFleet(f)
	}
	s := simulate.WorkerSpec{
		Count: o.workers, PrefillRate: o.prefillRate, CacheTokens: o.cacheTokens, BlockSize: o.blockSize,
		TokenBudget: o.budget, MaxRunning: o.maxRunning,
	}
	if o.workers < 1 {
		return nil, errors.New("-workers must be at least 1")
	}
	if o.slow == "" {
		return []simulate.WorkerSpec{s}, nil
	}
	factor, err := strconv.ParseFloat(o.slow, 64)
	if err != nil || factor <= 0 {
		return nil, fmt.Errorf("-slow takes a factor above 0, not %q", o.slow)
	}
	lame := s
	lame.Count, lame.Speed = 1, 1/factor
	if s.Count--; s.Count == 0 {
		return []simulate.WorkerSpec{lame}, nil
	}
	return []simulate.WorkerSpec{lame, s}, nil
}

func (o *simulation) config(specs []simulate.WorkerSpec, trace bool) simulate.Config {
	c := simulate.Config{
		Workers: specs, Rate: o.rate, Speed: o.speed, Duration: o.duration,
		Warmup: max(o.warmup, 0), Cooldown: max(o.cooldown, 0),
		Faults: simulate.Faults{EventLoss: o.loss, EventDelay: o.delay, Stale: o.stale},
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
