package fleet_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func TestProbeOverRealHTTP(t *testing.T) {
	e := newEngine("qwen3", "sql<qwen3")
	srv := httptest.NewServer(e)
	defer srv.Close()
	f := start(t, fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "w1", URL: srv.URL})})
	ready(t, f)

	s := f.Snapshot()
	require.Equal(t, []string{"w1"}, names(s.ForModel("qwen3")))
	m := s.ForModel("sql")[0]
	base, ok := m.Adapter("sql")
	assert.True(t, ok)
	assert.Equal(t, "qwen3", base)
	_, ok = m.Adapter("qwen3")
	assert.False(t, ok)
	assert.Equal(t, 4096, m.MaxModelLen("sql"), "an adapter has its base's context")
	assert.Equal(t, fleet.EngineVLLM, m.Engine())
	assert.True(t, m.Routable())
	assert.Empty(t, s.ForModel("unknown"))
	assert.Equal(t, "sql", s.Models()[1].Name)
	assert.Equal(t, 1, s.Models()[1].Routable)
}

func TestUnhealthyAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
			HealthyAfter: 2,
		})
		ready(t, f)
		m := f.Snapshot().Member("w")

		e.set(func(e *engine) { e.health = http.StatusInternalServerError })
		time.Sleep(11 * time.Second) // two probes
		assert.True(t, m.Healthy(), "fewer than UnhealthyAfter failures")
		time.Sleep(6 * time.Second)
		assert.False(t, m.Healthy())
		assert.Empty(t, f.Snapshot().ForModel("m"))
		assert.Equal(t, []string{"w"}, names(f.Snapshot().Serving("m")), "still known to serve it")
		require.ErrorContains(t, m.Health().Err, "500")

		e.set(func(e *engine) { e.health = http.StatusOK })
		for before := e.count("/health"); e.count("/health") == before; {
			time.Sleep(50 * time.Millisecond)
		}
		assert.False(t, m.Healthy(), "one good probe is not HealthyAfter")
		time.Sleep(1200 * time.Millisecond)
		assert.True(t, m.Healthy(), "two good probes at the pace of retries")
		assert.Same(t, m, f.Snapshot().Member("w"), "a failing health check is no restart")
	})
}

func TestUnavailableIsCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, e := newNetwork(), newEngine("m")
		n.add("a", e)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
		})
		ready(t, f)
		e.set(func(e *engine) { e.health = http.StatusServiceUnavailable })
		time.Sleep(6 * time.Second)
		assert.False(t, f.Snapshot().Member("w").Healthy())
	})
}

func TestPassiveFailures(t *testing.T) {
	cases := []struct {
		name    string
		reports []error
		suspect bool
	}{
		{"refused at once", []error{errRefused}, true},
		{"no route at once", []error{&net.OpError{Op: "dial", Err: errors.New("no route to host")}}, true},
		{"two others are not enough", []error{errors.New("eof"), errors.New("eof")}, false},
		{"three others", []error{errors.New("eof"), errors.New("eof"), errors.New("eof")}, true},
		{"given up by the client", []error{context.Canceled, context.Canceled, context.Canceled}, false},
		{"a success between", []error{errors.New("eof"), errors.New("eof"), nil, errors.New("eof")}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e := newNetwork(), newEngine("m")
				n.add("a", e)
				f := start(t, fleet.Options{
					Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: "http://a"}), HTTPClient: n.client(),
				})
				ready(t, f)
				synctest.Wait()
				m := f.Snapshot().Member("w")
				probes := e.count("/health")
				for _, err := range c.reports {
					if err == nil {
						m.ReportSuccess()
					} else {
						m.ReportFailure(err)
					}
				}
				assert.Equal(t, !c.suspect, m.Healthy())
				synctest.Wait()
				if c.suspect {
					assert.Empty(t, f.Snapshot().ForModel("m"), "out of the next Snapshot too")
					assert.Equal(t, fleet.StateSuspect, m.Health().State)
				}
				time.Sleep(200 * time.Millisecond)
				if c.suspect {
					assert.Greater(t, e.count("/health"), probes, "probed at once")
				} else {
					assert.Equal(t, probes, e.count("/health"))
				}
				assert.True(t, f.Snapshot().Member("w").Healthy(), "the probe clears the suspicion")
			})
		})
	}
}

func TestHungWorkerDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, good, bad := newNetwork(), newEngine("m"), newEngine("m")
		for _, p := range []string{"/health", "/metrics", "/v1/models"} {
			bad.hang[p] = true
		}
		n.add("good", good)
		n.add("bad", bad)
		f := start(t, fleet.Options{
			Discoverer: fleet.Static(fleet.Worker{Name: "bad", URL: "http://bad"}, fleet.Worker{Name: "good", URL: "http://good"}),
			HTTPClient: n.client(),
		})
		ready(t, f)
		time.Sleep(20 * time.Second)
		assert.GreaterOrEqual(t, good.count("/metrics"), 17, "the pace of the good one is its own")
		assert.Equal(t, []string{"good"}, names(f.Snapshot().ForModel("m")))
		assert.ErrorContains(t, f.Snapshot().Member("bad").Health().Err, "no answer of /health within 2s")
	})
}
