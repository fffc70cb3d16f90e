package trtllm

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"http://h:8000":                    "http://h:8000/kv_cache_events",
		"http://h:8000/":                   "http://h:8000/kv_cache_events",
		"https://h":                        "https://h/kv_cache_events",
		"http://h/engine/":                 "http://h/engine/kv_cache_events",
		"http://h/a%2Fb":                   "http://h/a%2Fb/kv_cache_events",
		"http://[::1]:8000":                "http://[::1]:8000/kv_cache_events",
		"http://h:8000/kv_cache_events":    "http://h:8000/kv_cache_events",
		"http://h:8000/kv_cache_events/":   "http://h:8000/kv_cache_events",
		"http://h:8000/x/kv_cache_events/": "http://h:8000/x/kv_cache_events",
	} {
		got, err := eventsURL(addr)
		require.NoError(t, err, addr)
		assert.Equal(t, want, got, addr)
	}
	for _, addr := range []string{
		"", "h:8000", "tcp://h:5557", "http://", "http://:8000", "://", "http://h:port",
		"http://user:secret@h", "http://h?secret=1", "http://h/?", "http://h#secret",
	} {
		_, err := new(Transport).Dial(t.Context(), follow.Endpoint{Events: addr})
		require.ErrorIs(t, err, ErrAddress, addr)
		assert.NotContains(t, err.Error(), "secret")
	}
	for _, rank := range []int{-1, maxRanks} {
		_, err := new(Transport).Dial(t.Context(), follow.Endpoint{Events: address, Rank: rank})
		require.ErrorIs(t, err, ErrAddress)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(Transport).Dial(ctx, follow.Endpoint{Events: address})
	require.ErrorIs(t, err, context.Canceled)
}

func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, stored("null", 1, 2))
		tr := &Transport{Client: e.client()}
		c := dial(t, tr, 0)
		m, err := recv(t, c)
		require.NoError(t, err)
		assert.Zero(t, m.Seq)
		assert.Empty(t, m.Topic)
		assert.True(t, strings.HasSuffix(string(m.Payload), `,"event_id":0,"data":`+created+`,"window_size":100}`), string(m.Payload))
		assert.Equal(t, []uint64{1}, recvIDs(t, c, 1))
		began := time.Now()
		e.add(removed(1), removed(2))
		assert.Equal(t, []uint64{2, 3}, recvIDs(t, c, 2))
		assert.Equal(t, DefaultInterval, time.Since(began))

		// Nothing to say is no reason to hurry, nor to end.
		polls := e.count()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Recv(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.InDelta(t, 50, e.count()-polls, 1)
		e.add(removed(3))
		assert.Equal(t, []uint64{4}, recvIDs(t, c, 1), "a receiver that gave up costs no event")

		require.ErrorIs(t, c.Replay(t.Context(), 0, nil), follow.ErrNoReplay)
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.Replay(ctx, 0, nil), context.Canceled)
	})
}

// A receiver whose time is up while a poll is under way must not abort it: the
// engine has emptied its buffer for it.
func TestReceiverDoesNotAbortPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.delay = 2 * time.Second // as the engine waits when it has nothing
		c := dial(t, &Transport{Client: e.client()}, 0)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := c.Recv(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		e.add(created)
		assert.Equal(t, []uint64{0}, recvIDs(t, c, 1))
	})
}

func TestIntervalIsBounded(t *testing.T) {
	t.Parallel()
	assert.Equal(t, DefaultInterval, new(Transport).interval())
	assert.Equal(t, MaxInterval, (&Transport{Interval: time.Hour}).interval())
	assert.Equal(t, 5*time.Millisecond, (&Transport{Interval: 5 * time.Millisecond}).interval())
}

func TestMethods(t *testing.T) {
	for _, allow := range []string{http.MethodPost, http.MethodGet} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.allow = allow
			e.add(created)
			c := dial(t, &Transport{Client: e.client()}, 0)
			assert.Equal(t, []uint64{0}, recvIDs(t, c, 1))
			e.add(removed(1))
			assert.Equal(t, []uint64{1}, recvIDs(t, c, 1))
			e.mu.Lock()
			defer e.mu.Unlock()
			assert.Equal(t, http.MethodPost, e.methods[0])
			assert.Equal(t, allow, e.methods[len(e.methods)-1])
			if allow == http.MethodGet {
				assert.Equal(t, []string{"POST", "GET", "GET"}, e.methods, "asked once only")
			}
		})
	}
}

func TestRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		tr := &Transport{Client: e.client()}
		e.addTo(0, created, removed(1))
		e.addTo(1, created)
		e.addTo(2, created)
		c0 := dial(t, tr, 0)
		synctest.Wait() // the first poll is over before the second rank is dialled
		require.Equal(t, 1, e.count())
		c1 := dial(t, tr, 1)
		assert.Equal(t, []uint64{0}, recvIDs(t, c1, 1), "kept for who dials later")
		assert.Equal(t, []uint64{0, 1}, recvIDs(t, c0, 2))

		_, err := tr.Dial(t.Context(), follow.Endpoint{Events: address + Path, Rank: 1})
		require.ErrorIs(t, err, ErrConsumed, "the same address, spelled otherwise")

		// Both get theirs from one poll; what names no rank is rank 0's.
		e.addTo(1, removed(5))
		e.addTo(0, removed(6))
		e.put(`{"event_id":2,"data":{"type":"removed","block_hashes":[]}}`)
		polls := e.count()
		assert.Equal(t, []uint64{1}, recvIDs(t, c1, 1))
		assert.Equal(t, []uint64{2, 2}, recvIDs(t, c0, 2))
		assert.Equal(t, polls+1, e.count())

		// Nobody ever asked for rank 2.
		time.Sleep(DefaultPatience)
		assert.Zero(t, c0.(*conn).Foreign())
		e.addTo(2, removed(1), removed(2))
		time.Sleep(time.Second)
		assert.Equal(t, int64(2), c0.(*conn).Foreign())
		c0.(*conn).source.mu.Lock()
		assert.Empty(t, c0.(*conn).source.lanes[2].queue)
		c0.(*conn).source.mu.Unlock()

		// A rank that is closed can be dialled again, and the others go on.
		require.NoError(t, c1.Close())
		_, err = c1.Recv(t.Context())
		require.ErrorIs(t, err, follow.ErrClosed)
		require.ErrorIs(t, c1.Replay(t.Context(), 0, nil), follow.ErrClosed)
		e.addTo(1, removed(7))
		e.addTo(0, removed(8))
		assert.Equal(t, []uint64{3}, recvIDs(t, c0, 1))
		assert.Equal(t, []uint64{2}, recvIDs(t, dial(t, tr, 1), 1))
	})
}

// A single connection takes what names no rank, whatever its own number.
func TestOnlyConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		c := dial(t, &Transport{Client: e.client()}, 3)
		synctest.Wait()
		e.add(created)
		e.addTo(3, removed(1))
		assert.Equal(t, []uint64{0, 0}, recvIDs(t, c, 2))
	})
}

// Over a real server: headers, chunks, and a Close that leaves nothing behind.
func TestOverHTTP(t *testing.T) {
	e := newEngine()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		resp, err := e.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		for range 3 {
			w.(http.Flusher).Flush()
		}
		b := make([]byte, 64<<10)
		for {
			n, err := resp.Body.Read(b)
			if _, werr := w.Write(b[:n]); err != nil || werr != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	tr := &Transport{Interval: time.Millisecond, Prepare: func(r *http.Request) { r.Header.Set("X-Key", "k") }}
	c, err := tr.Dial(t.Context(), follow.Endpoint{Events: server.URL})
	require.NoError(t, err)
	const events = 1000
	for i := range events {
		e.add(stored("null", i))
	}
	for i := range events {
		m, err := c.Recv(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(i), m.Seq)
	}
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	polls := e.count()
	c2, err := tr.Dial(t.Context(), follow.Endpoint{Events: server.URL})
	require.NoError(t, err)
	// An answer to the closed connection may still take an event or two with it.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			e.add(created)
			time.Sleep(time.Millisecond)
		}
	}()
	m, err := c2.Recv(ctx)
	require.NoError(t, err)
	cancel()
	assert.GreaterOrEqual(t, m.Seq, uint64(events))
	assert.Greater(t, e.count(), polls)
	require.NoError(t, c2.Close())
}

// Close ends a poll that the engine holds, and a Recv that waits.
func TestCloseInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.delay = time.Hour
		c := dial(t, &Transport{Client: e.client(), Timeout: 2 * time.Hour}, 0)
		got := make(chan error, 1)
		go func() {
			_, err := c.Recv(context.Background())
			got <- err
		}()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-got, follow.ErrClosed)
		assert.Zero(t, time.Since(began))
	})
}
