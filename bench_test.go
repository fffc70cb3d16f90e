package kvsteer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/cputime"
)

// manyWorkers is a router over n workers of one fake engine's address: what is
// measured is the router, not the engines.
func manyWorkers(tb testing.TB, n int, o ...kvsteer.Option) *kvsteer.Router {
	tb.Helper()
	// Who has no events is not believed to hold more than there is room for: 1M blocks over 64.
	e := fleettest.New(tb, fleettest.Config{Name: "e", Model: testModel, Speed: 1000, Blocks: 1 << 15})
	workers := make([]fleet.Worker, n)
	for i := range workers {
		workers[i] = fleet.Worker{Name: fmt.Sprintf("w%02d", i), URL: e.URL(), Models: []string{testModel}}
	}
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: time.Minute, ProbeTimeout: time.Minute, ScrapeInterval: time.Minute,
	})
	require.NoError(tb, err)
	require.Eventually(tb, func() bool { return f.Snapshot().Routable() == n }, 30*time.Second, time.Millisecond)
	r, err := kvsteer.New(append([]kvsteer.Option{kvsteer.WithFleet(f), kvsteer.WithSeed(1)}, o...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, r.Close())
		require.NoError(tb, f.Close())
	})
	return r
}

func randomTokens(seed uint64, n int) []uint32 {
	r := rand.New(rand.NewPCG(seed, seed))
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = r.Uint32N(150_000)
	}
	return ids
}

// BenchmarkSelect is the whole path with 16,000 given token ids, 64 workers and
// a thousand prefixes resident (1M blocks): choose, book, release. The one-core
// run gives the time of single choices, the parallel one how many go through.
func BenchmarkSelect(b *testing.B) {
	r := manyWorkers(b, 64)
	const prefixes, tokens = 1000, 16_000
	prompts := make([]*kvsteer.Request, prefixes)
	for i := range prompts {
		ids := randomTokens(uint64(i), tokens)
		prompts[i] = &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids}
		selectOnce(b, r, prompts[i])
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var took, used []time.Duration
		i := 0
		for b.Loop() {
			cpu, began := cputime.Thread(), time.Now()
			selectOnce(b, r, prompts[i%prefixes])
			took, used = append(took, time.Since(began)), append(used, cputime.Thread()-cpu)
			i++
		}
		b.ReportMetric(microseconds(took, 0.5), "p50-us")
		b.ReportMetric(microseconds(took, 0.99), "p99-us")
		b.ReportMetric(microseconds(used, 0.5), "cpu-p50-us")
		b.ReportMetric(microseconds(used, 0.99), "cpu-p99-us")
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		var next atomic.Int64
		cpu := cputime.Process()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				selectOnce(b, r, prompts[next.Add(1)%prefixes])
			}
		})
		used := cputime.Process() - cpu // collecting garbage included
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "selects/s")
		b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
	})
}

// BenchmarkSelectBurst is twelve requests at once whose prompts nobody has, so that they
// are gathered; "bystander" is one request that comes beside them and has nothing to wait
// for. Targets: the processor time of one of the twelve no more than five times that of one alone.
func BenchmarkSelectBurst(b *testing.B) {
	const burst, tokens = 12, 16_000
	for _, workers := range []int{8, 64} {
		b.Run(fmt.Sprint(workers, "-workers"), func(b *testing.B) {
			r := manyWorkers(b, workers)
			ids := make([][]uint32, burst)
			for i := range ids {
				ids[i] = randomTokens(uint64(i), tokens)
			}
			short := &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids[0][:1]}
			var took []time.Duration
			cpu, n := cputime.Process(), uint32(0)
			for b.Loop() {
				var wg sync.WaitGroup
				for i := range ids {
					n++
					ids[i][0] = n // another prompt each time
					wg.Go(func() {
						selectOnce(b, r, &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids[i]})
					})
				}
				began := time.Now()
				selectOnce(b, r, short)
				took = append(took, time.Since(began))
				wg.Wait()
			}
			used := cputime.Process() - cpu
			b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N)/(burst+1), "cpu-us/request")
			b.ReportMetric(microseconds(took, 0.5), "bystander-p50-us")
			b.ReportMetric(microseconds(took, 0.99), "bystander-p99-us")
		})
	}
}

// microseconds is a quantile of times, which it sorts.
func microseconds(times []time.Duration, q float64) float64 {
	slices.Sort(times)
	return float64(times[int(q*float64(len(times)-1))].Nanoseconds()) / 1e3
}

func selectOnce(b *testing.B, r *kvsteer.Router, req *kvsteer.Request) {
	b.Helper()
	s, err := r.Select(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	s.Done(kvsteer.Usage{})
}

// The whole path must not allocate per worker or per token.
func TestSelectAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own account")
	}
	for _, n := range []int{2, 64} {
		r := manyWorkers(t, n)
		ids := randomTokens(1, 4096)
		req := &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids}
		// Probes of the fleet count too while they run: the quietest run is ours.
		least := math.Inf(1)
		for range 10 {
			least = min(least, testing.AllocsPerRun(100, func() {
				s, err := r.Select(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				s.Done(kvsteer.Usage{})
			}))
		}
		require.LessOrEqual(t, least, 12.0, "%d workers", n)
	}
}
