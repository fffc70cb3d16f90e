package trtllm

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Polls that fail for less than Patience cost nothing if no event is missing.
func TestShortFailures(t *testing.T) {
	for name, f := range map[string]fault{
		"refused": {refuse: true}, "overloaded": {status: http.StatusTooManyRequests},
		"redirect": {status: http.StatusFound}, "not yet": {status: http.StatusNotFound},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.add(created)
			tr := &Transport{Client: e.client()}
			c := dial(t, tr, 0)
			assert.Equal(t, []uint64{0}, recvIDs(t, c, 1))
			e.set(func() fault { return f })
			time.Sleep(DefaultPatience - 2*time.Second)
			e.set(nil)
			time.Sleep(10 * DefaultPatience) // nothing was taken out, so nothing is in doubt
			e.add(removed(1))
			assert.Equal(t, []uint64{1}, recvIDs(t, c, 1), name)
		})
	}
}

func TestUnreachable(t *testing.T) {
	for name, f := range map[string]fault{
		"refused": {refuse: true}, "reset": {reset: true}, "error": {status: http.StatusInternalServerError},
		"other server": {body: "<html>"}, "object": {body: `{"detail":[]}`}, "null": {body: "null"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			e.add(created)
			tr := &Transport{Client: e.client()}
			c := dial(t, tr, 0)
			assert.Equal(t, []uint64{0}, recvIDs(t, c, 1))
			e.set(func() fault { return f })
			polls, began := e.count(), time.Now()
			_, err := recv(t, c)
			require.ErrorIs(t, err, follow.ErrDisconnected, name)
			assert.InDelta(t, DefaultPatience.Seconds(), time.Since(began).Seconds(), 1.5, name)
			assert.Less(t, e.count()-polls, 16, "%s: the pause grows", name)
			_, err = recv(t, c)
			require.ErrorIs(t, err, follow.ErrDisconnected, name)
			polls = e.count()
			time.Sleep(time.Minute)
			assert.Equal(t, polls, e.count(), "%s: a lost connection polls no more", name)
			// Dialling again is possible before Close and after.
			e.set(nil)
			e.add(removed(1))
			again := dial(t, tr, 0)
			assert.Len(t, recvIDs(t, again, 1), 1)
			require.NoError(t, c.Close())
			e.add(removed(2))
			assert.Len(t, recvIDs(t, again, 1), 1)
			require.NoError(t, again.Close())
			e.add(removed(3))
			assert.Len(t, recvIDs(t, dial(t, tr, 0), 1), 1)
		})
	}
}

// An answer that is cut off brings the events that it has.
func TestTornAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, removed(1), removed(2))
		e.once(fault{keep: 200})
		c := dial(t, &Transport{Client: e.client()}, 0)
		assert.Equal(t, []uint64{0, 1}, recvIDs(t, c, 2))
		// The next number shows the gap, and ends the doubt.
		e.add(removed(3))
		assert.Equal(t, []uint64{3}, recvIDs(t, c, 1))
		time.Sleep(10 * DefaultPatience)
		e.add(removed(4))
		assert.Equal(t, []uint64{4}, recvIDs(t, c, 1))
	})
}

// An engine that is silent after a torn answer may have said its last in it.
func TestTornThenSilent(t *testing.T) {
	for name, f := range map[string]fault{
		"reset": {reset: true}, "500": {status: http.StatusInternalServerError}, "short": {body: "["}, "page": {body: "<html>"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			tr := &Transport{Client: e.client()}
			e.addTo(0, created)
			e.addTo(1, created)
			c0, c1 := dial(t, tr, 0), dial(t, tr, 1)
			recvIDs(t, c0, 1)
			recvIDs(t, c1, 1)
			e.once(f)
			time.Sleep(time.Second)
			e.addTo(1, removed(1))
			assert.Equal(t, []uint64{1}, recvIDs(t, c1, 1))
			began := time.Now()
			_, err := recv(t, c0)
			require.ErrorIs(t, err, follow.ErrDisconnected, name)
			assert.InDelta(t, DefaultPatience.Seconds()-1, time.Since(began).Seconds(), 1, name)
			// The rank that was heard of goes on.
			e.addTo(1, removed(2))
			assert.Equal(t, []uint64{2}, recvIDs(t, c1, 1))
			// And the other one can be dialled again.
			require.NoError(t, c0.Close())
			e.addTo(0, removed(2))
			assert.Equal(t, []uint64{1}, recvIDs(t, dial(t, tr, 0), 1))
		})
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.delay = time.Hour
		c := dial(t, &Transport{Client: e.client(), Timeout: 20 * time.Second}, 0)
		began := time.Now()
		_, err := recv(t, c)
		require.ErrorIs(t, err, follow.ErrDisconnected)
		assert.Equal(t, 20*time.Second, time.Since(began))
	})
}

// The events of two processes are told apart although they are the same.
func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		c := dial(t, &Transport{Client: e.client()}, 0)
		life := func(n int) (payloads []string, epochs []int64) {
			for i := range n {
				if i == 0 {
					e.add(created)
				} else {
					e.add(stored("null", 1))
				}
			}
			for range n {
				m, err := recv(t, c)
				require.NoError(t, err)
				payloads = append(payloads, string(m.Payload))
				epochs = append(epochs, epochOf(m.Payload))
			}
			return payloads, epochs
		}
		first, epochs := life(2)
		assert.Equal(t, epochs[0], epochs[1])
		assert.Positive(t, epochs[0])
		e.restart()
		second, again := life(2)
		assert.Greater(t, again[0], epochs[0])
		assert.Equal(t, again[0], again[1])
		for i := range first {
			assert.NotEqual(t, first[i], second[i])
			assert.Equal(t, first[i][len(`{"kvsteer_epoch":1234567890123456789,`):], second[i][len(`{"kvsteer_epoch":1234567890123456789,`):])
		}
		// Twice within one answer, and at the very same number.
		e.restart()
		e.add(created)
		e.mu.Lock()
		e.next = map[int]uint64{}
		e.mu.Unlock()
		e.add(created)
		m1, err := recv(t, c)
		require.NoError(t, err)
		m2, err := recv(t, c)
		require.NoError(t, err)
		assert.Greater(t, epochOf(m1.Payload), again[1])
		assert.Greater(t, epochOf(m2.Payload), epochOf(m1.Payload))
	})
}

// Who dials again may meet another process, whatever its first number.
func TestEpochsOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		tr := &Transport{Client: e.client()}
		var epochs []int64
		for range 2 {
			e.add(removed(1), removed(2))
			e.drop(1)
			c := dial(t, tr, 0)
			m, err := recv(t, c)
			require.NoError(t, err)
			epochs = append(epochs, epochOf(m.Payload))
			require.NoError(t, c.Close())
			time.Sleep(time.Second)
		}
		assert.Positive(t, epochs[0])
		assert.Greater(t, epochs[1], epochs[0])
	})
}

// Neither an answer nor a slow receiver makes memory grow beyond the bound; what
// is left out shows as a gap.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		c := dial(t, &Transport{Client: e.client(), MaxReply: 1000}, 0)
		synctest.Wait()
		for range 100 {
			e.add(removed(1))
		}
		time.Sleep(time.Second) // one answer, cut at the bound
		e.add(removed(1))
		ids := recvIDs(t, c, 2)
		for ids[len(ids)-1] != 100 {
			ids = append(ids, recvIDs(t, c, 1)...)
		}
		assert.Less(t, len(ids), 20)
		assert.Equal(t, uint64(len(ids)-2), ids[len(ids)-2], "the first ones")

		for range 100 { // many answers, nobody receives
			e.add(removed(1))
			time.Sleep(time.Second)
		}
		c.(*conn).source.mu.Lock()
		assert.LessOrEqual(t, c.(*conn).lane.bytes, int64(1000))
		assert.Less(t, len(c.(*conn).lane.queue), 20)
		c.(*conn).source.mu.Unlock()
		assert.Equal(t, uint64(101), recvIDs(t, c, 1)[0])
	})
}

// What waits is a few bytes of an answer that may be as large as MaxReply, most of
// it for ranks that nobody follows: it must not hold on to the rest.
func TestQueueHoldsNoAnswers(t *testing.T) {
	t.Parallel()
	s := &source{t: &Transport{}, lanes: map[int]*lane{}, patience: DefaultPatience}
	answer := []byte(`[{"event_id":7}]`)
	how, bad := split(answer, func(ev event) { s.push(ev, time.Now()) })
	require.Equal(t, endComplete, how)
	require.Zero(t, bad)
	clear(answer)
	l := s.lanes[0]
	require.Len(t, l.queue, 1)
	assert.Contains(t, string(l.queue[0].Payload), `"event_id":7`)
	assert.Equal(t, int64(len(`{"event_id":7}`)), l.bytes)
}

func TestElementsWithoutNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := newEngine()
		e.add(created)
		e.put(`{}`)
		e.put(`{"event_id":"secret"}`)
		e.add(removed(1))
		c := dial(t, &Transport{Client: e.client(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, 0)
		assert.Equal(t, []uint64{0, 1}, recvIDs(t, c, 2))
		assert.Equal(t, int64(2), c.(*conn).Malformed())
		require.NoError(t, c.Close())
		assert.Contains(t, log.String(), "elements=2")
		assert.NotContains(t, log.String(), "secret")
	})
}

// An engine does not send its poller elsewhere, whosever client it is.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, c := range []*http.Client{newClient(), staying(&http.Client{})} {
		require.ErrorIs(t, c.CheckRedirect(nil, nil), http.ErrUseLastResponse)
	}
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	require.Same(t, own, staying(own))
	var given http.Client
	tr := &Transport{Client: &given}
	s := newSource(tr, "http://127.0.0.1:1")
	defer func() { s.cancel(); <-s.done }()
	require.ErrorIs(t, s.client.CheckRedirect(nil, nil), http.ErrUseLastResponse)
	require.Nil(t, given.CheckRedirect, "the user's is as it was")
}
