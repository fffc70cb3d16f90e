package replay_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/replay"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

// made is a log of decisions made by hand; each may be changed before it is written.
type made struct {
	t   *testing.T
	buf bytes.Buffer
	rec *record.Recorder
	ids uint64
}

func newMade(t *testing.T, o record.Options) *made {
	t.Helper()
	m := &made{t: t}
	var err error
	o.CloseTimeout = time.Minute // the machine may do much else
	m.rec, err = record.New(&m.buf, o)
	require.NoError(t, err)
	return m
}

// add writes a decision between two workers, a the faster, and how it ended.
func (m *made) add(change func(d *kvsteer.Decision)) *kvsteer.Decision {
	m.ids++
	candidate := func(name string, ttft time.Duration) kvsteer.DecisionCandidate {
		return kvsteer.DecisionCandidate{Candidate: policy.Candidate{
			Name: name, Instance: name + "@1", Model: "m", PredictedTTFT: ttft, CachedTokens: 100,
		}, TrustState: "exact"}
	}
	d := &kvsteer.Decision{
		ID: m.ids, API: "chat", Model: "m", Attempt: 1, Rule: policy.DefaultRule, PromptTokens: 1000,
		Request:    policy.Request{Model: "m", API: "chat", PromptTokens: 1000, Attempt: 1},
		Candidates: []kvsteer.DecisionCandidate{candidate("a", 100*time.Millisecond), candidate("b", 300*time.Millisecond)},
		Features: []kvsteer.Features{
			{Model: "m", Worker: "a", Uncached: 900, Cached: 100}, {Model: "m", Worker: "b", Uncached: 900, Cached: 100},
		},
	}
	if change != nil {
		change(d)
	}
	m.rec.OnDecision(d)
	return d
}

func (m *made) end(d *kvsteer.Decision, ttft time.Duration, output int) {
	o := &kvsteer.Outcome{Decision: d, TTFT: ttft, Duration: time.Second}
	if output >= 0 {
		o.Usage = kvsteer.Usage{Uncached: d.PromptTokens, Output: output, Known: true}
	}
	m.rec.OnOutcome(o)
}

func (m *made) log() []byte {
	require.NoError(m.t, m.rec.Close())
	return m.buf.Bytes()
}

// onB sends everything to the worker b.
type onB struct{ policy.Default }

func (onB) Evaluate(_ *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	plan.Reset("on b")
	for i := range candidates {
		if candidates[i].Name == "b" {
			plan.Order = append(plan.Order, i)
		} else {
			plan.Dropped = append(plan.Dropped, policy.Drop{Index: i, Rule: "on b", Condition: "is not b"})
		}
	}
}

// cheapest goes by price.
type cheapest struct{ policy.Default }

func (cheapest) Evaluate(_ *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	plan.Reset("cheapest")
	best := -1
	for i := range candidates {
		if candidates[i].PriceKnown && (best < 0 || candidates[i].Price < candidates[best].Price) {
			best = i
		}
	}
	if best >= 0 {
		plan.Order = append(plan.Order, best)
	}
}

func prices(t *testing.T, text string) *replay.Prices {
	t.Helper()
	p, err := replay.ReadPrices(strings.NewReader(text))
	require.NoError(t, err)
	return p
}

func TestDeltas(t *testing.T) {
	m := newMade(t, record.Options{})
	for i := range 10 {
		m.add(func(d *kvsteer.Decision) {
			d.Candidates[1].PredictedTTFT = time.Duration(100+10*i) * time.Millisecond
			d.Candidates[1].Externality = 20 * time.Millisecond
		})
	}
	m.add(func(d *kvsteer.Decision) { d.Chosen = 1 }) // goes there already
	r := again(t, replay.Config{Policy: onB{}, Top: 2}, m.log())
	require.Equal(t, 10, r.Changed)
	require.InDelta(t, 90.909, r.ChangedPct, 1e-9)
	require.Equal(t, &replay.Delta{Decisions: 11, MeanMS: 40.909, P50MS: 40, P90MS: 80}, r.TTFT)
	require.Equal(t, &replay.Delta{Decisions: 10, MeanMS: 45, P50MS: 40, P90MS: 80}, r.ChangedTTFT)
	require.InDelta(t, 18.182, r.OthersMS, 1e-9)
	require.Equal(t, []replay.MoveRow{{From: policy.DefaultRule, To: "on b", Decisions: 11}}, r.Moves)
	require.Len(t, r.Top, 2)
	require.Equal(t, []uint64{10, 9}, []uint64{r.Top[0].Decision, r.Top[1].Decision}, "those that differ most")
	require.Equal(t, 11, r.Top[0].Line)
	require.InDelta(t, 90, r.Top[0].DeltaMS, 1e-9)
	require.Contains(t, r.Top[0].Words, "a would be dropped: on b: is not b")
}

func TestCosts(t *testing.T) {
	m := newMade(t, record.Options{})
	m.end(m.add(nil), 0, 10)
	m.end(m.add(nil), 0, 20)
	m.end(m.add(nil), 0, -1)                 // nobody knows how long the answer was
	m.add(nil)                               // never ended
	own := m.add(func(d *kvsteer.Decision) { // a price that was recorded counts
		d.Candidates[1].Price, d.Candidates[1].PriceKnown = 7, true
	})
	m.end(own, 0, 30)
	m.end(m.add(func(d *kvsteer.Decision) { d.Candidates[0].Model = "free" }), 0, 5)
	log := m.log()

	table := prices(t, `{"m": {"input_cost_per_token": 1, "cache_read_input_token_cost": 0.5, "output_cost_per_token": 2, "mode": "chat"},
		"b/m": {"input_cost_per_token": 3}, "sample_spec": {"input_cost_per_token": "words"}, "unpriced": {}}`)
	r := again(t, replay.Config{Policy: onB{}, Prices: table}, log)
	// On a: 900 + 50 + 2 an output token; on b: 900 x 3 + 100 x 3, or 7.
	require.Equal(t, &replay.Cost{Requests: 3, BeforeUSD: 3*950 + 2*60, NowUSD: 2*3000 + 7, DeltaUSD: 6007 - 2970}, r.Cost)
	requireCaveat(t, r, "lengths", 1)
	requireCaveat(t, r, "prices", 1)

	// A policy sees what it would cost.
	r = again(t, replay.Config{Policy: cheapest{}, Prices: prices(t, `{"a/m": {"input_cost_per_token": 2}, "b/m": {"input_cost_per_token": 1}}`)}, log)
	require.Equal(t, 6, r.Changed)
	require.Equal(t, &replay.Cost{Requests: 3, BeforeUSD: 6000, NowUSD: 2007, DeltaUSD: -3993}, r.Cost)
}

func TestPricesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                  "object",
		`{"m": {"input_cost_per_token": -1}}`: `"m" is no amount`,
		`{"m": {"output_cost_per_token": 1}}`: "no entry has",
		`{`:                                   "object",
	} {
		_, err := replay.ReadPrices(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

// wrong expects the same time everywhere.
type wrong struct {
	ttft     time.Duration
	observed *int
}

func (w wrong) Predict(_ []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range out {
		out[i] = kvsteer.Prediction{TTFT: w.ttft}
	}
}

func (w wrong) Observe(*kvsteer.Features, time.Duration) { *w.observed++ }

func TestAnotherPredictor(t *testing.T) {
	m := newMade(t, record.Options{})
	m.end(m.add(nil), 200*time.Millisecond, 1) // expected after 100
	m.end(m.add(nil), 0, 1)
	m.end(m.add(func(d *kvsteer.Decision) { d.Attempt = 2 }), 100*time.Millisecond, 1)
	m.add(func(d *kvsteer.Decision) { d.Features = nil })
	m.add(func(d *kvsteer.Decision) { d.Candidates[1].PrefillOn = "p" })
	log := m.log()
	n := 0
	p := wrong{150 * time.Millisecond, &n}
	r := again(t, replay.Config{Predictor: p}, log)
	require.Equal(t, &replay.Prediction{Requests: 1, BeforeError: 50, NowError: 25}, r.Prediction)
	require.Equal(t, 0, n)
	requireCaveat(t, r, "features", 1)
	requireCaveat(t, r, "relayed", 1)
	requireCaveat(t, r, "retries", 1)
	require.Zero(t, r.Changed, "the first of equals")
	again(t, replay.Config{Predictor: p, Learn: true}, log)
	require.Equal(t, 1, n)
}

func requireCaveat(t *testing.T, r *replay.Report, code string, n uint64) {
	t.Helper()
	for _, c := range r.Caveats {
		if c.Code == code {
			require.Equal(t, n, c.Count, c.Text)
			return
		}
	}
	require.Zero(t, n, "no caveat %q in %v", code, r.Caveats)
}

// curious is a policy that asks for everything.
type curious struct{ policy.Default }

func (curious) Needs() policy.Needs {
	return policy.Needs{Tags: []string{"pii", "code"}, Headers: []string{"X-Tier"}}
}

func (curious) Models(req *policy.Request, dst []string) []string {
	return append(dst, req.Model, "large")
}

func TestCaveats(t *testing.T) {
	m := newMade(t, record.Options{Sample: 3, HashTenants: true})
	for m.ids < 30 {
		m.add(func(d *kvsteer.Decision) {
			d.Request.Draw = m.ids
			d.Request.Tags = []policy.Tag{{Name: "pii", State: policy.TagAbsent}}
		})
	}
	m.rec.OnRejection(&kvsteer.Decision{Chosen: -1, Attempt: 1, Rule: policy.DefaultRule}, &kvsteer.Error{Code: kvsteer.CodeSaturated})
	log := m.log()
	log = append(log, `{"outcome":{"decision":99}}`+"\n"+`{"lost":{"entries":5,"reason":"buffer full"}}`+"\n"+`{"decision":{"id`...)
	r := again(t, replay.Config{Policy: curious{}}, log)
	n := uint64(r.Decisions)
	require.Greater(t, n, uint64(3))
	for code, want := range map[string]uint64{
		"state": 0, "retries": 0, "models": n, "headers": n, "tags": n, "hashed": n, "sample": 3, "lost": 5, "damaged": 1, "strayed": 1,
		"features": 0, "lengths": 0, "prices": 0, "busy": n - uint64(r.Decisions-r.RejectedBefore),
	} {
		requireCaveat(t, r, code, want)
	}
	text := fmt.Sprint(r.Caveats)
	require.Contains(t, text, `not asked for then or not served: "large"`)
	require.Contains(t, text, `"X-Tier"`)
	require.Contains(t, text, `count as unknown: "code"`)
	require.NotContains(t, text, `"pii"`)
}

// What was refused for want of room is refused again, whatever the policy says.
func TestBusyStaysBusy(t *testing.T) {
	m := newMade(t, record.Options{})
	d := m.add(nil)
	for _, code := range []kvsteer.Code{kvsteer.CodeSaturated, kvsteer.CodeRejectedByPolicy} {
		refused := *d
		refused.ID, refused.Chosen = 0, -1
		m.rec.OnRejection(&refused, &kvsteer.Error{Code: code})
	}
	r := again(t, replay.Config{}, m.log())
	require.Equal(t, []int{2, 1, 1, 0}, []int{r.RejectedBefore, r.RejectedNow, r.NewlyAdmitted, r.NewlyRejected})
	requireCaveat(t, r, "busy", 1)
}

func TestPolicyIsNeeded(t *testing.T) {
	m := newMade(t, record.Options{})
	m.add(nil)
	m.add(func(d *kvsteer.Decision) { d.Policy, d.Rule = "house", "rest" })
	r := replay.New(replay.Config{})
	err := r.Read("x.jsonl", bytes.NewReader(m.log()))
	require.ErrorIs(t, err, replay.ErrPolicyNeeded)
	require.ErrorContains(t, err, "x.jsonl: line 3:")
	require.ErrorContains(t, err, `"rest"`)
}

// Decisions have the same numbers in every run, and the ends of some are in another
// file.
func TestSeveralFiles(t *testing.T) {
	one, two := newMade(t, record.Options{}), newMade(t, record.Options{})
	a, b := one.add(nil), two.add(nil)
	require.Equal(t, a.ID, b.ID)
	one.end(a, time.Second, 100)
	two.end(b, time.Second, 200)
	first, second := one.log(), two.log()
	lines := bytes.SplitAfter(first, []byte("\n"))
	r := replay.New(replay.Config{Prices: prices(t, `{"m": {"input_cost_per_token": 0, "output_cost_per_token": 1}}`)})
	require.NoError(t, r.Read("1", bytes.NewReader(bytes.Join(lines[:2], nil))))
	require.NoError(t, r.Read("2", bytes.NewReader(bytes.Join([][]byte{lines[0], lines[2], second}, nil))))
	report := r.Report()
	require.Equal(t, 2, report.Runs)
	require.Equal(t, &replay.Cost{Requests: 2, BeforeUSD: 300, NowUSD: 300}, report.Cost)
	require.Equal(t, report, r.Report(), "again")
}

// The most different decisions are of all kinds: a thousand that are alike do not hide
// the one that is not.
func TestTopHasEveryKind(t *testing.T) {
	m := newMade(t, record.Options{})
	for range 20 {
		m.rec.OnRejection(&kvsteer.Decision{Chosen: -1, Attempt: 1, Rule: "old", Candidates: m.add(nil).Candidates}, nil)
	}
	small := m.add(func(d *kvsteer.Decision) {
		d.Rule, d.Candidates[1].PredictedTTFT = "other", 101*time.Millisecond
	})
	r := again(t, replay.Config{Policy: onB{}, Top: 5}, m.log())
	require.Equal(t, 41, r.Changed)
	require.Len(t, r.Top, 5)
	got := []uint64{}
	for _, d := range r.Top {
		got = append(got, d.Decision)
	}
	require.Equal(t, []uint64{0, 1, small.ID, 0, 2}, got)
}
