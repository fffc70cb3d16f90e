package providers

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// limited is a service that refuses all, or counts what comes sooner than it can be known
// to bear.
type limited struct {
	refuses             bool
	now, no, taken, bad atomic.Int64
}

func (l *limited) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := l.now.Add(1)
	defer l.now.Add(-1)
	if l.refuses {
		l.no.Add(1)
		w.Header().Set("Retry-After", "300")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`)
		return
	}
	// One more at a time for each that was served.
	if n > firstLimit+l.taken.Load() {
		l.bad.Add(1)
	}
	time.Sleep(2 * time.Millisecond) // so that there are several at once
	l.taken.Add(1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"model":"theirs"}`)
}

// 200 clients at once meet a provider that refuses nearly all: the next one gets no more
// at a time than it is known to bear, and everybody is served in the end.
func TestStormDoesNotStampedeTheNext(t *testing.T) {
	const clients = 200
	first, second := &limited{refuses: true}, &limited{}
	list := make([]Provider, 2)
	for i, l := range []*limited{first, second} {
		svc := serve(t, l.ServeHTTP)
		list[i] = Provider{Name: string(rune('a' + i)), Kind: OpenAI{}, URL: svc.URL, Models: []Model{{Name: "ours", Upstream: "theirs"}}}
	}
	set := newSet(t, Options{}, list...)
	base := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(base.CloseIdleConnections)

	var pick sync.Mutex // as the router has one
	free := sync.NewCond(&pick)
	book := func() (*Offer, *Booking) {
		pick.Lock()
		defer pick.Unlock()
		for {
			for _, o := range set.Offers("ours") {
				if o.Standing(time.Now()).Ready {
					b := o.Begin(10, 10)
					return o, b
				}
			}
			free.Wait()
		}
	}
	attempt := func() bool {
		o, b := book()
		defer free.Broadcast()
		defer b.End()
		resp, err := o.RoundTripper(base, Exchange{API: chat, Booking: b}).RoundTrip(newRequest(t, t.Context(), chat, `{"model":"ours"}`))
		if err != nil {
			t.Error(err)
			return true
		}
		_, err = io.Copy(io.Discard, resp.Body)
		assert.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for served := false; !served; {
				served = attempt()
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, first.no.Load(), int64(firstLimit), "only those that were under way before the first refusal")
	assert.Equal(t, int64(clients), second.taken.Load())
	assert.Zero(t, second.bad.Load(), "it got more at a time than it was known to bear")
	for _, o := range set.All() {
		require.Zero(t, o.Standing(time.Now()).InFlight)
	}
}
