package kvsteer_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// A wrong address of a worker's events is told where a user looks: in decisions
// and, once and with the worker's name, in the log. The worker is never exact.
func TestWrongEventAddress(t *testing.T) {
	t.Parallel()
	var log lines
	r := newRig(t, rigConfig{
		engines: 1,
		worker:  func(_ int, w *fleet.Worker) { w.Events[0].Events = "inproc://misspelt" },
		options: []kvsteer.Option{kvsteer.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))},
	})
	problem := "event stream not connected (inproc://misspelt): "
	require.Eventually(t, func() bool {
		n := r.observed.outcomeCount()
		if r.post("/v1/chat/completions", chatBody(fleettest.Text(1, 500), false)).status != http.StatusOK {
			return false
		}
		d := r.observed.nextOutcome(t, n).Decision
		require.NotEqual(t, "exact", d.Winner().TrustState)
		return d.Winner().TrustState == "resyncing" &&
			strings.Contains(strings.Join(d.Degradations, "\n"), "cache known in part, a lower bound: "+problem)
	}, 30*time.Second, time.Millisecond)
	warned := log.with("event stream not connected")
	require.Len(t, warned, 1)
	require.Contains(t, warned[0], "level=WARN")
	require.Contains(t, warned[0], "worker=w0 rank=0 address=inproc://misspelt")
	for _, line := range log.with("trust changed") {
		require.Contains(t, line, "worker=w0")
	}
}
