package debug_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

// decision is one with n candidates.
func decision(id uint64, n int) *kvsteer.Decision {
	d := &kvsteer.Decision{ID: id, API: "chat", Model: "m", Attempt: 1, Rule: "r", PromptTokens: 1000, Chosen: n - 1}
	for i := range n {
		d.Candidates = append(d.Candidates, kvsteer.DecisionCandidate{
			Candidate:  policy.Candidate{Name: fmt.Sprintf("w%d", i), CachedTokens: 500, PredictedTTFT: 10 * time.Millisecond},
			TrustState: "exact", Place: n - i,
		})
	}
	return d
}

// bare is a console of nothing but what the test records.
func bare(t *testing.T) (*rig, *debug.Recorder) {
	t.Helper()
	seen := &debug.Recorder{}
	return newRig(t, rigConfig{options: debug.Options{Recorder: seen}}), seen
}

func TestDecisionsThatAreKeptAreBoundedAndSumsAreNot(t *testing.T) {
	r, seen := bare(t)
	const seconds, each = 30, 100
	now := time.Unix(1_000_000, 0)
	seen.SetClock(func() time.Time { return now })
	for s := range seconds {
		for i := range each {
			seen.OnDecision(decision(uint64(s*each+i+1), 2))
		}
		now = now.Add(time.Second)
	}
	st := r.state()
	require.EqualValues(t, seconds*each, st.Sums.Decisions)
	require.EqualValues(t, seconds*20, st.Sums.Kept)
	require.EqualValues(t, seconds*each, st.Sums.Exact)
	require.Len(t, st.Decisions, 200)
	require.EqualValues(t, 29*each+20, st.Decisions[0].ID, "the latest second's twentieth")
	require.EqualValues(t, 20*each+1, st.Decisions[199].ID, "ten seconds back")

	seen.OnOutcome(&kvsteer.Outcome{Decision: decision(29*each+20, 2), TTFT: 20 * time.Millisecond})
	seen.OnOutcome(&kvsteer.Outcome{Decision: decision(1, 2), TTFT: 20 * time.Millisecond}) // long forgotten
	seen.OnOutcome(&kvsteer.Outcome{})
	r.until(func(s *shown) bool { return s.Sums.Done == 3 && s.Sums.Timed == 2 && s.Decisions[0].End != nil })
}

func TestBigDecisionsAreMadeSmall(t *testing.T) {
	r, seen := bare(t)
	const candidates = 4096
	d := decision(1, candidates)
	d.Model = strings.Repeat("é", 1<<19) // 1 MiB
	d.Request.Tenant = strings.Repeat("t", 1<<20)
	d.Degradations = []string{strings.Repeat("x", 1<<20)}
	for range 1000 {
		d.Request.Tags = append(d.Request.Tags, policy.Tag{Name: strings.Repeat("y", 10_000)})
	}
	before := d.Model
	seen.OnDecision(d)
	seen.OnRejection(d, &kvsteer.Error{Code: kvsteer.CodeSaturated, Message: strings.Repeat("z", 1<<20)})
	require.Equal(t, before, d.Model, "the decision itself is others' too")
	require.Len(t, d.Candidates, candidates)

	_, _, body := r.get("/state.json")
	require.Less(t, len(body), 200_000)
	require.True(t, utf8.ValidString(body))
	var st shown
	require.NoError(t, json.Unmarshal([]byte(body), &st))
	kept := st.Decisions[0]
	require.Len(t, kept.Candidates, 64)
	require.Equal(t, candidates-64, kept.Omitted)
	require.Equal(t, "w4095", kept.Candidates[kept.Chosen].Name, "the chosen one is among them")
	require.Less(t, len(st.Rejections[0].Message), 1000)

	// 200 such decisions must not take 200 MB.
	var m0, m1 runtime.MemStats
	now := time.Unix(1_000_000, 0)
	seen.SetClock(func() time.Time { return now })
	runtime.GC()
	runtime.ReadMemStats(&m0)
	for i := range uint64(200) {
		now = now.Add(time.Second)
		big := decision(2+i, 1)
		big.Model = strings.Repeat("m", 1<<20)
		seen.OnDecision(big)
	}
	runtime.GC()
	runtime.ReadMemStats(&m1)
	require.Less(t, int64(m1.HeapAlloc)-int64(m0.HeapAlloc), int64(20<<20))
	runtime.KeepAlive(seen)
}

func TestNamesAreBounded(t *testing.T) {
	r, seen := bare(t)
	for i := range 10_000 {
		d := decision(uint64(i+1), 1)
		d.Rule = fmt.Sprintf("rule-%d", i)
		d.Shadows = []kvsteer.ShadowDecision{{Policy: fmt.Sprintf("shadow-%d", i), Chosen: -1, Differs: true}}
		seen.OnDecision(d)
		seen.OnRejection(d, &kvsteer.Error{Code: kvsteer.CodeRejectedByPolicy, Rule: fmt.Sprintf("no-%d", i), Message: "no"})
		seen.OnTrust(kvsteer.TrustChange{Worker: fmt.Sprintf("w%d", i)})
	}
	st := r.state()
	require.LessOrEqual(t, len(st.Rules), 2*256+1)
	require.LessOrEqual(t, len(st.Shadows), 256)
	require.LessOrEqual(t, len(st.Rejections), 50)
	require.LessOrEqual(t, len(st.Notes), 50)
	var counted int64
	for _, rule := range st.Rules {
		counted += rule.Count
	}
	require.EqualValues(t, 10_000, counted, "the rest is counted as others")
}

// Causes may hold anything; of failures only the kind is told.
func TestWhatFailuresAreCalled(t *testing.T) {
	r, seen := bare(t)
	secret := fmt.Errorf("dial http://user:hunter2@10.0.0.7: %w", &kvsteer.Error{Code: kvsteer.CodeUpstream, Message: "hunter2"})
	for i, err := range []error{secret, t.Context().Err(), fmt.Errorf("hunter2"), http.ErrAbortHandler} {
		d := decision(uint64(i+1), 1)
		seen.OnDecision(d)
		seen.OnOutcome(&kvsteer.Outcome{Decision: d, Err: err})
	}
	_, _, body := r.get("/state.json")
	require.NotContains(t, body, "hunter2")
	require.Contains(t, body, kvsteer.CodeUpstream.String())
}

// Only the last attempt of a request has an Outcome; the next one ends those before it.
func TestAnAttemptEndsTheOneBefore(t *testing.T) {
	r, seen := bare(t)
	now := time.Unix(1_000_000, 0)
	seen.SetClock(func() time.Time { return now })
	seen.OnDecision(decision(1, 2))
	for i := range uint64(30) { // those of a flood are not kept
		seen.OnDecision(decision(2+i, 2))
	}
	second := decision(100, 2)
	second.Attempt, second.Previous = 2, 1
	seen.OnDecision(second)
	now = now.Add(time.Second)
	third := decision(101, 2)
	third.Attempt, third.Previous = 3, 100
	seen.OnDecision(third)
	seen.OnOutcome(&kvsteer.Outcome{Decision: third})
	s := r.state()
	require.EqualValues(t, 101, s.Decisions[0].ID)
	require.Empty(t, s.Decisions[0].End.Failure)
	first := s.Decisions[len(s.Decisions)-1]
	require.EqualValues(t, 1, first.ID)
	require.NotNil(t, first.End)
	require.Equal(t, "tried again", first.End.Failure)
	require.EqualValues(t, 100, first.End.Next, "though that one came too fast to be kept")
	require.EqualValues(t, 1, s.Sums.Done)
	require.Zero(t, s.Sums.Failed, "requests are counted, not attempts")
}

func TestARetriedRequestIsNotUnderWay(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.engines[0].Faults().Fail(1, http.StatusInternalServerError, 0)
	r.engines[1].Faults().Fail(1, http.StatusInternalServerError, 0)
	r.ask("whoever is asked first fails")
	s := r.until(func(s *shown) bool { return len(s.Decisions) > 1 && s.Decisions[0].End != nil })
	for _, d := range s.Decisions[1:] {
		require.NotNil(t, d.End, "decision %d", d.ID)
		require.Equal(t, "tried again", d.End.Failure)
		require.Equal(t, d.ID+1, d.End.Next)
	}
}

// What went to providers is no reason to think less of caches.
func TestProvidersAreCountedApart(t *testing.T) {
	r, seen := bare(t)
	seen.OnDecision(decision(1, 2))
	outside := decision(2, 2)
	outside.Candidates[1].Type, outside.Candidates[1].TrustState = policy.Provider, "blind"
	seen.OnDecision(outside)
	seen.OnOutcome(&kvsteer.Outcome{Decision: outside, Usage: kvsteer.Usage{Uncached: 1000, CachedKnown: true}})
	s := r.state()
	require.EqualValues(t, 2, s.Sums.Decisions)
	require.EqualValues(t, 1, s.Sums.ToWorkers)
	require.EqualValues(t, 1, s.Sums.ToProviders)
	require.EqualValues(t, 1, s.Sums.Exact)
	require.EqualValues(t, 1000, s.Sums.PromptTokens)
	require.Zero(t, s.Sums.ReportedPrompt)
}

// A flood of rejections costs as little as one of decisions, and the list goes back for a
// while.
func TestRejectionsThatAreKeptAreBounded(t *testing.T) {
	r, seen := bare(t)
	now := time.Unix(1_000_000, 0)
	seen.SetClock(func() time.Time { return now })
	no := &kvsteer.Error{Code: kvsteer.CodeSaturated, Message: "no"}
	first := decision(0, 1)
	first.Model = "the first"
	seen.OnRejection(first, no)
	d := decision(0, 100)
	for range 1000 {
		seen.OnRejection(d, no)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { seen.OnRejection(d, no) }))
	f := &kvsteer.Refusal{Err: no}
	require.Zero(t, testing.AllocsPerRun(100, func() { seen.OnRefusal(f) }))
	s := r.state()
	require.Zero(t, s.Sums.Done)
	require.EqualValues(t, 101, s.Sums.Rejections, "what OnRefusal is told, once each")
	require.Len(t, s.Rejections, 20)
	require.Equal(t, "the first", s.Rejections[19].Model)
	now = now.Add(time.Second)
	seen.OnRejection(d, no)
	require.Len(t, r.until(func(s *shown) bool { return len(s.Rejections) != 20 }).Rejections, 21)
}

func TestNotesSayWhetherSomebodyShouldLook(t *testing.T) {
	r, seen := bare(t)
	seen.OnTrust(kvsteer.TrustChange{Worker: "w", From: kvcache.Exact, To: kvcache.Suspect})
	seen.OnTrust(kvsteer.TrustChange{Worker: "w", From: kvcache.Suspect, To: kvcache.Exact})
	seen.OnPromptMismatch(&prompt.Mismatch{Engine: "w"})
	seen.OnPromptMismatch(&prompt.Mismatch{Engine: "w", Tipped: true})
	s := r.state()
	var kinds []string
	for _, n := range s.Notes {
		kinds = append(kinds, n.Kind)
	}
	require.Equal(t, []string{"look", "info", "better", "look"}, kinds[:4])
}

// What is hostile comes out as the very same text, in JSON that can't end a script.
func TestHostileNames(t *testing.T) {
	const evil = `"><img src=x onerror=alert(1)></script><script>alert(2)</script>`
	model := evil + " model"
	r := newRig(t, rigConfig{
		names: []string{evil, "w1"}, model: model,
		describe: func(_ *http.Request, q *kvsteer.Request) { q.Tenant = evil + " tenant" },
	})
	require.Equal(t, http.StatusOK, r.ask("hello"))
	s := r.until(func(s *shown) bool { return len(s.Decisions) == 1 })
	require.Equal(t, evil, s.Workers[0].Name)
	require.Equal(t, []string{model}, s.Workers[0].Models)
	require.Equal(t, evil+" tenant", s.Decisions[0].Tenant)
	_, h, body := r.get("/state.json")
	require.Contains(t, h.Get("Content-Type"), "application/json")
	require.NotContains(t, body, "<")
}

func BenchmarkOnDecision(b *testing.B) {
	for _, n := range []int{4, 64, 256} {
		b.Run(fmt.Sprintf("candidates=%d", n), func(b *testing.B) {
			var seen debug.Recorder
			d := decision(1, n)
			b.ReportAllocs()
			for b.Loop() {
				seen.OnDecision(d)
			}
		})
	}
}

func BenchmarkOnOutcome(b *testing.B) {
	var seen debug.Recorder
	o := &kvsteer.Outcome{Decision: decision(1, 4), TTFT: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		seen.OnOutcome(o)
	}
}

// Of decisions that are not kept a Recorder allocates nothing.
func TestRecordingAllocatesNothing(t *testing.T) {
	var seen debug.Recorder
	now := time.Unix(1_000_000, 0)
	seen.SetClock(func() time.Time { return now })
	d := decision(1, 64)
	for range 100 {
		seen.OnDecision(d)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { seen.OnDecision(d) }))
}

// Who is refused before workers are compared was turned away like the rest; who left was not.
func TestAllThatAreTurnedAwayCount(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.model = "nobody-has-it"
	for range 5 {
		require.Equal(t, http.StatusNotFound, r.ask("hi"))
	}
	r.router.Refuse(&kvsteer.Refusal{Err: &kvsteer.Error{Code: kvsteer.CodeCanceled}})
	s := r.until(func(s *shown) bool { return s.Sums.Rejections >= 5 })
	require.EqualValues(t, 5, s.Sums.Rejections)
	require.Len(t, s.Codes, 1)
	require.Equal(t, "unknown model", s.Codes[0].Code)
	require.EqualValues(t, 5, s.Codes[0].Count)
}
