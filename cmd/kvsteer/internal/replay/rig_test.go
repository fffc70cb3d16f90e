package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/replay"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

func TestMain(m *testing.M) { leak.Main(m) }

// scene is a run of a real router over fake engines, recorded.
type scene struct {
	requests int
	policy   policy.Policy
	options  []kvsteer.Option
	role     func(i int) fleet.Role
	targets  bool
	record   record.Options
	// step is how far the clock goes from one request to the next; 0: it is real.
	step time.Duration
}

var (
	tenants = []string{"cobalt", "umber", "trial", "", "cobalt"}
	models  = []string{"small", "small", "large", "large"}
)

// run plays the scene and returns the log.
func (s scene) run(t *testing.T) []byte {
	t.Helper()
	workers := make([]fleet.Worker, len(models))
	for i := range workers {
		c := fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: models[i], Speed: math.Inf(1)}
		if s.role != nil {
			c.Role, c.Model = s.role(i), "small"
		}
		workers[i] = fleettest.New(t, c).Worker()
		workers[i].Labels = map[string]string{"build": []string{"old", "new"}[i%2]}
	}
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(workers...), ProbeTimeout: 20 * time.Second, UnhealthyAfter: 50})
	require.NoError(t, err)
	defer f.Close()
	now := time.Now()
	if s.step > 0 {
		clock := func() time.Time { return now }
		s.record.Now = clock
		s.options = append(s.options, kvsteer.WithClock(clock))
	}
	var log bytes.Buffer
	s.record.Buffer, s.record.CloseTimeout = 1<<14, time.Minute // the machine may do much else
	rec, err := record.New(&log, s.record)
	require.NoError(t, err)
	router, err := kvsteer.New(append([]kvsteer.Option{
		kvsteer.WithFleet(f), kvsteer.WithSeed(7), kvsteer.WithHooks(rec), kvsteer.WithPolicy(s.policy),
	}, s.options...)...)
	require.NoError(t, err)
	defer router.Close()
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == len(workers) }, 30*time.Second, time.Millisecond)

	rng := rand.New(rand.NewPCG(1, 2))
	var open []*kvsteer.Selection
	end := func(k int) {
		sel := open[k]
		open = append(open[:k], open[k+1:]...)
		sel.FirstToken()
		sel.Done(kvsteer.Usage{Uncached: sel.Decision().PromptTokens, Output: 50 + rng.IntN(100), Known: true})
	}
	for i := range s.requests {
		now = now.Add(s.step)
		req := s.request(i, rng)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		sel, err := router.Select(ctx, req)
		cancel()
		if code := kvsteer.CodeOf(err); code == kvsteer.CodeRejectedByPolicy || code == kvsteer.CodeNoCandidates {
			continue // the log knows
		}
		require.NoError(t, err)
		if i%7 == 0 && sel.Next(t.Context(), nil) != nil {
			sel.Abort(nil)
			continue
		}
		open = append(open, sel)
		if i%11 == 0 {
			sel.Abort(context.Canceled)
			open = open[:len(open)-1]
		}
		for len(open) > 6 {
			end(rng.IntN(len(open)))
		}
	}
	for len(open) > 0 {
		end(0)
	}
	require.NoError(t, rec.Close())
	require.Zero(t, rec.Status().Dropped)
	return log.Bytes()
}

// request makes the i-th one: some prefixes are shared, so that there is a cache.
func (s scene) request(i int, rng *rand.Rand) *kvsteer.Request {
	req := &kvsteer.Request{API: kvsteer.Completions, Model: models[rng.IntN(2)*2], Tenant: tenants[i%len(tenants)]}
	prefix := rng.IntN(5)
	req.TokenIDs = make([]uint32, 200+rng.IntN(3000))
	for k := range req.TokenIDs {
		req.TokenIDs[k] = uint32(prefix*10_000 + k)
	}
	if i%4 == 1 {
		req.QoS = "batch"
	}
	if i%6 == 2 {
		req.Header = http.Header{"X-Tier": {"gold"}}
	}
	if i%3 == 0 {
		req.Session = fmt.Sprintf("session-%d", i%12)
	}
	if s.targets {
		req.TargetTTFT, req.TargetITL = time.Duration(50+rng.IntN(400))*time.Millisecond, 31*time.Millisecond
	}
	if s.role != nil {
		req.Model = "small"
		req.Body = []byte(`{"model":"small","prompt":[1,2,3]}`)
	}
	return req
}

func load(t *testing.T, name string) *policy.Set {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	set, err := policy.Load(name, text, policy.Options{})
	require.NoError(t, err)
	return set
}

// again replays a log and returns the report.
func again(t *testing.T, c replay.Config, log []byte) *replay.Report {
	t.Helper()
	r := replay.New(c)
	require.NoError(t, r.Read("log", bytes.NewReader(log)))
	return r.Report()
}

// decisions are those in a log.
func decisions(t *testing.T, log []byte) []*kvsteer.Decision {
	t.Helper()
	var all []*kvsteer.Decision
	require.NoError(t, record.Read(bytes.NewReader(log), func(e *record.Entry) error {
		if e.Decision != nil {
			all = append(all, e.Decision)
		}
		return nil
	}))
	return all
}

// frozen is a predictor that learns nothing, so that it can be had again.
type frozen struct{ p kvsteer.Predictor }

func newFrozen() frozen { return frozen{kvsteer.NewPredictor(kvsteer.PredictorOptions{})} }

func (f frozen) Predict(in []kvsteer.Features, out []kvsteer.Prediction) { f.p.Predict(in, out) }
func (frozen) Observe(*kvsteer.Features, time.Duration)                  {}
