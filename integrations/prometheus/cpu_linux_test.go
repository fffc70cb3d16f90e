package prometheus_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// used is the processor time of this process so far.
func used(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// A scrape with all series that there may be takes 50 ms of a processor at most, three times
// of it here for machines that are slower or share theirs. It is not the time that passes.
//
//nolint:paralleltest // what others use would count
func TestScrapeCPU(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes ten times as long")
	}
	r := fullHouse(t, prometheus.Options{}, 0)
	reg := prom.NewRegistry()
	require.NoError(t, reg.Register(r.metrics))
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{DisableCompression: true})
	best := time.Hour // what else the process does counts as well: the fleet's own scrapes, collecting garbage
	for range 20 {
		before := used(t)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		n, err := io.Copy(io.Discard, w.Body)
		require.NoError(t, err)
		require.Greater(t, n, int64(500_000), "all series")
		best = min(best, used(t)-before)
	}
	t.Logf("%v of a processor", best)
	require.Less(t, best, 150*time.Millisecond)
}
