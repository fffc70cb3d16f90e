package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// diary records what a watcher is told.
type diary struct {
	mu    sync.Mutex
	lines []string
	busy  bool
}

func (d *diary) note(c fleet.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, c.Kind.String()+" "+c.Member.Name())
}

func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.lines
	d.lines = nil
	return out
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add("a", newEngine("m"))
		n.add("b", newEngine("m"))
		l := newLister()
		f := start(t, fleet.Options{Discoverer: l, HTTPClient: n.client()})
		a, b := fleet.Worker{Name: "a", URL: "http://a"}, fleet.Worker{Name: "b", URL: "http://b"}
		require.NoError(t, l.set(a))
		synctest.Wait()

		d := &diary{}
		stop := f.Watch(func(c fleet.Change) {
			// Both must work from here.
			_ = f.Snapshot().ForModel("m")
			_ = f.Drain("nobody", true)
			d.note(c)
		})
		synctest.Wait()
		assert.Equal(t, []string{"added a"}, d.take(), "those there are")

		require.NoError(t, l.set(a, b))
		synctest.Wait()
		assert.Equal(t, "added b", d.take()[0])
		assert.True(t, f.Snapshot().Member("b").Routable())

		a.URL = "http://b"
		require.NoError(t, l.set(a, b))
		synctest.Wait()
		assert.Equal(t, []string{"removed a", "added a"}, d.take()[:2], "the old instance goes first")

		require.NoError(t, f.Drain("b", true))
		synctest.Wait()
		assert.Equal(t, []string{"updated b"}, d.take())

		require.NoError(t, l.set(a, b))
		synctest.Wait()
		assert.Empty(t, d.take(), "the same list is no change")

		stop()
		stop()
		require.NoError(t, l.set())
		synctest.Wait()
		assert.Empty(t, d.take())
	})
}

// TestSlowWatcher: a watcher that is busy misses what undid itself meanwhile, is
// never called twice at once, and holds nobody up.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLister()
		f := start(t, fleet.Options{Discoverer: l, HTTPClient: newNetwork().client()})
		d := &diary{}
		gate := make(chan struct{})
		stop := f.Watch(func(c fleet.Change) {
			d.mu.Lock()
			assert.False(t, d.busy, "called concurrently")
			d.busy = true
			d.mu.Unlock()
			d.note(c)
			if c.Member.Name() == "first" && c.Kind == fleet.Added {
				<-gate
			}
			d.mu.Lock()
			d.busy = false
			d.mu.Unlock()
		})
		defer stop()
		require.NoError(t, l.set(fleet.Worker{Name: "first", URL: "http://a"}))
		synctest.Wait() // it stands at the gate
		for range 1000 {
			require.NoError(t, l.set(fleet.Worker{Name: "fleeting", URL: "http://a"}))
			require.NoError(t, l.set())
		}
		require.NoError(t, l.set(fleet.Worker{Name: "last", URL: "http://a"}))
		close(gate)
		synctest.Wait()
		lines := d.take()
		assert.Equal(t, []string{"added first", "removed first", "added last"}, lines[:3])
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		l := newLister()
		f := start(t, fleet.Options{Discoverer: l, HTTPClient: n.client()})
		w := fleet.Worker{Name: "w", URL: "http://a"}
		require.NoError(t, l.set(w))
		ready(t, f)
		m := f.Snapshot().Member("w")
		b := m.Begin(0, fleet.Work{})

		require.ErrorIs(t, f.Drain("x", true), fleet.ErrUnknownWorker)
		require.NoError(t, f.Drain("w", true))
		assert.Empty(t, f.Snapshot().ForModel("m"))
		assert.Equal(t, []string{"w"}, names(f.Snapshot().Serving("m")))
		assert.True(t, m.Healthy(), "draining is not ill health")
		assert.Equal(t, 1, m.InFlight(0).Requests)

		w.Epoch = "2"
		require.NoError(t, l.set(w))
		synctest.Wait()
		assert.True(t, f.Snapshot().Member("w").Draining(), "holds over a restart")
		require.NoError(t, f.Drain("w", false))
		assert.NotEmpty(t, f.Snapshot().ForModel("m"))

		w.Draining = true
		require.NoError(t, l.set(w))
		assert.Empty(t, f.Snapshot().ForModel("m"), "terminating but still ready")
		assert.True(t, b.End())
	})
}

func TestUnlistedIsOutThoughHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.add("a", newEngine("m"))
		l := newLister()
		f := start(t, fleet.Options{Discoverer: l, HTTPClient: n.client()})
		require.NoError(t, l.set(fleet.Worker{Name: "w", URL: "http://a"}))
		ready(t, f)
		m := f.Snapshot().Member("w")
		require.NoError(t, l.set())
		assert.Empty(t, f.Snapshot().Serving("m"))
		assert.True(t, m.Gone())
		assert.False(t, m.Routable())
	})
}

func TestWaitReadyNamesReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		e.health = http.StatusServiceUnavailable
		n.add("a", e)
		n.down("b", errRefused)
		f := start(t, fleet.Options{
			Discoverer:  fleet.Static(fleet.Worker{Name: "w1", URL: "http://a"}, fleet.Worker{Name: "w2", URL: "http://b"}),
			Discoverers: []fleet.Discoverer{failing{}},
			HTTPClient:  n.client(),
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := f.WaitReady(ctx)
		require.ErrorIs(t, err, fleet.ErrNotReady)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, want := range []string{`worker "w1" is unhealthy (/health answers with status 503)`, `"w2" is unhealthy (/health: dial tcp: connection refused)`, "inventory is down"} {
			assert.ErrorContains(t, err, want)
		}
	})
}

// TestDiscovererFails: it is called again at a measured pace, and the same error
// is news once.
func TestDiscovererFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []error
		f := start(t, fleet.Options{Discoverer: failing{}, OnError: func(err error) { reported = append(reported, err) }})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, reported, 1)
		require.ErrorContains(t, f.Err(), "inventory is down")
		assert.Equal(t, f.Status()[0].Err, reported[0])
		assert.GreaterOrEqual(t, time.Since(f.Status()[0].ErrAt), 59*time.Second)
	})
}

type failing struct{}

func (failing) Discover(context.Context, func([]fleet.Worker) error) error {
	return errors.New("inventory is down")
}

func TestClose(t *testing.T) {
	n := newNetwork()
	n.add("a", newEngine("m"))
	l := newLister()
	f, err := fleet.New(fleet.Options{Discoverer: l, HTTPClient: n.client()})
	require.NoError(t, err)
	require.NoError(t, l.set(fleet.Worker{Name: "w", URL: "http://a"}))
	ready(t, f)
	m := f.Snapshot().Member("w")
	b := m.Begin(0, fleet.Work{})
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.WaitReady(t.Context()), fleet.ErrClosed)
	f.Watch(func(fleet.Change) { t.Error("watching a closed fleet") })()
	m.ReportFailure(errRefused)
	assert.EqualValues(t, 1, f.InFlight())
	b.End()
	assert.Zero(t, f.InFlight())
}
