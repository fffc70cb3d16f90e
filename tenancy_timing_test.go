package kvsteer_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// How long the router takes with a prompt must tell a tenant nothing of whether another
// has sent it. Of pairs of a prompt that alice has sent and one that nobody has, each as
// long as the other and asked about in random order, the first is then faster in half of
// all, but for chance: of 200, in fewer than 56 or more than 144 once in 10^9 times. That
// this would show is seen from alice herself.
func TestTimingTellsNothingOfOtherTenants(t *testing.T) {
	t.Parallel()
	const pairs = 200
	r := newRig(t, rigConfig{
		engines: 1, engine: func(_ int, c *fleettest.Config) { c.Render = true },
		options: []kvsteer.Option{kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), Salter: testSalter(t)})},
	})
	r.waitJoined()
	rng := rand.New(rand.NewPCG(1, 2))
	request := func(key, kind string, i int) *kvsteer.Request {
		return &kvsteer.Request{
			API: kvsteer.ChatCompletions, Body: []byte(chatBody(fmt.Sprintf("%s %04d %s", kind, i, fleettest.Text(uint64(i), 500)), false)),
			Header: http.Header{"X-Test-Key": {key}},
		}
	}
	takes := func(q *kvsteer.Request) time.Duration {
		began := time.Now()
		_, err := r.router.Explain(t.Context(), q)
		require.NoError(t, err)
		return time.Since(began)
	}
	for _, who := range []string{"c", "a"} {
		faster := 0
		for i := range pairs {
			s, err := r.router.Select(t.Context(), request("a", "sent "+who, i))
			require.NoError(t, err)
			s.FirstToken()
			s.Done(kvsteer.Usage{})
			sent, unsent := request(who, "sent "+who, i), request(who, "none "+who, i)
			var first, second time.Duration
			if rng.IntN(2) == 0 {
				first, second = takes(sent), takes(unsent)
			} else {
				second, first = takes(unsent), takes(sent)
			}
			if first < second {
				faster++
			}
		}
		t.Logf("%s: what alice has sent is faster in %d of %d pairs", who, faster, pairs)
		if who == "a" {
			assert.Greater(t, faster, 144, "the test would not see a difference")
		} else {
			assert.InDelta(t, pairs/2, faster, 44)
		}
	}
}
