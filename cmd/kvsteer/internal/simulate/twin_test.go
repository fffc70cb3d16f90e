package simulate

import (
	"context"
	"errors"
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
	"github.com/kvsteer/kvsteer/policy"
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
	relayed  int
	retried  int
}

func (w *twins) Pick(s *State) int {
	w.now.Store(int64(s.Now))
	i := w.Steer.Pick(s)
	sel := w.choose(s)
	d := sel.Decision()
	w.compare(d.Candidates, w.round.Candidates)
	if by := w.Relay(); by >= 0 {
		require.NotNil(w.t, d.Prefill)
		require.Equal(w.t, d.Winner().PrefillOn, s.worker(by).Name)
		w.relayed++
	}
	if d.Prefill != nil {
		w.compare(d.Prefill.Candidates, w.before.Candidates)
	}
	require.Equal(w.t, sel.Target().Worker, s.Workers[i].Name, "choice %d", w.choices)
	w.choices++
	w.cached += s.Workers[i].CachedTokens
	w.pending = sel
	return i
}

// choose lets the router choose: for another attempt if there was one before.
func (w *twins) choose(s *State) *kvsteer.Selection {
	if s.Attempt > 1 {
		w.retried++
		sel := w.selected[s.job]
		require.NoError(w.t, sel.Next(context.Background(), nil), "no cause: the simulator suspects nobody")
		return sel
	}
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
	return sel
}

var errRefused = errors.New("refused")

// compare compares what is known and expected of each candidate.
func (w *twins) compare(router []kvsteer.DecisionCandidate, simulated []policy.Candidate) {
	require.Len(w.t, router, len(simulated))
	for n := range router {
		got, want := simulated[n], router[n].Candidate
		require.Equal(w.t, want.Name, got.Name)
		require.Equal(w.t, want.Tie, got.Tie)
		require.Equal(w.t, want.CachedTokens, got.CachedTokens, "choice %d, %s", w.choices, want.Name)
		require.Equal(w.t, want.PrefillAhead, got.PrefillAhead)
		require.Equal(w.t, want.InFlight, got.InFlight)
		require.Equal(w.t, want.Running, got.Running)
		require.Equal(w.t, want.PrefillOn, got.PrefillOn)
		require.Equal(w.t, want.PredictedTTFT, got.PredictedTTFT, "choice %d, %s", w.choices, want.Name)
		require.Equal(w.t, want.Externality, got.Externality)
		require.Equal(w.t, want.PredictedP90, got.PredictedP90)
		require.Equal(w.t, want.PredictedE2E, got.PredictedE2E)
	}
}

func (w *twins) Booked(j *Job) {
	w.Steer.Booked(j)
	w.selected[j] = w.pending
}

func (w *twins) Handed(s *State, j *Job, took time.Duration, _ int) {
	w.now.Store(int64(s.Now))
	w.computed(j, took)
	require.NoError(w.t, w.selected[j].Prefilled([]byte(`{"kv_transfer_params":{"do_remote_prefill":true}}`)))
}

func (w *twins) Lost(j *Job) {
	w.selected[j].Abort(errRefused)
	delete(w.selected, j)
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

// meet returns twins whose fleet has workers of the roles.
func meet(t *testing.T, seed uint64, roles ...fleet.Role) *twins {
	t.Helper()
	w := &twins{t: t, Steer: NewSteer(seed), selected: map[*Job]*kvsteer.Selection{}}
	var described []fleet.Worker
	for i, role := range roles {
		described = append(described, fleet.Worker{
			Name: "worker-" + string(rune('0'+i)), URL: "http://worker", Engine: fleet.EngineOther,
			Models: []string{SimulatedModel}, BlockSize: indexBlock, Role: role,
		})
	}
	clock := func() time.Time { return epoch.Add(time.Duration(w.now.Load())) }
	f, err := fleet.New(fleet.Options{
		Now:        clock,
		Discoverer: fleet.Static(described...), HTTPClient: &http.Client{Transport: healthy{}}, ScrapeInterval: -1,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == len(roles) }, 30*time.Second, time.Millisecond)
	w.router, err = kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithSeed(seed), kvsteer.WithTransferRate(twinRate),
		kvsteer.WithClock(clock))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.router.Close()) })
	return w
}

// twinRate is how many tokens a second are handed over.
const twinRate = 3000

// run serves sessions of three turns that share a prefix in threes.
func (w *twins) run(cfg Config) *cluster {
	w.t.Helper()
	next := uint64(0)
	rng := stream(cfg.Seed, streamWorkload)
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
	cfg.TransferRate, cfg.Duration, cfg.Faults.EventLoss = twinRate, 45*time.Second, 1
	c, err := newCluster(cfg, load, w)
	require.NoError(w.t, err)
	for _, o := range c.routers[0].owners {
		c.routers[0].index.SetTrust(o, kvcache.Approximate)
	}
	require.NoError(w.t, c.run(context.Background()))
	require.Greater(w.t, w.choices, 400)
	require.Greater(w.t, w.cached, 20_000, "the cache mattered")
	require.Zero(w.t, w.router.InFlight())
	return c
}

// The rule kvsteer chooses what a real Router chooses. Both get no KV events:
// what they know of the caches is what they booked.
func TestSteerChoosesAsTheRouterDoes(t *testing.T) {
	whole := fleet.RoleWhole
	w := meet(t, 11, whole, whole, whole, whole, whole)
	spec := WorkerSpec{Count: 5, PrefillRate: 1000, CacheTokens: 40_000, BlockSize: indexBlock}
	w.run(Config{Workers: []WorkerSpec{spec}, Rate: 12, Seed: 11})
}

// So it does where workers have separate roles, and where they fail.
func TestSteerRelaysAsTheRouterDoes(t *testing.T) {
	prefill, decode := fleet.RolePrefill, fleet.RoleDecode
	for name, faults := range map[string]Faults{"well": {}, "failing": {Failures: 0.05}} {
		t.Run(name, func(t *testing.T) {
			w := meet(t, 12, prefill, prefill, decode, decode, decode, fleet.RoleWhole)
			specs := []WorkerSpec{{Count: 2, Role: prefill}, {Count: 3, Role: decode}, {}}
			for i := range specs {
				specs[i].PrefillRate, specs[i].CacheTokens, specs[i].BlockSize = 1000, 40_000, indexBlock
			}
			w.run(Config{Workers: specs, Rate: 12, Seed: 12, Faults: faults})
			require.Greater(t, w.relayed, 50)
			require.Less(t, w.relayed, w.choices)
			require.Equal(t, name == "failing", w.retried > 20)
		})
	}
}
