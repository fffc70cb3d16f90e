package kvsteer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

func TestNewNeedsAFleet(t *testing.T) {
	t.Parallel()
	_, err := kvsteer.New()
	require.ErrorContains(t, err, "WithFleet")
}

// Concurrent picks of one prefix that everybody holds must spread. The clock
// stands still: on a slow machine the first picks would count as computed by now.
func TestConcurrentPicksSpread(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newRig(t, rigConfig{engines: 8, unseen: true, options: []kvsteer.Option{kvsteer.WithClock(func() time.Time { return now })}})
	r.waitTrust(kvcache.Exact)
	body := fleettest.Text(3, 800)
	for _, e := range r.engines { // everybody holds the prefix
		resp, err := http.Post(e.URL()+"/v1/chat/completions", "application/json", strings.NewReader(chatBody(body, false)))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Eventually(t, func() bool {
		d, err := r.router.Explain(t.Context(), chatRequest(body, false))
		require.NoError(t, err)
		for i := range d.Candidates {
			if d.Candidates[i].CachedTokens < 700 {
				return false
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)

	var mu sync.Mutex
	counts := map[string]int{}
	var sels []*kvsteer.Selection
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			// Streamed: the prefill of an answer that isn't is taken to end by a timer.
			s, err := r.router.Select(t.Context(), chatRequest(body, true))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			counts[s.Target().Worker]++
			sels = append(sels, s)
		})
	}
	wg.Wait()
	least, most := 64, 0
	for _, e := range r.engines {
		least, most = min(least, counts[e.Name()]), max(most, counts[e.Name()])
	}
	require.LessOrEqual(t, most-least, 2, "%v", counts)
	for _, s := range sels {
		s.Done(kvsteer.Usage{})
	}
	r.idle()
}

// A burst of equal long prompts, none cached anywhere, lands where the first of
// them went: the others will find its blocks. A burst of strangers spreads.
func TestBurstOfSiblingsLandsTogetherStrangersSpread(t *testing.T) {
	t.Parallel()
	// A prompt takes three minutes: to a worker that is late, as one may be on a machine that
	// runs everything at once, siblings are rightly not sent.
	slow := kvsteer.NewPredictor(kvsteer.PredictorOptions{PriorTokensPerSecond: 100})
	r := newRig(t, rigConfig{engines: 4, unseen: true, options: []kvsteer.Option{kvsteer.WithPredictor(slow)}})
	r.waitJoined()
	r.waitTrust(kvcache.Exact)
	prefix := fleettest.Text(5, 20_000)
	counts := map[string]int{}
	var sels []*kvsteer.Selection
	for i := range 4 {
		s, err := r.router.Select(t.Context(), chatRequest(fmt.Sprint(prefix, " q", i), false))
		require.NoError(t, err)
		counts[s.Target().Worker]++
		sels = append(sels, s)
		// In no time at all, waiting for the prefix would take as long as computing it.
		time.Sleep(200 * time.Millisecond)
	}
	require.Len(t, counts, 1, "siblings: %v", counts)
	for _, s := range sels {
		s.Abort(nil)
	}
	sels = nil
	counts = map[string]int{}
	for i := range 4 {
		s, err := r.router.Select(t.Context(), chatRequest(fleettest.Text(uint64(100+i), 20_000), false))
		require.NoError(t, err)
		counts[s.Target().Worker]++
		sels = append(sels, s)
	}
	require.Len(t, counts, 4, "strangers: %v", counts)
	for _, s := range sels {
		s.Abort(nil)
	}
	r.idle()
}

func TestStickinessBreaksWhenTheHolderIsBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, unseen: true})
	r.waitTrust(kvcache.Exact)
	shared := fleettest.Text(1, 1000)
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(shared, false)).status)
	holder := r.observed.lastOutcome(t).Decision.Winner().Name

	d, err := r.router.Explain(t.Context(), chatRequest(shared, false))
	require.NoError(t, err)
	require.Equal(t, holder, d.Winner().Name, d)

	// Pile long strangers onto both, more onto the holder, by hand.
	var bookings []*fleet.Booking
	for _, m := range r.fleet.Snapshot().Members() {
		n := 1
		if m.Name() == holder {
			n = 10
		}
		for range n {
			bookings = append(bookings, m.Begin(0, fleet.Work{PrefillTokens: 20_000, PromptTokens: 20_000}))
		}
	}
	s, err := r.router.Select(t.Context(), chatRequest(shared, false))
	require.NoError(t, err)
	require.NotEqual(t, holder, s.Target().Worker, s.Decision())
	s.Abort(nil)
	for _, b := range bookings {
		b.End()
	}
}

func TestEveryPathReleasesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2})
	ends := map[string]func(s *kvsteer.Selection){
		"done":             func(s *kvsteer.Selection) { s.Done(kvsteer.Usage{}) },
		"abort":            func(s *kvsteer.Selection) { s.Abort(errors.New("x")) },
		"token, done":      func(s *kvsteer.Selection) { s.FirstToken(); s.Done(kvsteer.Usage{}) },
		"done, done":       func(s *kvsteer.Selection) { s.Done(kvsteer.Usage{}); s.Done(kvsteer.Usage{}); s.Abort(nil) },
		"abort, token":     func(s *kvsteer.Selection) { s.Abort(nil); s.FirstToken() },
		"next, done":       func(s *kvsteer.Selection) { _ = s.Next(t.Context(), nil); s.Done(kvsteer.Usage{}) },
		"next to the end":  func(s *kvsteer.Selection) { _ = s.Next(t.Context(), nil); _ = s.Next(t.Context(), nil); s.Abort(nil) },
		"done, then next":  func(s *kvsteer.Selection) { s.Done(kvsteer.Usage{}); require.Error(t, s.Next(t.Context(), nil)) },
		"token, then next": func(s *kvsteer.Selection) { s.FirstToken(); require.Error(t, s.Next(t.Context(), nil)); s.Abort(nil) },
		"concurrently": func(s *kvsteer.Selection) {
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					switch i % 4 {
					case 0:
						s.Done(kvsteer.Usage{})
					case 1:
						s.Abort(nil)
					case 2:
						s.FirstToken()
					default:
						_ = s.Next(t.Context(), nil)
					}
				})
			}
			wg.Wait()
		},
	}
	for name, end := range ends {
		n := r.observed.outcomeCount()
		s, err := r.router.Select(t.Context(), chatRequest("hello "+name, false))
		require.NoError(t, err)
		end(s)
		r.idle()
		require.Equal(t, n+1, r.observed.outcomeCount(), "%s: one outcome", name)
	}
}

func TestForgottenSelectionsAreReaped(t *testing.T) {
	t.Parallel()
	logs := &syncBuffer{}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithMaxIdle(20 * time.Millisecond), kvsteer.WithLogger(slog.New(slog.NewTextHandler(logs, nil))),
	}})
	_, err := r.router.Select(t.Context(), chatRequest("forgotten", false))
	require.NoError(t, err)
	o := r.observed.nextOutcome(t, 0)
	require.True(t, o.Reaped)
	require.Error(t, o.Err)
	r.idle()
	require.Eventually(t, func() bool { return strings.Contains(logs.String(), "never ended") }, wait, tick)
}

func TestExplainReservesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2})
	for range 3 {
		d, err := r.router.Explain(t.Context(), chatRequest(fleettest.Text(1, 3000), false))
		require.NoError(t, err)
		require.NotNil(t, d.Winner())
		for i := range d.Candidates {
			require.Zero(t, d.Candidates[i].InFlight)
			require.Zero(t, d.Candidates[i].CachedTokens)
		}
		require.Contains(t, d.String(), "-> "+d.Winner().Name)
		_, err = json.Marshal(d)
		require.NoError(t, err)
	}
	require.Zero(t, r.router.InFlight())
	_, err := r.router.Explain(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(`{"model":"zzz"}`)})
	require.Equal(t, kvsteer.CodeUnknownModel, kvsteer.CodeOf(err))
}

// picky drops the named workers; it may change between attempts.
type picky struct {
	mu      sync.Mutex
	dropped map[string]bool
}

func (p *picky) drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped[name] = true
}

func (p *picky) Evaluate(req *policy.Request, cands []policy.Candidate, plan *policy.Plan) {
	policy.Default{}.Evaluate(req, cands, plan)
	p.mu.Lock()
	defer p.mu.Unlock()
	plan.Rule = "picky"
	kept := plan.Order[:0]
	for _, i := range plan.Order {
		if p.dropped[cands[i].Name] {
			plan.Dropped = append(plan.Dropped, policy.Drop{Index: i, Rule: "picky", Condition: "dropped"})
		} else {
			kept = append(kept, i)
		}
	}
	plan.Order = kept
}

func TestNextChecksThePolicyAgain(t *testing.T) {
	t.Parallel()
	p := &picky{dropped: map[string]bool{"w2": true}}
	r := newRig(t, rigConfig{engines: 3, options: []kvsteer.Option{kvsteer.WithPolicy(p)}})
	s, err := r.router.Select(t.Context(), chatRequest("hello", false))
	require.NoError(t, err)
	first := s.Target().Worker
	require.NotEqual(t, "w2", first)
	other := map[string]string{"w0": "w1", "w1": "w0"}[first]
	require.NoError(t, s.Next(t.Context(), errors.New("broken")))
	require.Equal(t, other, s.Target().Worker)
	require.Equal(t, 2, s.Decision().Attempt)
	s.Abort(nil)

	s, err = r.router.Select(t.Context(), chatRequest("hello", false))
	require.NoError(t, err)
	p.drop("w0")
	p.drop("w1")
	cause := errors.New("broken")
	err = s.Next(t.Context(), cause)
	require.ErrorIs(t, err, cause)
	require.Equal(t, kvsteer.CodeUpstream, kvsteer.CodeOf(err))
	s.Abort(cause)
	_, err = r.router.Select(t.Context(), chatRequest("hello", false))
	var e *kvsteer.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kvsteer.CodeRejectedByPolicy, e.Code)
	require.Equal(t, "picky", e.Rule)
	r.idle()
}

func TestRoutesByLoadWhenNothingIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{
		engines: 2, unseen: true,
		engine: func(_ int, c *fleettest.Config) { c.NoTokenize = true },
		worker: func(_ int, w *fleet.Worker) { w.Events = nil },
	})
	n := r.observed.outcomeCount()
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(fleettest.Text(1, 500), false)).status)
	d := r.observed.nextOutcome(t, n).Decision
	require.Equal(t, "bytes", d.TokenSource)
	require.NotEmpty(t, d.Degradations)
	require.Contains(t, strings.Join(d.Degradations, "; "), "no KV events")
	require.Equal(t, "approximate", d.Winner().TrustState)

	// Even so a conversation stays where it began.
	again, err := r.router.Explain(t.Context(), chatRequest(fleettest.Text(1, 500)+" and more", false))
	require.NoError(t, err)
	require.Equal(t, d.Winner().Name, again.Winner().Name)
	require.Positive(t, again.Winner().CachedTokens)
}

// A request whose answer comes in one piece stops weighing as a prefill when it
// must have become one that decodes.
func TestAPrefillThatNobodySeesEnds(t *testing.T) {
	t.Parallel()
	// Long enough that it lasts while a slow machine looks at it.
	slow := &scripted{ttft: map[string]time.Duration{"w0": time.Second}}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPredictor(slow)}})
	s, err := r.router.Select(t.Context(), chatRequest(fleettest.Text(1, 300), false))
	require.NoError(t, err)
	m := r.fleet.Snapshot().Members()[0]
	require.Positive(t, m.InFlight(0).PrefillTokens)
	require.Eventually(t, func() bool { return m.InFlight(0).PrefillTokens == 0 }, 30*time.Second, time.Millisecond)
	require.Equal(t, 1, m.InFlight(0).Requests)
	s.Done(kvsteer.Usage{})
	r.idle()
}

// What a worker without events was only asked for is soon forgotten, what it
// answered is not.
func TestOnlyAnsweredPromptsAreRememberedForLong(t *testing.T) {
	t.Parallel()
	clock := newClock()
	r := newRig(t, rigConfig{
		engines: 1,
		worker:  func(_ int, w *fleet.Worker) { w.Events = nil },
		options: []kvsteer.Option{kvsteer.WithClock(clock.now), kvsteer.WithMaxIdle(time.Hour)},
	})
	r.waitJoined()
	failed, answered := fleettest.Text(1, 500), fleettest.Text(2, 500)
	cached := func(text string) int {
		d, err := r.router.Explain(t.Context(), chatRequest(text, false))
		require.NoError(t, err)
		return d.Winner().CachedTokens
	}
	s, err := r.router.Select(t.Context(), chatRequest(failed, false))
	require.NoError(t, err)
	s.Abort(errors.New("refused"))
	s, err = r.router.Select(t.Context(), chatRequest(answered, false))
	require.NoError(t, err)
	s.Done(kvsteer.Usage{})
	require.Positive(t, cached(failed))
	require.Positive(t, cached(answered))
	clock.advance(5 * time.Minute)
	require.Zero(t, cached(failed))
	require.Positive(t, cached(answered))
}

func TestRestartInheritsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(9, 1500)
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
	require.Eventually(t, func() bool {
		d, err := r.router.Explain(t.Context(), chatRequest(text, false))
		return err == nil && d.Winner().CachedTokens > 1000
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, r.engines[0].Restart())
	require.Eventually(t, func() bool {
		d, err := r.router.Explain(t.Context(), chatRequest(text, false))
		return err == nil && d.Winner().CachedTokens == 0
	}, 30*time.Second, time.Millisecond, "the new engine holds nothing")
	r.waitTrust(kvcache.Exact)
	// Events may tell of the restart sooner than a probe, after which the worker is served
	// nothing until the next one: for so long a 503 is right.
	require.Eventually(t, func() bool {
		return r.post("/v1/chat/completions", chatBody(text, false)).status == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond)
	r.idle()
}

func TestGivenTokenIDsAreUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	r.waitTrust(kvcache.Exact)
	ids := make([]uint32, 100)
	s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids})
	require.NoError(t, err)
	require.Equal(t, "caller", s.Decision().TokenSource)
	require.Equal(t, 100, s.Decision().PromptTokens)
	require.Empty(t, s.Decision().Degradations)
	s.Abort(nil)
}

func TestRanksAreCandidates(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, unseen: true, engine: func(_ int, c *fleettest.Config) { c.Ranks = 3 }})
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(4, 1000)
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
	o := r.observed.lastOutcome(t)
	require.Len(t, o.Decision.Candidates, 3)
	rank := o.Decision.Winner().Candidate.Rank
	seen := r.engines[0].Requests()
	require.Equal(t, rank, seen[len(seen)-1].Rank, "the header pinned it")
	n := r.observed.outcomeCount()
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
	o = r.observed.nextOutcome(t, n)
	require.Equal(t, rank, o.Decision.Winner().Candidate.Rank)
	require.Equal(t, o.Usage.CacheRead, o.CachedPredicted)
	require.Positive(t, o.CachedPredicted)
}

func TestAdaptersAndSaltsDoNotShare(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) {
		c.Adapters = []fleettest.Adapter{{Name: "lora-a"}}
	}})
	r.waitTrust(kvcache.Exact)
	text := fleettest.Text(4, 1000)
	bodies := []string{
		`{"model":"m","prompt":"` + text + `"}`,
		`{"model":"lora-a","prompt":"` + text + `"}`,
		`{"model":"m","cache_salt":"a","prompt":"` + text + `"}`,
		`{"model":"m","cache_salt":"b","prompt":"` + text + `"}`,
	}
	for round := range 2 {
		for _, b := range bodies {
			n := r.observed.outcomeCount()
			require.Equal(t, http.StatusOK, r.post("/v1/completions", b).status)
			o := r.observed.nextOutcome(t, n)
			require.Equal(t, o.Usage.CacheRead, o.CachedPredicted, b[:40])
			require.Equal(t, round == 1, o.CachedPredicted > 0, b[:40])
		}
	}
}
