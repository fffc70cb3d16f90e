package kvsteer_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var (
	chaosSeed     = flag.Uint64("providers.seed", 7, "seed of TestChaosAtProviders")
	chaosRequests = flag.Int("providers.requests", 300, "requests of TestChaosAtProviders")
)

// dice is random numbers for many goroutines.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// mischief is what a provider does to a request: something of everything, whole answers most.
func (d *dice) mischief(number int64) providertest.Answer {
	a := providertest.Answer{Text: fmt.Sprintf("answer-%d is this one and no other", number)}
	switch d.n(12) {
	case 0:
		a.Fault = []providertest.Fault{
			providertest.RateLimited, providertest.Overloaded, providertest.ServerError, providertest.BadGateway, providertest.Hangup,
			providertest.ContentFiltered, providertest.BadRequest, providertest.ContextTooLong,
		}[d.n(8)]
		a.RetryAfter = time.Second
	case 1:
		a.Frames.DieAt = 1 + d.n(9)
	case 2:
		a.Frames.DieWithin = 1 + d.n(9)
	case 3:
		a.Frames.FailAt, a.Frames.Fault = 1+d.n(9), providertest.Overloaded
	case 4:
		a.Frames.StallAt = 2 + d.n(6)
	case 5:
		a.Delay = time.Duration(d.n(20)) * time.Millisecond
	case 6:
		a.NoUsage = true
	default:
	}
	return a
}

// Providers that fail in every way, and clients that leave whenever they like: no client gets
// two answers in one, nothing stays booked, and what is reserved is settled or given back,
// once.
func TestChaosAtProviders(t *testing.T) {
	t.Parallel()
	d := &dice{rng: rand.New(rand.NewPCG(*chaosSeed, *chaosSeed))}
	t.Logf("-providers.seed %d -providers.requests %d", *chaosSeed, *chaosRequests)
	var number atomic.Int64
	reply := func(*providertest.Request) providertest.Answer { return d.mischief(number.Add(1)) }
	var list []providers.Provider
	for _, p := range []struct {
		name string
		kind providers.Kind
		of   providertest.Dialect
	}{{"bedrock", providers.OpenAI{}, providertest.OpenAI}, {"databricks", providers.Anthropic{}, providertest.Anthropic}} {
		s := providertest.New(t, p.of, providertest.Options{Key: "k", Reply: reply})
		list = append(list, providers.Provider{
			Name: p.name, Kind: p.kind, URL: s.URL(), Credentials: providers.Static("k"), MaxConcurrent: 1000,
			Models: []providers.Model{{Name: testModel, Prices: &price.Prices{Input: 1_000_000, Output: 2_000_000}}},
		})
	}
	var skew atomic.Int64 // time runs faster for breakers than for us
	now := func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	set, err := providers.New(list, providers.Options{Now: now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	o := &outsiders{set: set}
	written := &book{}
	limits, err := quota.New(quota.Options{Rules: []quota.Rule{{Name: "all", Scope: quota.PerTenant, Concurrency: 1 << 20, Tokens: perMinute(1 << 31)}}})
	require.NoError(t, err)
	r := newScripted(t, rigConfig{
		transport: kvsteer.TransportOptions{IdleTimeout: 2 * time.Second, FirstByteTimeout: 10 * time.Second},
		options: []kvsteer.Option{
			kvsteer.WithPolicy(load(t, strings.Replace(burstPolicy, "      - {type: Local, minimize: PredictedTTFT}\n", "", 1))), // always outside
			kvsteer.WithProviders(set), kvsteer.WithTenancy(kvsteer.TenancyOptions{Ledger: written, Limits: limits}),
		},
	}, worker{serve: prompts(whole)})

	const senders = 8
	var group sync.WaitGroup
	var next, answered atomic.Int64
	for range senders {
		group.Go(func() {
			for next.Add(1) <= int64(*chaosRequests) {
				skew.Add(int64(2 * time.Second))
				if one := r.chaotic(d); one {
					answered.Add(1)
				}
			}
		})
	}
	group.Wait()
	require.Positive(t, answered.Load(), "some are served")
	r.idle()
	o.idle(t)
	require.Eventually(t, func() bool { return limits.Totals().Running == 0 }, wait, tick)
	written.closed(t)
	sums := limits.Totals()
	for i := range sums.Reserved {
		assert.Equal(t, sums.Reserved[i], sums.Settled[i]+sums.Refunded[i], "meter %d", i)
	}
	states := map[string][]ledger.State{}
	for _, e := range written.take() {
		key := fmt.Sprintf("%s/%d", e.ID, e.Attempt)
		states[key] = append(states[key], e.State)
	}
	settled := map[string]int{}
	for key, list := range states {
		require.Len(t, list, 2, "attempt %s: %v", key, list)
		require.Equal(t, ledger.Reserved, list[0])
		if list[1] == ledger.Settled {
			id, _, _ := strings.Cut(key, "/")
			settled[id]++
		}
	}
	for id, n := range settled {
		require.Equal(t, 1, n, "request %s is paid once", id)
	}
}

// chaotic sends one request, of which it may not read all, and reports whether it was answered.
func (r *rig) chaotic(d *dice) bool {
	path := []string{"/v1/chat/completions", "/v1/messages"}[d.n(2)]
	body := fmt.Sprintf(`{"model":"m","max_tokens":100,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, d.n(3) > 0)
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	if d.n(8) == 0 {
		time.AfterFunc(time.Duration(d.n(5000))*time.Microsecond, cancel)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.gateway.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.gateway.Client().Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	most := int64(1 << 20)
	if d.n(8) == 0 {
		most = int64(d.n(600))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	var which []string
	for _, m := range regexp.MustCompile(`answer-\d+`).FindAllString(string(text), -1) {
		if !slices.Contains(which, m) {
			which = append(which, m)
		}
	}
	assert.LessOrEqual(r.t, len(which), 1, "two answers in one: %v", which)
	assert.LessOrEqual(r.t, strings.Count(string(text), "event: message_start"), 1)
	assert.LessOrEqual(r.t, strings.Count(string(text), "data: [DONE]"), 1)
	if errors.Is(err, context.Canceled) {
		return false
	}
	return resp.StatusCode == http.StatusOK && len(which) == 1
}
