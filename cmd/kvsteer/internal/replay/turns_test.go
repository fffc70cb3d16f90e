package replay_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/replay"
	"github.com/kvsteer/kvsteer/record"
)

// interleaved is two logs as if their Recorders had taken turns in one file, a line each.
func interleaved(a, b []byte) (both []byte) {
	la, lb := bytes.SplitAfter(a, []byte("\n")), bytes.SplitAfter(b, []byte("\n"))
	for i := range max(len(la), len(lb)) {
		if i < len(la) {
			both = append(both, la[i]...)
		}
		if i < len(lb) {
			both = append(both, lb[i]...)
		}
	}
	return both
}

// Two routers may share a file, and both number their decisions from 1: what came of a
// request is compared with its own decision.
func TestTurns(t *testing.T) {
	log := func(headers []string, tenant string, output int) []byte {
		m := newMade(t, record.Options{Headers: headers})
		for range 3 {
			d := m.add(func(d *kvsteer.Decision) { d.Request.Tenant = tenant })
			m.end(d, time.Second, output)
		}
		return m.log()
	}
	a, b := log([]string{"X-Tier"}, "a", 100), log(nil, "b", 200)
	c := replay.Config{Policy: curious{}, Prices: prices(t, `{"m": {"input_cost_per_token": 0, "output_cost_per_token": 1}}`)}
	one := replay.New(c)
	require.NoError(t, one.Read("log", bytes.NewReader(a)))
	require.NoError(t, one.Read("log", bytes.NewReader(b)))
	want, got := one.Report(), again(t, c, interleaved(a, b))
	want.Files = got.Files
	require.Equal(t, want, got)
	require.Equal(t, 2, got.Runs)
	require.Equal(t, 6, got.Outcomes)
	requireCaveat(t, got, "strayed", 0)
	requireCaveat(t, got, "headers", 3)
}
