package steer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// serve takes waiters in order until n were served.
func serve(l *steer.Line, ws []*steer.Waiter, now time.Time, n int) (order []*steer.Waiter) {
	ws = slices.Clone(ws)
	for range n {
		first := slices.MinFunc(ws, func(a, b *steer.Waiter) int { return l.Before(a, b, now) })
		ws = slices.DeleteFunc(ws, func(w *steer.Waiter) bool { return w == first })
		l.Leave(first, true, now)
		order = append(order, first)
	}
	return order
}

// What counts is the prefill time that a tenant is given, not how many requests it
// has: one that sends a hundred has no more than one that sends a few.
func TestTenantsShareTime(t *testing.T) {
	t.Parallel()
	var l steer.Line
	now := time.Unix(1000, 0)
	var ws []*steer.Waiter
	add := func(tenant string, n int, work time.Duration) {
		for range n {
			w := &steer.Waiter{Tenant: tenant, Since: now, Work: work}
			l.Join(w)
			ws = append(ws, w)
		}
	}
	add("many", 100, time.Second)
	add("few", 20, time.Second)
	add("long", 20, 4*time.Second)
	had := map[string]time.Duration{}
	for _, w := range serve(&l, ws, now, 45) {
		had[w.Tenant] += w.Work
	}
	require.Equal(t, map[string]time.Duration{"many": 20 * time.Second, "few": 20 * time.Second, "long": 20 * time.Second}, had)
}

// Who comes later begins where the others are, and has no claim to what they had.
func TestNewTenantsClaimNothingForThePast(t *testing.T) {
	t.Parallel()
	var l steer.Line
	now := time.Unix(1000, 0)
	var ws []*steer.Waiter
	add := func(tenant string, n int) {
		for range n {
			w := &steer.Waiter{Tenant: tenant, Since: now, Work: time.Second}
			l.Join(w)
			ws = append(ws, w)
		}
	}
	add("old", 30)
	done := serve(&l, ws, now, 10)
	ws = slices.DeleteFunc(ws, func(w *steer.Waiter) bool { return slices.Contains(done, w) })
	add("new", 30)
	n := 0
	for _, w := range serve(&l, ws, now, 20) {
		if w.Tenant == "new" {
			n++
		}
	}
	require.InDelta(t, 10, n, 1)
}

// Ageing bounds how long a request can be overtaken by shorter ones.
func TestAgeing(t *testing.T) {
	t.Parallel()
	for aging, want := range map[float64]int{0.5: 18, 1: 9, 3: 3} {
		l := steer.Line{Aging: aging}
		start := time.Unix(1000, 0)
		long := &steer.Waiter{Since: start, Work: 10 * time.Second}
		l.Join(long)
		overtaken := 0
		for second := range 100 {
			now := start.Add(time.Duration(second) * time.Second)
			short := &steer.Waiter{Since: now, Work: time.Second}
			l.Join(short)
			if l.Before(long, short, now) < 0 {
				break
			}
			overtaken++
			l.Leave(short, true, now)
		}
		require.InDelta(t, want, overtaken, 1, "ageing of %v", aging)
	}
}

// However many tenants there were, the line keeps those that matter.
func TestTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	var l steer.Line
	now := time.Unix(1000, 0)
	staying := &steer.Waiter{Tenant: "staying", Since: now}
	l.Join(staying)
	for i := range 30_000 {
		w := &steer.Waiter{Tenant: fmt.Sprint(i), Since: now, Work: time.Microsecond}
		l.Join(w)
		l.Leave(w, i%2 == 0, now)
	}
	require.LessOrEqual(t, l.Tenants(), 9000)
	l.Leave(staying, true, now)
	require.Zero(t, l.Tenants())
	l.Leave(staying, true, now) // once too often does no harm
}
