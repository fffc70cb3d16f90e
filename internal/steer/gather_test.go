package steer_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
)

func TestHesitation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ work, most, want time.Duration }{
		{time.Second, time.Second, 10 * time.Millisecond},
		{10 * time.Second, 30 * time.Millisecond, 30 * time.Millisecond},
		{10 * time.Millisecond, time.Second, 100 * time.Microsecond},
		{9 * time.Millisecond, time.Second, 0}, // not worth a timer
		{0, time.Second, 0},
		{-time.Hour, time.Second, 0},
		{time.Hour, -1, 0},
		{math.MaxInt64, time.Second, time.Second},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64 / 100},
	} {
		require.InDelta(t, c.want.Seconds(), steer.Hesitation(c.work, c.most).Seconds(), 1e-6*max(c.want.Seconds(), 1), "%v", c)
	}
}

// Who comes first by priority or by its tenant's share is not passed by those whose
// time has come earlier; who comes first because it is short waits for shorter ones.
func TestHesitates(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	soon := now.Add(time.Millisecond)
	w := &steer.Waiter{Tenant: "a", Due: soon}
	for name, c := range map[string]struct {
		behind []*steer.Waiter
		want   bool
	}{
		"nobody behind":           {nil, true},
		"longer ones":             {[]*steer.Waiter{{Tenant: "a"}, {Tenant: "a", Due: now}}, true},
		"others not due either":   {[]*steer.Waiter{{Tenant: "b", Due: soon}, {Tenant: "a", Priority: 1, Due: soon}}, true},
		"another tenant's is due": {[]*steer.Waiter{{Tenant: "a"}, {Tenant: "b"}}, false},
		"a later priority is due": {[]*steer.Waiter{{Tenant: "a", Priority: 1, Due: now}}, false},
	} {
		require.Equal(t, c.want, steer.Hesitates(now, w, slices.Values(c.behind)), name)
	}
	require.False(t, steer.Hesitates(soon, w, slices.Values([]*steer.Waiter(nil))))
	require.False(t, steer.Hesitates(now, &steer.Waiter{}, slices.Values([]*steer.Waiter(nil))))
}
