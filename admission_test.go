package kvsteer_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// book is a Ledger in memory.
type book struct {
	mu   sync.Mutex
	all  []ledger.Record
	open int // what is reserved and not yet settled or voided
	full bool
}

func (b *book) Append(r *ledger.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		return errors.New("the disk is full")
	}
	b.all = append(b.all, *r)
	if r.State == ledger.Reserved {
		b.open++
	} else {
		b.open--
	}
	return nil
}

// closed waits until all that was reserved is settled or voided: a request is in flight
// no more, and its tokens are given back, a moment before that is written.
func (b *book) closed(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.open == 0
	}, wait, tick)
}

// take returns what was appended since it was last called.
func (b *book) take() []ledger.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}

func (b *book) states() (states []ledger.State) {
	for _, r := range b.take() {
		states = append(states, r.State)
	}
	return states
}

// metered is a rig with limits and a ledger, in front of workers.
type metered struct {
	*rig

	book   *book
	limits *quota.Limiter
	clock  *testClock
}

func newMetered(t *testing.T, rules []quota.Rule, c kvsteer.TenancyOptions, workers ...worker) *metered {
	t.Helper()
	m := &metered{book: &book{}, clock: newClock()}
	var err error
	m.limits, err = quota.New(quota.Options{Rules: rules, Now: m.clock.now})
	require.NoError(t, err)
	prices, err := price.New([]price.Entry{{Model: testModel, Prices: price.Prices{Input: 2_000_000, Output: 10_000_000}}}, nil)
	require.NoError(t, err)
	c.Identify, c.Limits, c.Ledger, c.Prices = testIdentities(), m.limits, m.book, prices
	m.rig = newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithTenancy(c)}}, workers...)
	return m
}

// balanced checks that nothing is reserved any more, and that the sums agree.
func (m *metered) balanced() {
	m.t.Helper()
	m.idle()
	require.Eventually(m.t, func() bool { return m.limits.Totals().Running == 0 }, wait, tick)
	m.book.closed(m.t)
	s := m.limits.Totals()
	for i := range s.Reserved {
		assert.Equal(m.t, s.Reserved[i], s.Settled[i]+s.Refunded[i], "meter %d", i)
	}
}

func perMinute(n int64) quota.Rate { return quota.Rate{Amount: n} }

func TestLimitsRefuse(t *testing.T) {
	t.Parallel()
	m := newMetered(t, []quota.Rule{{Name: "two", Scope: quota.PerTenant, Requests: perMinute(2)}}, kvsteer.TenancyOptions{},
		worker{serve: prompts(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-RateLimit-Remaining-Requests", "a provider's own")
			whole(w, r)
		})})
	body := chatBody("hi", false)
	first := m.as("a", "/v1/chat/completions", body)
	require.Equal(t, http.StatusOK, first.status)
	assert.Equal(t, []string{"2", "1", "30s"}, []string{
		first.header.Get("X-Ratelimit-Limit-Requests"), first.header.Get("X-Ratelimit-Remaining-Requests"), first.header.Get("X-Ratelimit-Reset-Requests"),
	})
	second := m.as("a", "/v1/messages", body)
	require.Equal(t, http.StatusOK, second.status)
	assert.Equal(t, "0", second.header.Get("Anthropic-Ratelimit-Requests-Remaining"))
	assert.Empty(t, second.header.Values("X-Ratelimit-Remaining-Requests"), "not another gateway's, nor another dialect")
	at, err := time.Parse(time.RFC3339, second.header.Get("Anthropic-Ratelimit-Requests-Reset"))
	require.NoError(t, err)
	assert.WithinDuration(t, m.clock.now().Add(time.Minute), at, 2*time.Second)

	m.clock.advance(10*time.Second + 1500*time.Microsecond)
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/rerank"} {
		no := m.as("a", path, body)
		require.Equal(t, http.StatusTooManyRequests, no.status, path)
		assert.Equal(t, []string{"20", "19999"}, []string{no.header.Get("Retry-After"), no.header.Get("Retry-After-Ms")})
		assert.Contains(t, no.body, "rate_limit_error")
		assert.Contains(t, no.body, `tenant \"alice\"`, "the scope that refused")
		if path == "/v1/messages" {
			assert.Equal(t, "0", no.header.Get("Anthropic-Ratelimit-Requests-Remaining"))
			continue
		}
		assert.Equal(t, []string{"2", "0", "19.999s"}, []string{
			no.header.Get("X-Ratelimit-Limit-Requests"), no.header.Get("X-Ratelimit-Remaining-Requests"), no.header.Get("X-Ratelimit-Reset-Requests"),
		})
	}
	require.Equal(t, http.StatusOK, m.as("c", "/v1/chat/completions", body).status, "another tenant's limit is another")
	require.Equal(t, http.StatusOK, m.as("", "/v1/chat/completions", body).status, "so is that of all whom nobody knows")
	m.clock.advance(19999 * time.Millisecond)
	require.Equal(t, http.StatusOK, m.as("a", "/v1/rerank", body).status, "a forwarded request counts like any other")
	m.balanced()
	assert.Len(t, m.observed.rejections(), 2)
}

func TestLimitsThatNeverLetThrough(t *testing.T) {
	t.Parallel()
	m := newMetered(t, []quota.Rule{
		{Name: "none", Tenants: []string{"carol"}, Scope: quota.PerTenant, Deny: true},
		{Name: "small", Scope: quota.PerTenant, Input: perMinute(1)},
	}, kvsteer.TenancyOptions{}, worker{serve: prompts(whole)})
	for key, want := range map[string]int{"a": http.StatusRequestEntityTooLarge, "c": http.StatusForbidden} {
		no := m.as(key, "/v1/chat/completions", chatBody("a prompt of several tokens", false))
		assert.Equal(t, want, no.status, no.body)
		assert.Empty(t, no.header.Values("Retry-After"), "clients must not try again")
	}
	m.balanced()
	assert.Empty(t, m.book.take(), "what was refused is not recorded")
}

func TestSettlesWhatWasUsed(t *testing.T) {
	t.Parallel()
	begin := `{"choices":[{"delta":{"content":"x"}}]}`
	cut := func(w http.ResponseWriter, r *http.Request) {
		sseEvents(begin, begin, begin)(w, r)
		panic(http.ErrAbortHandler)
	}
	usage := `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60}}}`
	for name, c := range map[string]struct {
		serve  http.HandlerFunc
		stream bool
		want   ledger.Record
	}{
		"reported": {
			sseEvents(begin, usage, "[DONE]"), true,
			ledger.Record{State: ledger.Settled, Source: ledger.Provider, Uncached: 40, Cached: 60, CachedKnown: true, Output: 20, Cost: 400},
		},
		"whole": {
			whole, false,
			ledger.Record{State: ledger.Settled, Source: ledger.Provider, Uncached: 3, Output: 1, Cost: 16},
		},
		"not reported": {
			sseEvents(begin, begin, "[DONE]"), true,
			ledger.Record{State: ledger.Settled, Source: ledger.Stream, Uncached: 2, Output: 2, Cost: 24},
		},
		"broken off": {
			cut, true,
			ledger.Record{State: ledger.Settled, Source: ledger.Stream, Uncached: 2, Output: 3, Cost: 34},
		},
		"neither reported nor counted": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hi")) }, false,
			ledger.Record{State: ledger.Settled, Source: ledger.Estimate, Uncached: 2, Output: 7, Cost: 74},
		},
		"refused by the worker": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, false,
			ledger.Record{State: ledger.Voided},
		},
		"failed": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false,
			ledger.Record{State: ledger.Voided},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMetered(t, []quota.Rule{{Name: "tokens", Scope: quota.PerKey, Tokens: perMinute(1000)}}, kvsteer.TenancyOptions{}, worker{serve: prompts(c.serve)})
			body := `{"model":"m","prompt":"hello!","max_tokens":7}`
			if c.stream {
				body = `{"model":"m","prompt":"hello!","max_tokens":7,"stream":true}`
			}
			m.as("a", "/v1/completions", body)
			m.balanced()
			all := m.book.take()
			require.Len(t, all, 2)
			was, is := all[0], all[1]
			assert.Equal(t, ledger.Record{
				ID: was.ID, Attempt: 1, State: ledger.Reserved, At: was.At, Org: "acme", Team: "blue", Tenant: "alice", Key: "k1", Class: "gold",
				Model: "m", Served: "m", Worker: "s0", Uncached: 2, Output: 7, Cost: 74,
			}, was)
			want := was
			want.State, want.At, want.Source, want.Cost = c.want.State, is.At, c.want.Source, c.want.Cost
			want.Uncached, want.Cached, want.CachedKnown, want.Output = c.want.Uncached, c.want.Cached, c.want.CachedKnown, c.want.Output
			assert.Equal(t, want, is)
			assert.Equal(t, c.want.Cost, m.observed.lastOutcome(t).Cost)
			// The limit has what was used less, and no more.
			d := quota.Demand{Key: "k1", Input: 1000 - c.want.Uncached - c.want.Cached - c.want.Output}
			hold, err := m.limits.Admit(t.Context(), &d)
			require.NoError(t, err)
			hold.Refund()
			d.Input++
			_, err = m.limits.Admit(t.Context(), &d)
			require.Error(t, err)
		})
	}
}

func TestEachAttemptIsRecorded(t *testing.T) {
	t.Parallel()
	fail := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	m := newMetered(t, nil, kvsteer.TenancyOptions{}, worker{serve: prompts(fail)}, worker{serve: prompts(fail)}, worker{serve: prompts(whole)})
	for range 8 {
		require.Equal(t, http.StatusOK, m.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
	}
	m.balanced()
	ids, worst := map[string]int{}, 0
	for _, r := range m.book.take() {
		if r.State == ledger.Reserved {
			ids[r.ID]++
			assert.Equal(t, ids[r.ID], r.Attempt)
			worst = max(worst, r.Attempt)
			continue
		}
		assert.Equal(t, ids[r.ID], r.Attempt, "the one before is over when the next begins")
		assert.Equal(t, r.Worker == "s2", r.State == ledger.Settled)
	}
	assert.Len(t, ids, 8)
	assert.Greater(t, worst, 1)
}

func TestForgottenAndCanceledRequestsAreSettled(t *testing.T) {
	t.Parallel()
	m := newMetered(t, []quota.Rule{{Name: "at a time", Scope: quota.Everybody, Concurrency: 1}}, kvsteer.TenancyOptions{}, worker{serve: prompts(whole)})
	q := func() *kvsteer.Request {
		r := chatRequest("hi", true)
		r.Header = http.Header{"X-Test-Key": {"a"}}
		return r
	}
	s, err := m.router.Select(t.Context(), q())
	require.NoError(t, err)
	_, err = m.router.Select(t.Context(), q())
	require.Equal(t, kvsteer.CodeLimited, kvsteer.CodeOf(err))
	var no *quota.Error
	require.ErrorAs(t, err, &no)
	assert.Equal(t, quota.Concurrency, no.Meter)
	_, err = m.router.Explain(t.Context(), q())
	require.NoError(t, err, "a dry run takes nothing")
	s.Abort(nil)
	s.Done(kvsteer.Usage{Known: true, Output: 5}) // too late
	assert.Equal(t, []ledger.State{ledger.Reserved, ledger.Voided}, m.book.states())

	s, err = m.router.Select(t.Context(), q())
	require.NoError(t, err)
	s.FirstToken()
	s.Abort(errors.New("gone"))
	last := m.book.take()
	require.Len(t, last, 2)
	assert.Equal(t, []any{ledger.Settled, ledger.Estimate}, []any{last[1].State, last[1].Source}, "something was served, nobody counted")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.router.Select(ctx, q())
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(err))
	m.balanced()
	assert.Empty(t, m.book.take())
}

func TestNobodyToServeGivesBack(t *testing.T) {
	t.Parallel()
	m := newMetered(t, []quota.Rule{{Name: "one", Scope: quota.Everybody, Requests: quota.Rate{Amount: 1, Per: 24 * time.Hour}}}, kvsteer.TenancyOptions{}, worker{serve: prompts(whole), models: []string{testModel}})
	q := chatRequest("hi", false)
	q.Tenant, q.Among = "x", []string{"nobody"}
	_, err := m.router.Select(t.Context(), q)
	require.Error(t, err)
	require.Equal(t, http.StatusOK, m.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
	m.balanced()
}

func TestLedgerThatDoesNotTake(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{false, true} {
		m := newMetered(t, []quota.Rule{{Name: "n", Scope: quota.Everybody, Concurrency: 1}}, kvsteer.TenancyOptions{RefuseUnrecorded: refuse}, worker{serve: prompts(whole)})
		m.book.full = true
		want := http.StatusOK
		if refuse {
			want = http.StatusServiceUnavailable
		}
		for range 2 {
			require.Equal(t, want, m.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
			m.balanced()
		}
	}
}

// down is Limits that can't be reached.
type down struct{}

func (down) Admit(context.Context, *quota.Demand) (quota.Hold, error) {
	return nil, errors.New("dial tcp 10.1.2.3: refused")
}

func TestLimitsThatCantBeReached(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithTenancy(kvsteer.TenancyOptions{Limits: down{}})}}, worker{serve: prompts(whole)})
	no := r.post("/v1/chat/completions", chatBody("hi", false))
	assert.Equal(t, http.StatusServiceUnavailable, no.status)
	assert.NotContains(t, no.body, "10.1.2.3")
	r.idle()
}

func TestAnswersAreLearnt(t *testing.T) {
	t.Parallel()
	m := newMetered(t, nil, kvsteer.TenancyOptions{}, worker{serve: prompts(whole)})
	for range 20 {
		require.Equal(t, http.StatusOK, m.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
	}
	m.balanced()
	all := m.book.take()
	assert.EqualValues(t, 512, all[0].Output, "nothing is known yet")
	assert.EqualValues(t, 1, all[len(all)-2].Output)
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	m := newMetered(t, []quota.Rule{{Name: "day", Scope: quota.PerTeam, Budget: quota.Budget{Money: 100, Period: quota.Day, SoftAt: 50}}},
		kvsteer.TenancyOptions{Outputs: &quota.Outputs{Unknown: 1}}, worker{serve: prompts(whole)})
	body := `{"model":"m","prompt":"hello!"}`
	var softly, served int
	var last answer
	for range 20 { // of 16 millionths each
		if last = m.as("a", "/v1/completions", body); last.status != http.StatusOK {
			break
		}
		served++
		if h := last.header.Get(kvsteer.HeaderBudget); h != "" {
			softly++
			assert.Regexp(t, `^rule="day"; scope="team"; who="blue"; spent=\d+; limit=100; unit=money; reset=\d{4}-\d\d-\d\dT00:00:00Z$`, h)
		}
	}
	assert.Equal(t, []int{6, 3}, []int{served, softly})
	assert.Equal(t, http.StatusTooManyRequests, last.status, "the next would be the 101st")
	assert.NotEmpty(t, last.header.Get("Retry-After"))
	for _, part := range []string{"day", "blue", "96", "100", "T00:00:00Z"} {
		assert.Contains(t, last.body, part, "rule, scope, spent, limit and reset")
	}
	m.balanced()
}

// What is reserved is sane, whatever a client says of the length of its answers.
func TestEstimates(t *testing.T) {
	t.Parallel()
	m := newMetered(t, nil, kvsteer.TenancyOptions{}, worker{serve: prompts(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest) // nothing is learned from that
	})})
	for _, c := range []struct {
		path, fields string
		want         int64
	}{
		{"/v1/chat/completions", ``, 512},
		{"/v1/chat/completions", `,"max_tokens":999999999`, 512},
		{"/v1/chat/completions", `,"max_tokens":999999999999999999999999`, 512},
		{"/v1/chat/completions", `,"max_tokens":-5`, 512},
		{"/v1/chat/completions", `,"max_tokens":"7"`, 7}, // engines read it as a number
		{"/v1/chat/completions", `,"max_tokens":null`, 512},
		{"/v1/chat/completions", `,"max_tokens":7`, 7},
		{"/v1/chat/completions", `,"max_tokens":1,"max_completion_tokens":100000`, 512},
		{"/v1/chat/completions", `,"max_tokens":100000,"max_completion_tokens":3`, 512}, // engines differ
		{"/v1/completions", `,"prompt":"x","max_completion_tokens":1,"max_tokens":400`, 400},
		{"/v1/messages", `,"max_completion_tokens":1,"max_tokens":400`, 400},
		{"/v1/responses", `,"max_tokens":1,"max_output_tokens":400`, 400},
		{"/v1/chat/completions", `,"min_tokens":100000`, 100000},
		{"/v1/chat/completions", `,"n":"8"`, 8 * 512},
		{"/v1/completions", `,"prompt":["a","b","c"],"n":2,"max_tokens":5`, 30},
		{"/v1/completions", `,"prompt":[[1,2],[3]],"max_tokens":5`, 10},
		{"/v1/completions", `,"prompt":[1,2,3],"max_tokens":5`, 5},
		{"/v1/chat/completions", `,"n":8`, 8 * 512},
		{"/v1/chat/completions", `,"n":8,"max_tokens":2`, 16},
		{"/v1/chat/completions", `,"n":1000`, 1000 * 512},
		{"/v1/chat/completions", `,"n":1000000`, 1 << 14 * 512},
		{"/v1/chat/completions", `,"n":-1`, 512},
		{"/v1/completions", `,"prompt":"x","n":2,"best_of":3`, 3 * 512},
		{"/v1/messages", `,"n":8,"max_tokens":9`, 9},
		{"/v1/responses", `,"max_output_tokens":11`, 11},
		{"/v1/embeddings", `,"max_tokens":9`, 0},
	} {
		m.as("a", c.path, `{"model":"m","messages":[{"role":"user","content":"x"}],"input":"x"`+c.fields+`}`) // the last one counts
		all := m.book.take()
		require.NotEmpty(t, all, "%s %s", c.path, c.fields)
		assert.Equal(t, c.want, all[0].Output, "%s %s", c.path, c.fields)
	}
}

// share is Limits that let through what they can't decide about.
type share struct{}

type shared struct{ quota.Hold }

func (shared) Degraded() string                            { return "redis: unavailable: allowed" }
func (shared) Settle(quota.Used) bool                      { return true }
func (shared) Refund() bool                                { return true }
func (shared) Soft() []quota.Notice                        { return nil }
func (shared) Standing(quota.Meter) (quota.Standing, bool) { return quota.Standing{}, false }

func (share) Admit(context.Context, *quota.Demand) (quota.Hold, error) { return shared{}, nil }

// What is less than certain is in the decision, and in the log, where keys and tokens are not.
func TestLessThanCertainIsSaid(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	prices, err := price.New(nil, nil)
	require.NoError(t, err)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), Limits: share{}, Prices: prices, RefuseUnverified: true}),
	}}, worker{serve: prompts(whole)})
	require.Equal(t, http.StatusOK, r.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
	d := r.observed.lastOutcome(t).Decision
	assert.Contains(t, d.Degradations, "limits: redis: unavailable: allowed")
	assert.Contains(t, d.Degradations, "cost: the model has no price, so it counts as free")
	require.Equal(t, http.StatusUnauthorized, r.as("canary-key", "/v1/chat/completions", chatBody("hi", false)).status)
	for _, said := range []string{"redis: unavailable: allowed", "has no price", "no such key"} {
		assert.Contains(t, log.String(), said)
	}
	assert.NotContains(t, log.String(), "canary-key")
}

func TestErrorsSayThingsOnce(t *testing.T) {
	t.Parallel()
	m := newMetered(t, []quota.Rule{{Name: "one", Scope: quota.Everybody, Requests: perMinute(1)}}, kvsteer.TenancyOptions{}, worker{serve: prompts(whole)})
	q := chatRequest("hi", false)
	q.Tenant = "x"
	s, err := m.router.Select(t.Context(), q)
	require.NoError(t, err)
	s.Done(kvsteer.Usage{})
	_, err = m.router.Select(t.Context(), q)
	assert.Equal(t, 1, strings.Count(err.Error(), `rule "one"`), err)
}
