package chaos_test

import (
	"context"
	"flag"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/chaos"
	"github.com/kvsteer/kvsteer/internal/leak"
)

var (
	firstSeed = flag.Uint64("chaos.seed", 1, "the first seed")
	seeds     = flag.Int("chaos.seeds", 20, "how many seeds")
	worlds    = flag.Int("chaos.worlds", 2*runtime.GOMAXPROCS(0), "how many worlds run at a time")
	length    = flag.Int("chaos.length", chaos.DefaultSteps, "how many steps a plan has")
	steps     = flag.String("chaos.steps", "", "steps instead of those of the seed, as a failure prints them")
	want      = flag.String("chaos.want", "", "an invariant: stop at the first world that breaks it, and pass over all others")
	says      = flag.String("chaos.says", "", "with -chaos.want: what the violation must say, as a regular expression")
	patience  = flag.Duration("chaos.patience", 0, "how long to wait for what must happen, 0 = 2 min")
	journal   = flag.String("chaos.journal", "", "a file for what is logged in the world that failed first")
	shrinking = flag.Duration("chaos.shrink", time.Minute, "how long to look for a shorter plan")
)

// enough is how many seeds bring about everything that can.
const enough = 100

// hurry is the patience with what is known to fail.
const hurry = 5 * time.Second

func TestMain(m *testing.M) { leak.Main(m) }

// plan is that of a seed, or the one that was given.
func plan(t *testing.T, seed uint64) chaos.Plan {
	t.Helper()
	p := chaos.Draw(seed, *length)
	if *steps != "" {
		list, err := chaos.ParseSteps(*steps)
		require.NoError(t, err)
		p.Steps = list
	}
	return p
}

// Whatever happens, in whatever order: the invariants hold.
func TestChaos(t *testing.T) {
	require.Positive(t, *seeds, "with -chaos.seeds 0 nothing would be tried: give at least 1")
	require.Positive(t, *worlds, "with -chaos.worlds 0 nothing would be tried: give at least 1")
	began := time.Now()
	var next, done atomic.Int64
	var mu sync.Mutex
	var failed []failure
	var tally chaos.Tally
	var group sync.WaitGroup
	for range *worlds {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(*seeds); i = next.Add(1) - 1 {
				p := plan(t, *firstSeed+uint64(i))
				found, err := chaos.Run(t.Context(), p, chaos.Options{Patience: *patience, Tally: &tally})
				if (err != nil || found != nil) && wanted(found) {
					t.Logf("seed %d has failed and is reported in the end: %v, %v", p.Seed, found, err)
					mu.Lock()
					failed = append(failed, failure{p, found, err})
					stop := len(failed) > 2 || *want != ""
					mu.Unlock()
					if stop {
						next.Add(int64(*seeds))
					}
				}
				if n := done.Add(1); n%100 == 0 {
					t.Logf("%d seeds after %s", n, time.Since(began).Round(time.Second))
				}
			}
		})
	}
	group.Wait()
	t.Logf("seeds %d to %d, %d run in %s", *firstSeed, *firstSeed+uint64(*seeds)-1, done.Load(), time.Since(began).Round(time.Millisecond))
	t.Logf("of them: %v", tally.Counts())
	if *want == "" && *steps == "" && len(failed) == 0 && *seeds >= enough {
		require.Empty(t, tally.Missing(), "in no world it has come about, so no check has seen it")
	}
	if *journal != "" && len(failed) > 0 && failed[0].found != nil {
		require.NoError(t, os.WriteFile(*journal, []byte(failed[0].found.Journal), 0o600))
	}
	for i, f := range failed {
		if f.report(t); *want != "" && i == 0 {
			break
		}
	}
}

// wanted reports whether a violation counts.
func wanted(v *chaos.Violation) bool {
	return *want == "" || v != nil && string(v.Invariant) == *want && regexp.MustCompile(*says).MatchString(v.What)
}

// failure is a plan that did not end well.
type failure struct {
	plan  chaos.Plan
	found *chaos.Violation
	err   error
}

// report says what has failed, and by what shorter plan.
func (f failure) report(t *testing.T) {
	t.Helper()
	if f.err != nil {
		t.Errorf("seed %d: the world failed, and nothing is known: %v\nsteps: %s", f.plan.Seed, f.err, f.plan)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), *shrinking)
	defer cancel()
	last := f.found
	short := chaos.Shrink(ctx, f.plan, func(p chaos.Plan) bool {
		for range 2 { // a world is not the same twice
			if found, err := chaos.Run(t.Context(), p, chaos.Options{Patience: hurry}); err == nil && found != nil && found.Invariant == f.found.Invariant && wanted(found) {
				last = found
				return true
			}
		}
		return false
	})
	t.Errorf("seed %d: %s\nshrunk from %d to %d steps: %s\nagain: go test ./internal/chaos -run 'TestChaos$' -chaos.seeds 1 -chaos.seed %d -chaos.steps %q\nall of it: -chaos.steps %q",
		f.plan.Seed, f.found, len(f.plan.Steps), len(short.Steps), last, f.plan.Seed, short.String(), f.plan.String())
	t.Logf("CAUGHT seed=%d steps=%d: %.200s", f.plan.Seed, len(short.Steps), strings.ReplaceAll(f.found.What, "\n", " "))
}
