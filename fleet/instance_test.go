package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// TestNewInstance: what makes a new Member of the same name, and what doesn't.
func TestNewInstance(t *testing.T) {
	base := fleet.Worker{Name: "w", URL: "http://a", Models: []string{"m"}}
	cases := []struct {
		name     string
		change   func(w *fleet.Worker, e *engine, n *network)
		instance bool
	}{
		{"nothing", func(*fleet.Worker, *engine, *network) {}, false},
		{"labels", func(w *fleet.Worker, _ *engine, _ *network) { w.Labels = map[string]string{"a": "b"} }, false},
		{"draining", func(w *fleet.Worker, _ *engine, _ *network) { w.Draining = true }, false},
		{"url's last slash", func(w *fleet.Worker, _ *engine, _ *network) { w.URL = "http://a/" }, false},
		{"url", func(w *fleet.Worker, _ *engine, _ *network) { w.URL = "http://b" }, true},
		{"epoch", func(w *fleet.Worker, _ *engine, _ *network) { w.Epoch = "2" }, true},
		{"ranks", func(w *fleet.Worker, _ *engine, _ *network) { w.DataParallel = 2 }, true},
		{"events", func(w *fleet.Worker, _ *engine, _ *network) { w.Events = []follow.Endpoint{{Events: "tcp://a:5557"}} }, true},
		{"process start time", func(_ *fleet.Worker, e *engine, _ *network) { e.metrics = metricsText(2000, 0, 0, 10) }, true},
		{"start time drifts", func(_ *fleet.Worker, e *engine, _ *network) { e.metrics = metricsText(1001, 0, 0, 10) }, false},
		{"start time falls", func(_ *fleet.Worker, e *engine, _ *network) { e.metrics = metricsText(500, 0, 0, 10) }, false},
		{"counters grow", func(_ *fleet.Worker, e *engine, _ *network) { e.metrics = metricsText(1000, 5, 5, 900) }, false},
		{"counters fall, no start time", func(_ *fleet.Worker, e *engine, _ *network) {
			e.metrics = strings.ReplaceAll(metricsText(0, 0, 0, 3), "process_start", "other")
		}, true},
		{"adapter appears", func(_ *fleet.Worker, e *engine, _ *network) { e.models = modelsJSON("m", "x<m") }, false},
		{"other base model", func(_ *fleet.Worker, e *engine, _ *network) { e.models = modelsJSON("z") }, true},
		{"refused, then the same process", func(_ *fleet.Worker, _ *engine, n *network) {
			n.down("a", errRefused)
			time.Sleep(7 * time.Second)
			n.down("a", nil)
		}, false},
		{"refused, then no start time", func(_ *fleet.Worker, e *engine, n *network) {
			n.down("a", errRefused)
			time.Sleep(7 * time.Second)
			e.set(func(e *engine) { e.metrics = "" })
			n.down("a", nil)
		}, true},
		{"refused, then a report without start time", func(_ *fleet.Worker, e *engine, n *network) {
			n.down("a", errRefused)
			time.Sleep(7 * time.Second)
			e.set(func(e *engine) { e.metrics = strings.ReplaceAll(e.metrics, "process_start", "x") })
			n.down("a", nil)
		}, true},
		{"timeouts, then the same process", func(_ *fleet.Worker, _ *engine, n *network) {
			n.down("a", errors.New("i/o timeout"))
			time.Sleep(20 * time.Second)
			n.down("a", nil)
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e := newNetwork(), newEngine("m")
				e.metrics = metricsText(1000, 0, 0, 10)
				n.add("a", e)
				n.add("b", e)
				l := newLister()
				f := start(t, fleet.Options{Discoverer: l, HTTPClient: n.client()})
				require.NoError(t, l.set(base))
				ready(t, f)
				time.Sleep(3 * time.Second)
				before := f.Snapshot().Member("w")
				booking := before.Begin(0, fleet.Work{PrefillTokens: 9})

				w := base.Clone()
				if strings.HasPrefix(c.name, "refused") || strings.HasPrefix(c.name, "timeouts") {
					c.change(&w, e, n)
				} else {
					e.set(func(e *engine) { c.change(&w, e, n) })
				}
				require.NoError(t, l.set(w))
				time.Sleep(12 * time.Second)
				after := f.Snapshot().Member("w")
				if !c.instance {
					require.Same(t, before, after)
					assert.Equal(t, 1, after.InFlight(0).Requests, "probes reset nothing")
				} else {
					require.NotSame(t, before, after)
					assert.NotEqual(t, before.ID(), after.ID())
					assert.Equal(t, "w", after.Name())
					assert.Zero(t, after.InFlight(0).Requests, "nothing is inherited")
					assert.True(t, before.Gone())
					assert.False(t, before.Routable())
					assert.EqualValues(t, 1, f.InFlight(), "the orphan's booking goes on")
				}
				booking.End()
				assert.Zero(t, f.InFlight())
			})
		})
	}
}

func TestDeclaredEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a", Epoch: "uid-1"}), HTTPClient: n.client(),
		})
		ready(t, f)
		m := f.Snapshot().Member("w")
		assert.Equal(t, "w@uid-1", m.ID())
		time.Sleep(2 * time.Second)
		e.set(func(e *engine) { e.metrics = metricsText(5000, 0, 0, 0) })
		time.Sleep(3 * time.Second)
		restarted := f.Snapshot().Member("w")
		assert.NotSame(t, m, restarted, "a container may restart within its pod")
		assert.Regexp(t, `^w@uid-1\+\d+$`, restarted.ID())
	})
}

// TestSeveralServersAtOneURL: a load balancer's address makes counters and start
// times jump. That is noticed, said, and not taken for endless restarts.
func TestSeveralServersAtOneURL(t *testing.T) {
	for name, report := range map[string]func(turn int) string{
		"start times": func(turn int) string { return metricsText(float64(1000+500*(turn%2)), 0, 0, 5) },
		"counters": func(turn int) string {
			return strings.ReplaceAll(metricsText(0, 0, 0, 10-5*(turn%2)), "process_start", "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e := newNetwork(), newEngine("m")
				n.add("a", e)
				ids := map[string]bool{}
				f := start(t, fleet.Options{
					Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
				})
				ready(t, f)
				for turn := range 100 {
					e.set(func(e *engine) { e.metrics = report(turn) })
					time.Sleep(1200 * time.Millisecond)
					ids[f.Snapshot().Member("w").ID()] = true
				}
				assert.LessOrEqual(t, len(ids), 7)
				m := f.Snapshot().Member("w")
				assert.True(t, m.Routable())
				require.NotEmpty(t, m.Health().Problems)
				assert.Contains(t, m.Health().Problems[0], "several servers")
			})
		})
	}
}

func TestReusedAddressServesNoneOfTheDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("other")
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a", Models: []string{"m"}}), HTTPClient: n.client(),
		})
		ready(t, f)
		assert.Empty(t, f.Snapshot().ForModel("m"))
		assert.Empty(t, f.Snapshot().ForModel("other"))
		assert.Contains(t, f.Snapshot().Member("w").Health().Problems[0], "serves none of its declared models (m)")
	})
}
