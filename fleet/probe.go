package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const (
	// retryInterval is the pace of probes of a member that isn't healthy.
	retryInterval = time.Second
	// minProbeGap bounds how often failing requests can make us probe.
	minProbeGap = 100 * time.Millisecond
	// absentInterval is the pace of looking for metrics that weren't there.
	absentInterval = 30 * time.Second
	// jitterPart: intervals vary by a tenth each way, so that probes spread.
	jitterPart = 10
	// startSlack is how far a process' start time may drift between two readings:
	// it is computed from the host's clock, which is adjusted now and then.
	startSlack = 2 * time.Second
)

// errAsleep: the engine's metrics say so. Seen in Health by operators: wake it.
var errAsleep = errors.New("the engine sleeps; wake it up to use it")

// What Problems are about, one text each.
const (
	aboutModels  = "models"
	aboutMetrics = "metrics"
	aboutBlocks  = "blockSize"
	aboutRanks   = "dataParallel"
	aboutRestart = "restart"
)

// prober watches one instance. All its fields belong to its goroutine.
type prober struct {
	fleet *Fleet
	m     *Member

	failures, successes int
	everHealthy         bool
	reachable           bool // the last health check was answered well
	asleep              bool
	lastProbe           time.Time
	problems            map[string]string

	reported      []Model // last answer of /v1/models
	reportedKnown bool
	infoTried     bool // /server_info isn't SGLang's, as far as is known
	infoKnown     bool // /server_info has said what there is to know

	started  time.Time // of the engine's process
	distrust bool      // evidence of restarts proved worthless here
	last     *Load
}

func newProber(f *Fleet, m *Member) *prober {
	return &prober{fleet: f, m: m, problems: make(map[string]string)}
}

func (p *prober) run(ctx context.Context) {
	scrapes := p.fleet.opts.ScrapeInterval > 0
	now := time.Now()
	nextProbe, nextScrape := now, now
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.m.kick:
			nextProbe = p.lastProbe.Add(minProbeGap)
		case <-timer.C:
		}
		if now = time.Now(); !now.Before(nextProbe) {
			if !p.probe(ctx) {
				return
			}
			nextProbe = time.Now().Add(jitter(p.probeInterval()))
		}
		if now = time.Now(); scrapes && p.reachable && !now.Before(nextScrape) {
			pause, ok := p.scrape(ctx)
			if !ok {
				return
			}
			nextScrape = time.Now().Add(jitter(pause))
		}
		next := nextProbe
		if scrapes && p.reachable && nextScrape.Before(next) {
			next = nextScrape
		}
		timer.Reset(max(0, time.Until(next)))
	}
}

func (p *prober) probeInterval() time.Duration {
	if p.m.Healthy() {
		return p.fleet.opts.ProbeInterval
	}
	return min(p.fleet.opts.ProbeInterval, retryInterval)
}

func jitter(d time.Duration) time.Duration {
	spread := int64(d) / jitterPart
	if spread <= 0 {
		return d
	}
	return d - time.Duration(spread) + time.Duration(rand.Int64N(2*spread)) //nolint:gosec // spreads load, guards nothing
}

// probe checks health and what is served. It reports false when the goroutine
// has to end: the Fleet closes, or another instance took this one's place.
func (p *prober) probe(ctx context.Context) bool {
	p.lastProbe = time.Now()
	err := p.checkHealth(ctx)
	if ctx.Err() != nil {
		return false
	}
	p.reachable = err == nil
	if err != nil {
		if isRefused(err) {
			p.m.refused.Store(true)
		}
		p.settleModels(p.problems[aboutModels])
		p.failed(err)
		return true
	}
	if p.m.refused.Swap(false) && p.everHealthy && !p.confirmSame(ctx) {
		return false
	}
	if !p.checkModels(ctx) {
		return false
	}
	p.askInfo(ctx)
	if ctx.Err() != nil {
		return false
	}
	// What it said too long ago doesn't keep it out.
	if p.asleep && p.fleet.opts.Now().Sub(p.last.At) <= p.fleet.opts.StaleAfter {
		p.failed(errAsleep)
	} else {
		p.succeeded()
	}
	return true
}

// checkHealth asks /health, or /v1/models of a server that has none.
func (p *prober) checkHealth(ctx context.Context) error {
	path := "/health"
	status, err := p.get(ctx, path, nil)
	if err != nil {
		return err
	}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		path = pathModels
		status, err = p.get(ctx, path, nil)
		if err != nil {
			return err
		}
		if status == http.StatusUnauthorized || status == http.StatusForbidden {
			return nil // it lives; checkModels says what is wrong
		}
	}
	if status/100 != 2 {
		return &statusError{path: path, status: status}
	}
	return nil
}

// confirmSame decides, after a connection was refused, whether the process that
// answers now is the one of before. It reports false if the instance was
// replaced.
func (p *prober) confirmSame(ctx context.Context) bool {
	started, last := p.started, p.last
	if _, ok := p.scrape(ctx); !ok {
		return false
	}
	if !started.IsZero() && p.last != last && p.last.Started.Sub(started).Abs() <= startSlack {
		return true
	}
	return !p.replaced("it refused connections and answers again", sure)
}

// evidence is how far a sign of another instance can be trusted.
type evidence bool

const (
	// unsure: several servers behind one address give it all the time.
	unsure evidence = false
	sure   evidence = true
)

// replaced lets the Fleet put a new instance in this one's place, unless the
// evidence has proved worthless here.
func (p *prober) replaced(why string, how evidence) bool {
	if p.distrust && how == unsure {
		return false
	}
	if p.fleet.replace(p.m, why, how) {
		return true
	}
	p.distrust = true
	p.problem(aboutRestart, "seems to restart all the time: several servers may be answering at this url; "+
		"list each as a worker of its own")
	return false
}

func (p *prober) succeeded() {
	p.failures = 0
	p.successes++
	before := p.m.health.Load().State
	// A new or merely suspected member needs no proof of having recovered.
	if before != StateUnhealthy || p.successes >= p.fleet.opts.HealthyAfter {
		p.everHealthy = true
		p.setHealth(StateHealthy, nil)
		p.m.passive.Store(0)
		if p.m.suspect.Swap(false) {
			p.fleet.markDirty()
		}
		return
	}
	p.setHealth(before, p.m.health.Load().Err)
}

func (p *prober) failed(err error) {
	p.successes = 0
	p.failures++
	before := p.m.health.Load().State
	var answered *statusError
	// A refused connection, a plain "unavailable" and sleep leave no doubt.
	certain := isRefused(err) || errors.Is(err, errAsleep) ||
		errors.As(err, &answered) && answered.status == http.StatusServiceUnavailable
	if certain || before != StateHealthy || p.m.suspect.Load() || p.failures >= p.fleet.opts.UnhealthyAfter {
		p.setHealth(StateUnhealthy, err)
		return
	}
	p.setHealth(before, nil)
}

// setHealth publishes the state, the problems and their cause.
func (p *prober) setHealth(state State, err error) {
	old := p.m.health.Load()
	h := &Health{State: state, Since: old.Since, Failures: p.failures, Err: err, Problems: p.problemList()}
	if old.State != state {
		h.Since = p.fleet.opts.Now()
	}
	p.m.health.Store(h)
	if old.State == state {
		return
	}
	p.fleet.markDirty()
	level := slog.LevelInfo
	if state == StateUnhealthy {
		level = slog.LevelWarn
	}
	p.fleet.log(level, "worker health changed", slog.String("worker", p.m.id),
		slog.String("state", state.String()), slog.Any("reason", err))
}

// problem notes or, with "", clears a problem.
func (p *prober) problem(about, text string) {
	if p.problems[about] == text {
		return
	}
	if text == "" {
		delete(p.problems, about)
	} else {
		p.problems[about] = text
		p.fleet.log(slog.LevelWarn, "worker problem", slog.String("worker", p.m.id), slog.String("problem", text))
	}
	h := *p.m.health.Load()
	h.Problems = p.problemList()
	p.m.health.Store(&h)
}

func (p *prober) problemList() []string {
	if len(p.problems) == 0 {
		return nil
	}
	list := make([]string, 0, len(p.problems))
	for _, about := range slices.Sorted(maps.Keys(p.problems)) {
		list = append(list, p.problems[about])
	}
	return list
}

// statusError is an HTTP status that isn't success.
type statusError struct {
	path   string
	status int
}

func (e *statusError) Error() string {
	if e.status/100 == 3 {
		return fmt.Sprintf("%s answers with a redirect (status %d), which is not followed; correct the url", e.path, e.status)
	}
	return fmt.Sprintf("%s answers with status %d", e.path, e.status)
}
