package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	var log bytes.Buffer
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	r, err := record.New(&log, record.Options{CloseTimeout: patient, Now: func() time.Time { return at }})
	require.NoError(t, err)
	d := decided(7)
	r.OnDecision(d)
	o := ended(d)
	o.Err = &kvsteer.Error{Code: kvsteer.CodeUpstream, Message: "secret", Err: errors.New("secret")}
	o.Moved, o.Served = true, kvsteer.Target{Worker: "elsewhere"}
	r.OnOutcome(o)
	refused := decided(0)
	refused.Chosen = -1
	r.OnRejection(refused, &kvsteer.Error{Code: kvsteer.CodeNoCandidates})
	require.NoError(t, r.Close())
	require.NoError(t, r.Close(), "again")

	all := entries(t, log.Bytes())
	require.Len(t, all, 4)
	h := all[0].Header
	require.Len(t, h.Run, 16)
	require.Equal(t, record.Header{Version: record.Version, Run: h.Run, Created: at}, *h)
	require.Equal(t, at, all[1].At)
	require.Equal(t, d, all[1].Decision)
	require.Empty(t, all[1].Rejected)
	require.Equal(t, &record.Outcome{
		Decision: 7, TTFT: o.TTFT, Duration: o.Duration, Usage: o.Usage, CachedPredicted: 640, Error: "upstream failed",
		Moved: true, Served: "elsewhere",
	}, all[2].Outcome)
	require.Equal(t, refused, all[3].Decision)
	require.Equal(t, "no candidates", all[3].Rejected)
	require.Equal(t, []int{1, 2, 3, 4}, []int{all[0].Line, all[1].Line, all[2].Line, all[3].Line})
	require.NotContains(t, log.String(), "secret")
	s := r.Status()
	require.Equal(t, record.Status{Decisions: 2, Outcomes: 1, Bytes: uint64(log.Len())}, s)
}

// patient is for tests that write much, on a machine that does much else.
const patient = time.Minute

// The names in the log are a format that others read.
func TestFormat(t *testing.T) {
	var log bytes.Buffer
	r, err := record.New(&log, record.Options{CloseTimeout: patient, Sample: 1})
	require.NoError(t, err)
	r.OnDecision(decided(1))
	require.NoError(t, r.Close())
	lines := strings.Split(log.String(), "\n")
	var l struct {
		Decision map[string]json.RawMessage `json:"decision"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &l))
	require.JSONEq(t, `[{"class":"h100","uncached_tokens":1000,"cached_tokens":0,"ahead_tokens":512,"ahead_pairs":1500000,"waiting":1,"decoding":4,
		"kv_usage":0.25,"report_age_ns":0},{"model":"other","class":"h100","uncached_tokens":360,"cached_tokens":640,"ahead_tokens":0,
		"ahead_pairs":0,"waiting":0,"decoding":0,"kv_usage":0,"report_age_ns":1000000000,"output_tokens":9}]`, string(l.Decision["features"]))
	require.Contains(t, lines[0], `{"kvsteer_log":{"version":1,"run":"`)
}

func TestKindsOfErrors(t *testing.T) {
	for want, cause := range map[string]error{
		"":                  nil,
		"canceled":          fmt.Errorf("x: %w", context.Canceled),
		"deadline exceeded": context.DeadlineExceeded,
		"saturated":         fmt.Errorf("x: %w", &kvsteer.Error{Code: kvsteer.CodeSaturated}),
		"failed":            errors.New("engine says: secret"),
	} {
		var log bytes.Buffer
		r, err := record.New(&log, record.Options{CloseTimeout: patient})
		require.NoError(t, err)
		o := ended(decided(1))
		o.Err = cause
		r.OnOutcome(o)
		require.NoError(t, r.Close())
		require.Equal(t, want, entries(t, log.Bytes())[1].Outcome.Error)
	}
}

// A writer that hangs holds up nobody, and the log says what is missing where.
func TestFullBufferDrops(t *testing.T) {
	m := newMedium()
	r, err := record.New(m, record.Options{CloseTimeout: patient, Buffer: 10})
	require.NoError(t, err)
	require.NoError(t, r.Flush(t.Context())) // the header is there
	release := m.hang()
	r.OnDecision(decided(1))
	<-m.hung // it is being written, and counts
	for id := uint64(2); id <= 13; id++ {
		r.OnDecision(decided(id))
	}
	s := r.Status()
	require.Equal(t, []uint64{3, 10, 0}, []uint64{s.Dropped, uint64(s.Waiting), s.Decisions})
	release()
	require.NoError(t, r.Flush(t.Context()))
	r.OnDecision(decided(14))
	require.NoError(t, r.Flush(t.Context()))
	require.Equal(t, uint64(11), r.Status().Decisions)

	release = m.hang()
	r.OnDecision(decided(15))
	<-m.hung
	for id := uint64(16); id <= 26; id++ {
		r.OnDecision(decided(id))
	}
	release()
	require.NoError(t, r.Close())
	r.OnDecision(decided(27))
	require.Equal(t, uint64(6), r.Status().Dropped, "3, 2, and one after Close")

	var got []string
	for _, e := range entries(t, m.bytes()) {
		switch {
		case e.Decision != nil:
			got = append(got, fmt.Sprint(e.Decision.ID))
		case e.Lost != nil:
			got = append(got, fmt.Sprintf("%d lost: %s", e.Lost.Entries, e.Lost.Reason))
		}
	}
	require.Equal(t, "1 2 3 4 5 6 7 8 9 10 3 lost: buffer full 14 15 16 17 18 19 20 21 22 23 24 2 lost: buffer full", strings.Join(got, " "))
}

// What a failing writer took a part of is said to be missing, and the rest is fine.
func TestWriterThatFails(t *testing.T) {
	for room := range 2000 {
		m := newMedium()
		var said bytes.Buffer
		r, err := record.New(m, record.Options{CloseTimeout: patient, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.NoError(t, err)
		require.NoError(t, r.Flush(t.Context()))
		r.OnDecision(decided(1))
		require.NoError(t, r.Flush(t.Context()))
		m.setRoom(room * 13)
		r.OnDecision(decided(2))
		r.OnOutcome(ended(decided(2)))
		failed := r.Flush(t.Context()) != nil
		r.OnDecision(decided(3))
		_ = r.Flush(t.Context())
		m.setRoom(-1)
		r.OnDecision(decided(4))
		require.NoError(t, r.Flush(t.Context()))
		s := r.Status()
		require.False(t, s.Failing)
		err = r.Close()
		require.Equal(t, s.Failed > 0, err != nil)
		require.Equal(t, failed || s.Failed > 0, s.Errors > 0)
		require.Equal(t, s.Errors > 0, strings.Contains(said.String(), "can't be written"))
		require.Equal(t, s.Errors > 0, strings.Contains(said.String(), "written again"))
		if s.Failed > 0 {
			require.ErrorContains(t, err, "no space left")
		}

		var all []*record.Entry
		damaged := 0
		require.NoError(t, record.Read(bytes.NewReader(m.bytes()), func(e *record.Entry) error {
			if e.Damage != "" {
				damaged++
			}
			all = append(all, e)
			return nil
		}))
		got := sum(all)
		require.LessOrEqual(t, damaged, 2)
		require.Equal(t, 5, got.decisions+got.outcomes+int(got.lost[record.LostWrite]), "room for %d", room*13)
		require.Equal(t, s.Failed, got.lost[record.LostWrite])
		require.Equal(t, []uint64{s.Decisions, s.Outcomes}, []uint64{uint64(got.decisions), uint64(got.outcomes)})
		if !failed && s.Failed == 0 {
			return // there was room for all
		}
	}
	t.Fatal("there is never room")
}

func TestWhatCannotBeEncoded(t *testing.T) {
	var log bytes.Buffer
	r, err := record.New(&log, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	d := decided(1)
	d.Candidates[0].KVUsage = math.NaN()
	r.OnDecision(d)
	long := decided(2)
	long.Model = strings.Repeat("x", record.MaxLine)
	r.OnDecision(long)
	many := decided(3)
	many.Candidates = make([]kvsteer.DecisionCandidate, 20_000)
	r.OnDecision(many)
	r.OnDecision(decided(4))
	require.Error(t, r.Close())
	got := sum(entries(t, log.Bytes()))
	require.Equal(t, 1, got.decisions)
	require.Equal(t, map[string]uint64{record.LostEncode: 3}, got.lost)
	require.Equal(t, uint64(3), r.Status().Failed)
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r, err := record.New(writerFunc(func(b []byte) (int, error) { <-gate; return len(b), nil }), record.Options{CloseTimeout: time.Minute})
		require.NoError(t, err)
		r.OnDecision(decided(0))
		synctest.Wait() // it is being written
		for id := range uint64(5) {
			r.OnDecision(decided(1 + id))
		}
		began := time.Now()
		err = r.Close()
		require.Equal(t, time.Minute, time.Since(began))
		require.EqualError(t, err, "record: 6 entries were not written within 1m0s")
		require.ErrorIs(t, r.Flush(t.Context()), record.ErrClosed)
		close(gate)
		synctest.Wait() // the goroutine ends
		require.Equal(t, uint64(5), r.Status().Failed, "but the first")
	})
}

func TestFlushEndsWithItsContext(t *testing.T) {
	m := newMedium()
	release := m.hang()
	r, err := record.New(m, record.Options{CloseTimeout: patient})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	require.ErrorIs(t, r.Flush(ctx), gone)
	release()
	require.NoError(t, r.Close())
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Whatever happens at once, every entry is written, or counted.
func TestEverythingIsAccountedFor(t *testing.T) {
	const senders, each = 8, 400
	m := newMedium()
	r, err := record.New(m, record.Options{Buffer: 50, CloseTimeout: patient})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				d := decided(uint64(s*each + i))
				r.OnDecision(d)
				r.OnOutcome(ended(d))
				if i == each/2 && s == 0 {
					_ = r.Flush(t.Context())
					m.setRoom(5000)
				}
				if i == each*3/4 && s == 0 {
					m.setRoom(-1)
				}
				_ = r.Status()
			}
		})
	}
	wg.Wait()
	m.setRoom(-1)
	_ = r.Flush(t.Context())
	_ = r.Close()
	s := r.Status()
	require.Equal(t, uint64(2*senders*each), s.Decisions+s.Outcomes+s.Dropped+s.Failed)
	require.Zero(t, s.Waiting)
	var all []*record.Entry
	require.NoError(t, record.Read(bytes.NewReader(m.bytes()), func(e *record.Entry) error {
		all = append(all, e)
		return nil
	}))
	got := sum(all)
	lost := uint64(0)
	for _, n := range got.lost {
		lost += n
	}
	require.Equal(t, uint64(2*senders*each), uint64(got.decisions+got.outcomes)+lost)
}

func TestSamplesWholeSessions(t *testing.T) {
	var log bytes.Buffer
	r, err := record.New(&log, record.Options{Sample: 4, Buffer: 100_000, CloseTimeout: patient})
	require.NoError(t, err)
	const requests, perSession = 3000, 5
	for id := range uint64(requests) {
		d := decided(id)
		d.Request.Draw = id / perSession // as of a session
		r.OnDecision(d)
		r.OnOutcome(ended(d))
	}
	require.NoError(t, r.Close())
	seen := map[uint64]int{}
	outcomes := 0
	all := entries(t, log.Bytes())
	for _, e := range all {
		if e.Decision != nil {
			seen[e.Decision.Request.Draw]++
		} else if e.Outcome != nil {
			outcomes++
		}
	}
	for draw, n := range seen {
		require.Equal(t, perSession, n, "session %d", draw)
	}
	require.Equal(t, len(seen)*perSession, outcomes)
	require.InDelta(t, requests/perSession/4, len(seen), 50)
	require.Equal(t, 4, all[0].Header.Sample)
	require.Zero(t, r.Status().Dropped, "not recording is not dropping")
}

// Headers are recorded if they are named, and those alone.
func TestHeaders(t *testing.T) {
	var log bytes.Buffer
	r, err := record.New(&log, record.Options{CloseTimeout: patient, Headers: []string{"x-tier", "X-Tier", "x-plan"}})
	require.NoError(t, err)
	require.Equal(t, []string{"X-Tier", "X-Plan"}, r.WantsHeaders())
	d := decided(1)
	d.Request.Header = map[string][]string{"X-Tier": {"gold", "new"}, "Authorization": {"secret"}}
	r.OnDecision(d)
	r.OnDecision(decided(2))
	require.NoError(t, r.Close())
	all := entries(t, log.Bytes())
	require.Equal(t, []string{"X-Tier", "X-Plan"}, all[0].Header.Headers)
	require.Equal(t, map[string][]string{"X-Tier": {"gold", "new"}}, all[1].Decision.Request.Header)
	require.Nil(t, all[2].Decision.Request.Header)
	require.NotContains(t, log.String(), "secret")
}

func TestHashing(t *testing.T) {
	write := func(o record.Options) (string, []*record.Entry) {
		var log bytes.Buffer
		o.CloseTimeout = patient
		r, err := record.New(&log, o)
		require.NoError(t, err)
		d, before := decided(1), decided(1)
		for _, d := range []*kvsteer.Decision{d, before} {
			d.Candidates[0].DroppedBy = policy.DefaultRule + ": tenant acme is not for workers with team=blue"
		}
		r.OnDecision(d)
		other := decided(2)
		other.Request.Tenant = "globex"
		r.OnDecision(other)
		nobody := decided(3)
		nobody.Request.Tenant = ""
		r.OnDecision(nobody)
		require.NoError(t, r.Close())
		require.Equal(t, before, d, "the decision belongs to others")
		return log.String(), entries(t, log.Bytes())
	}
	log, all := write(record.Options{HashTenants: true, HashLabels: true, HashKey: []byte("k")})
	for _, secret := range []string{"acme", "globex", "blue", "north"} {
		require.NotContains(t, log, secret)
	}
	require.Equal(t, policy.DefaultRule, all[1].Decision.Candidates[0].DroppedBy)
	require.True(t, all[0].Header.HashedTenants && all[0].Header.HashedLabels)
	tenant := all[1].Decision.Request.Tenant
	require.Regexp(t, "^#[0-9a-f]{16}$", tenant)
	require.NotEqual(t, tenant, all[2].Decision.Request.Tenant)
	require.Empty(t, all[3].Decision.Request.Tenant)
	require.Equal(t, all[1].Decision.Candidates[0].Labels, all[2].Decision.Prefill.Candidates[0].Labels)
	require.Len(t, all[1].Decision.Candidates[0].Labels, 2)

	_, same := write(record.Options{HashTenants: true, HashKey: []byte("k")})
	require.Equal(t, tenant, same[1].Decision.Request.Tenant)
	require.Equal(t, "blue", same[1].Decision.Candidates[0].Labels["team"])
	_, random := write(record.Options{HashTenants: true})
	require.NotEqual(t, tenant, random[1].Decision.Request.Tenant)
	_, labels := write(record.Options{HashLabels: true})
	require.Equal(t, "acme", labels[1].Decision.Request.Tenant)
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]record.Options{
		"negative":     {Buffer: -1},
		"use Open":     {MaxBytes: 1 << 20},
		"Sample -2":    {Sample: -2},
		"Keep -3":      {Keep: -3},
		"Timeout -1ns": {CloseTimeout: -1},
	} {
		_, err := record.New(io.Discard, o)
		require.ErrorContains(t, err, want)
	}
	_, err := record.New(nil, record.Options{})
	require.ErrorContains(t, err, "nil")
	_, err = record.Open(t.TempDir()+"/x", record.Options{MaxBytes: 100})
	require.ErrorContains(t, err, "at least 65536")
	_, err = record.Open(t.TempDir(), record.Options{})
	require.Error(t, err)
}

// On the path of a request an entry costs no memory but its place in the buffer.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	m := newMedium()
	r, err := record.New(m, record.Options{CloseTimeout: patient, Buffer: 2000})
	require.NoError(t, err)
	require.NoError(t, r.Flush(t.Context()))
	release := m.hang()
	r.OnDecision(decided(0))
	<-m.hung
	d := decided(1)
	o := ended(d)
	for range 1999 { // the buffer grows to its size, and is full
		r.OnDecision(d)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.OnDecision(d); r.OnOutcome(o) }))
	release()
	require.NoError(t, r.Close())
}

// wide is a decision over 64 candidates.
func wide() *kvsteer.Decision {
	d := decided(1)
	one, f := d.Candidates[0], d.Features[0]
	d.Candidates, d.Features = nil, nil
	for range 64 {
		d.Candidates, d.Features = append(d.Candidates, one), append(d.Features, f)
	}
	return d
}

// What a request pays.
func BenchmarkOnDecision(b *testing.B) {
	r, err := record.New(io.Discard, record.Options{CloseTimeout: patient})
	require.NoError(b, err)
	d := wide()
	b.ReportAllocs()
	for b.Loop() {
		r.OnDecision(d)
	}
	b.StopTimer()
	require.NoError(b, r.Close())
}

// What the Recorder's goroutine does for it.
func BenchmarkWrite(b *testing.B) {
	r, err := record.New(io.Discard, record.Options{CloseTimeout: patient})
	require.NoError(b, err)
	d := wide()
	b.ReportAllocs()
	for b.Loop() {
		r.OnDecision(d)
		require.NoError(b, r.Flush(b.Context()))
	}
	b.StopTimer()
	require.NoError(b, r.Close())
	s := r.Status()
	b.ReportMetric(float64(s.Bytes)/float64(s.Decisions), "bytes/decision")
}
