package record_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

func TestMain(m *testing.M) { leak.Main(m) }

// decided is a decision with everything set that a log keeps.
func decided(id uint64) *kvsteer.Decision {
	candidate := func(name string, rank int, trust kvcache.Trust) kvsteer.DecisionCandidate {
		return kvsteer.DecisionCandidate{
			Candidate: policy.Candidate{
				Name: name, Instance: name + "@1", Rank: rank, Type: policy.Local, Model: "m",
				Labels:   map[string]string{"team": "blue", "region": "north"},
				InFlight: 3, PrefillAhead: 512, Queued: 2, Running: 4, KVUsage: 0.25,
				CachedTokens: 640, CachedBlocks: 40, CachedTiers: [kvcache.NumTiers]int32{kvcache.TierGPU: 40}, CachedWorth: 640,
				Trust: trust, PredictedTTFT: 35 * time.Millisecond, Externality: 3 * time.Millisecond,
				PredictedP90: 60 * time.Millisecond, PredictedITL: 7 * time.Millisecond, PredictedE2E: time.Second,
				Affinity: time.Millisecond, Tie: 0xffffffff,
			},
			TrustState: trust.String(), Place: 1, Stage: 1,
		}
	}
	return &kvsteer.Decision{
		ID: id, API: "chat", Model: "m", Attempt: 1, Rule: policy.DefaultRule, PolicyVersion: "0123456789abcdef",
		TokenSource: "tokenize", PromptTokens: 1000, Degradations: []string{"something"},
		Request: policy.Request{
			Model: "m", API: "chat", PromptTokens: 1000, Tenant: "acme", Session: true, Attempt: 1,
			Draw: 0xfedcba9876543210 + id, Tags: []policy.Tag{{Name: "pii", State: policy.TagAbsent}},
		},
		Chosen:     1,
		Candidates: []kvsteer.DecisionCandidate{candidate("a", 0, kvcache.Blind), candidate("b", 1, kvcache.Exact)},
		Features: []kvsteer.Features{
			{Model: "m", Class: "h100", Worker: "a", Uncached: 1000, AheadTokens: 512, AheadPairs: 1.5e6, Waiting: 1, Decoding: 4, KVUsage: 0.25},
			{Model: "other", Class: "h100", Worker: "b", Uncached: 360, Cached: 640, ReportAge: time.Second, OutputTokens: 9},
		},
		Prefill: &kvsteer.PrefillDecision{Rule: "p", Candidates: []kvsteer.DecisionCandidate{candidate("p", 0, kvcache.Suspect)}},
		Took:    time.Millisecond,
	}
}

func ended(d *kvsteer.Decision) *kvsteer.Outcome {
	return &kvsteer.Outcome{
		Decision: d, TTFT: 40 * time.Millisecond, Duration: time.Second, CachedPredicted: 640,
		Usage: kvsteer.Usage{Uncached: 360, CacheRead: 640, Output: 100, Known: true, CachedKnown: true},
	}
}

// entries reads a log of which every line can be read.
func entries(t *testing.T, log []byte) []*record.Entry {
	t.Helper()
	var all []*record.Entry
	require.NoError(t, record.Read(bytes.NewReader(log), func(e *record.Entry) error {
		require.Empty(t, e.Damage, "line %d", e.Line)
		all = append(all, e)
		return nil
	}))
	return all
}

// sums counts what is in a log.
type sums struct {
	headers, decisions, outcomes int
	lost                         map[string]uint64
}

func sum(all []*record.Entry) sums {
	s := sums{lost: map[string]uint64{}}
	for _, e := range all {
		switch {
		case e.Header != nil:
			s.headers++
		case e.Decision != nil:
			s.decisions++
		case e.Outcome != nil:
			s.outcomes++
		case e.Lost != nil:
			s.lost[e.Lost.Reason] += e.Lost.Entries
		}
	}
	return s
}

// medium is a writer that can be made to hang, or to fail after so many bytes.
type medium struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	room int // bytes; -1: no bound
	gate chan struct{}
	hung chan struct{} // told of each Write that hangs
}

func newMedium() *medium { return &medium{room: -1, hung: make(chan struct{}, 100)} }

func (m *medium) Write(b []byte) (int, error) {
	m.mu.Lock()
	gate := m.gate
	m.mu.Unlock()
	if gate != nil {
		m.hung <- struct{}{}
		<-gate
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room >= 0 && len(b) > m.room {
		n, _ := m.buf.Write(b[:m.room])
		m.room = 0
		return n, fmt.Errorf("no space left")
	}
	if m.room >= 0 {
		m.room -= len(b)
	}
	return m.buf.Write(b)
}

// hang makes Writes hang until the returned function is called.
func (m *medium) hang() (release func()) {
	gate := make(chan struct{})
	m.mu.Lock()
	m.gate = gate
	m.mu.Unlock()
	return func() {
		m.mu.Lock()
		m.gate = nil
		m.mu.Unlock()
		close(gate)
	}
}

func (m *medium) setRoom(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = n
}

func (m *medium) bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.buf.Bytes())
}
