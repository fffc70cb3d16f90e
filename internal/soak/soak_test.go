package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// brief is a soak that is over in half a minute, also on a machine with better things to do.
func brief(t *testing.T) config {
	t.Helper()
	c := defaults(14*time.Second, 60)
	c.warm, c.rest, c.churn = 5*time.Second, 300*time.Millisecond, 200*time.Millisecond
	c.workers, c.blocks, c.active, c.tenants = 4, 64, 40, 5
	c.fill, c.folder = false, t.TempDir()
	c.heal, c.exact = time.Hour, 0 // how fast caches are known again is the machine's affair
	return c
}

// In so short a time little can be said about growth, so more of it is allowed than in a
// real run. What must hold as there: no request fails that was not made to, nothing is left.
func TestNothingGrows(t *testing.T) {
	c := brief(t)
	c.growth = 20
	got, err := soak(t.Context(), c, t.Output())
	require.NoError(t, err)
	got.print(t.Output())
	require.Empty(t, got.violations())
	require.Equal(t, int(c.length.Seconds()*c.rate), got.sent)
	total := 0
	for _, n := range got.counts {
		total += n
	}
	require.Equal(t, got.sent, total, "each request has one outcome")
	require.Positive(t, got.counts[answered])
	require.Positive(t, got.counts[left])
	require.NotEmpty(t, got.did)
	require.Greater(t, got.made, c.workers, "workers came")
	require.Greater(t, got.tenants, c.active, "tenants came")
}

func TestLeaksAreFound(t *testing.T) {
	c := brief(t)
	c.leak, c.settle = "heap,goroutines,files,series,selections", time.Second
	c.churn = time.Hour // a worker can't be replaced while a Selection is left on it
	got, err := soak(t.Context(), c, t.Output())
	require.NoError(t, err)
	got.print(t.Output())
	grows := map[measure]bool{}
	for _, j := range got.judged {
		grows[j.measure] = j.grows
	}
	for _, m := range []measure{heap, goroutines, series, selections} {
		name, _, _ := m.about()
		require.True(t, grows[m], name)
	}
	if openFiles() > 0 {
		require.True(t, grows[files], "open files")
	}
	text := strings.Join(got.violations(), "\n")
	require.Contains(t, text, "in the end, live Selections: ")
	require.Contains(t, text, "ledger: ")
	require.Contains(t, text, "heap after collection grows: ")
}

// A failure counts as injected only if somebody saw the injection do it: not if the answer
// says so.
func TestFailuresOfItsOwnAreFound(t *testing.T) {
	c := brief(t)
	c.leak, c.growth = "failures", 20
	c.length, c.warm, c.churn = 5*time.Second, time.Second, time.Hour // so little is enough for that
	got, err := soak(t.Context(), c, t.Output())
	require.NoError(t, err)
	got.print(t.Output())
	const every = 10
	require.GreaterOrEqual(t, got.counts[failed], got.sent/every/2, "but for those that were to be refused, or whose client left")
	require.Contains(t, strings.Join(got.violations(), "\n"), "requests failed without having been made to")
}

func TestTooShortARunIsRefused(t *testing.T) {
	c := defaults(10*time.Second, 10)
	c.rest = 5 * time.Second
	_, err := soak(t.Context(), c, t.Output())
	require.ErrorContains(t, err, "fewer than the 12 samples it takes")
	c = defaults(time.Minute, 0)
	c.workers = 1
	_, err = soak(t.Context(), c, t.Output())
	require.ErrorContains(t, err, "-rate, -rest and -churn must be positive")
	require.ErrorContains(t, err, "-workers is 1")
}
