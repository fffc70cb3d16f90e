package simulate

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
)

// healthy answers every probe without a network.
type healthy struct{}

func (healthy) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r,
	}, nil
}

// twins asks the simulator's rule and a real Router at the same moments of
// virtual time, and tells both what happened.
type twins struct {
	*Steer
	t        *testing.T
	router   *kvsteer.Router
	now      atomic.Int64 // virtual nanoseconds; the fleet's goroutines look too
	pending  *kvsteer.Selection
	selected map[*Job]*kvsteer.Selection
	choices  int
	cached   int
}

func (w *twins) Pick(s *State) int {
	w.now.Store(int64(s.Now))
	i := w.Steer.Pick(s)
	tokens := tokensOf(nil, s.Call.Blocks[:s.Call.Prompt/indexBlock])
	for len(tokens) < s.Call.Prompt {
		tokens = append(tokens, 1)
	}
	sel, err := w.router.Select(context.Background(), &kvsteer.Request{
		API: kvsteer.ChatCompletions, TokenIDs: tokens,
		// Of an answer that isn't streamed the router guesses the first token, by a
		// real timer.
		Body: []byte(`{"model":"` + SimulatedModel + `","messages":[],"stream":true}`),
	})
	require.NoError(w.t, err)
	d := sel.Decision()
	require.Len(w.t, d.Candidates, len(w.round.Candidates))
	for n := range d.Candidates {
		got, want := w.round.Candidates[n], d.Candidates[n].Candidate
		require.Equal(w.t, want.Name, got.Name)
		require.Equal(w.t, want.Tie, got.Tie)
		require.Equal(w.t, want.CachedTokens, got.CachedTokens, "choice %d, %s", w.choices, want.Name)
		require.Equal(w.t, want.PrefillAhead, got.PrefillAhead)
		require.Equal(w.t, want.InFlight, got.InFlight)
		require.Equal(w.t, want.Running, got.Running)
		require.Equal(w.t, want.PredictedTTFT, got.PredictedTTFT)
		require.Equal(w.t, want.Externality, got.Externality)
		require.Equal(w.t, want.PredictedP90, got.PredictedP90)
		require.Equal(w.t, want.PredictedE2E, got.PredictedE2E)
	}
	require.Equal(w.t, sel.Target().Worker, s.Workers[i].Name, "choice %d", w.choices)
	w.choices++
	w.cached += s.Workers[i].CachedTokens
	w.pending = sel
	return i
}

func (w *twins) Booked(j *Job) {
	w.Steer.Booked(j)
	w.selected[j] = w.pending
}

func (w *twins) FirstToken(j *Job, ttft time.Duration) {
	w.now.Store(int64(j.first))
	w.Steer.FirstToken(j, ttft)
	w.selected[j].FirstToken()
}

func (w *twins) Done(s *State, j *Job, _ int) {
	w.now.Store(int64(s.Now))
	w.answered(s, j)
	w.selected[j].Done(kvsteer.Usage{Known: true, Output: j.Call.Output})
	delete(w.selected, j)
}

// The rule kvsteer chooses what a real Router chooses. Both get no KV events:
// what they know of the caches is what they booked.
func TestSteerChoosesAsTheRouterDoes(t *testing.T) {
	const seed, workers = 11, 5
	w := &twins{t: t, Steer: NewSteer(seed), selected: map[*Job]*kvsteer.Selection{}}
	var described []fleet.Worker
	for i := range workers {
		described = append(described, fleet.Worker{
			Name: "worker-" + string(rune('0'+i)), URL: "http://worker", Engine: fleet.EngineOther,
			Models: []string{SimulatedModel}, BlockSize: indexBlock,
		})
	}
	clock := func() time.Time { return epoch.Add(time.Duration(w.now.Load())) }
	f, err := fleet.New(fleet.Options{
		Now:        clock,
		Discoverer: fleet.Static(described...), HTTPClient: &http.Client{Transport: healthy{}}, ScrapeInterval: -1,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == workers }, 10*time.Second, time.Millisecond)
	w.router, err = kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithSeed(seed),
		kvsteer.WithClock(clock))
	require.NoError(t, err)
	defer func() { require.NoError(t, w.router.Close()) }()

	// Sessions of three turns that share a prefix in threes.
	next := uint64(0)
	rng := stream(seed, streamWorkload)
	load := &Workload{Name: "twins", SLO: time.Second, Turns: 3, Session: func() []*Call {
		next++
		length := 200 + rng.IntN(400)
		blocks := extend(nil, indexBlock, 200, kindShared, next/3)
		blocks = extend(blocks, indexBlock, length+300, kindUnique, next)
		var calls []*Call
		for turn := range 3 {
			calls = append(calls, &Call{Prompt: length + turn*101, Output: 20, Blocks: blocks})
		}
		return calls
	}}
	cfg := Config{
		Workers: []WorkerSpec{{Count: workers, PrefillRate: 1000, CacheTokens: 40_000, BlockSize: indexBlock}},
		Faults:  Faults{EventLoss: 1}, Rate: 12, Duration: 45 * time.Second, Seed: seed,
	}
	c, err := newCluster(cfg, load, w)
	require.NoError(t, err)
	for _, o := range c.owners {
		c.index.SetTrust(o, kvcache.Approximate)
	}
	require.NoError(t, c.run(context.Background()))
	require.Greater(t, w.choices, 400)
	require.Greater(t, w.cached, 20_000, "the cache mattered")
	require.Zero(t, w.router.InFlight())
}
