package steer_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// engine serves who waits, one at a time, on a clock of its own.
type engine struct {
	line    steer.Line
	now     time.Time
	waiting []*steer.Waiter
	had     map[string]time.Duration
	longest map[string]time.Duration // that a tenant's request has waited
	most    int                      // that may wait, if not 0
	refused map[string]int
}

func newEngine(l steer.Line) *engine {
	return &engine{line: l, now: time.Unix(1000, 0), had: map[string]time.Duration{}, longest: map[string]time.Duration{}, refused: map[string]int{}}
}

func (e *engine) add(w steer.Waiter) {
	w.Since = e.now
	if e.most > 0 && len(e.waiting) == e.most {
		i := e.line.Yields(e.waiting, &w, e.now)
		if i < 0 {
			e.refused[w.Tenant]++
			return
		}
		e.refused[e.waiting[i].Tenant]++
		e.line.Leave(e.waiting[i], false, e.now)
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.line.Join(&w)
	e.waiting = append(e.waiting, &w)
}

// serve serves the first in line, if there is one, and returns it.
func (e *engine) serve() *steer.Waiter {
	if len(e.waiting) == 0 {
		return nil
	}
	first := slices.MinFunc(e.waiting, func(a, b *steer.Waiter) int { return e.line.Before(a, b, e.now) })
	e.waiting = slices.DeleteFunc(e.waiting, func(w *steer.Waiter) bool { return w == first })
	e.line.Leave(first, true, e.now)
	e.longest[first.Tenant] = max(e.longest[first.Tenant], e.now.Sub(first.Since))
	e.had[first.Tenant] += first.Work
	e.now = e.now.Add(first.Work)
	return first
}

// Shares are as weights are, with and without a half-life.
func TestWeights(t *testing.T) {
	t.Parallel()
	for _, half := range []time.Duration{0, time.Minute} {
		e := newEngine(steer.Line{HalfLife: half})
		for range 400 {
			e.add(steer.Waiter{Tenant: "three", Weight: 3, Work: 100 * time.Millisecond})
			e.add(steer.Waiter{Tenant: "one", Work: 100 * time.Millisecond})
			e.add(steer.Waiter{Tenant: "half", Weight: 0.5, Work: 100 * time.Millisecond})
		}
		for range 450 {
			e.serve()
		}
		require.InDelta(t, 30, e.had["three"].Seconds(), 1)
		require.InDelta(t, 10, e.had["one"].Seconds(), 1)
		require.InDelta(t, 5, e.had["half"].Seconds(), 1)
	}
	require.InDelta(t, 1, steer.Weight(math.NaN()), 0)
	require.InDelta(t, 1, steer.Weight(-3), 0)
	require.InDelta(t, 1000, steer.Weight(math.Inf(1)), 0)
	require.InDelta(t, 0.001, steer.Weight(1e-300), 0)
}

// With a half-life it counts what a tenant has had before, though nobody waited then; and
// it counts for less as time goes.
func TestHalfLife(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		half, pause time.Duration
		want        string // who goes first
	}{
		{0, 0, "heavy"}, // nothing is remembered, and its request is shorter
		{time.Minute, time.Second, "light"},
		{time.Minute, 5 * time.Minute, "light"},  // 100 s are 3 s now, and light has had 1 s
		{time.Minute, 10 * time.Minute, "heavy"}, // 100 ms
	} {
		l := steer.Line{HalfLife: c.half}
		now := time.Unix(1000, 0)
		l.Charge("heavy", 1, 100*time.Second, now)
		now = now.Add(c.pause)
		l.Charge("light", 1, time.Second, now)
		heavy := &steer.Waiter{Tenant: "heavy", Since: now, Work: time.Second}
		light := &steer.Waiter{Tenant: "light", Since: now, Work: 2 * time.Second}
		l.Join(heavy)
		l.Join(light)
		first := heavy
		if l.Before(light, heavy, now) < 0 {
			first = light
		}
		require.Equal(t, c.want, first.Tenant, "%+v", c)
	}
}

// Over thousands of half-lives the order stays that of what tenants have had lately.
func TestHalfLifeForLong(t *testing.T) {
	t.Parallel()
	l := steer.Line{HalfLife: time.Second}
	now := time.Unix(1000, 0)
	for range 5000 {
		now = now.Add(time.Duration(1+now.Unix()%7) * time.Second)
		l.Charge("twice", 1, 2*time.Second, now)
		l.Charge("once", 1, time.Second, now)
		l.Charge("twice", 2, 0, now)
		a, b := &steer.Waiter{Tenant: "twice", Weight: 1, Since: now}, &steer.Waiter{Tenant: "once", Weight: 1, Since: now}
		l.Join(a)
		l.Join(b)
		require.Positive(t, l.Before(a, b, now))
		l.Leave(a, false, now)
		l.Leave(b, false, now)
	}
}

// What was had hundreds of half-lives ago is nothing, however much it was.
func TestHalfLifeForgets(t *testing.T) {
	t.Parallel()
	l := steer.Line{HalfLife: time.Second}
	now := time.Unix(1000, 0)
	for range 20 {
		l.Charge("then", 1, time.Hour, now)
		now = now.Add(270 * time.Second)
		l.Charge("now", 1, time.Second, now)
		a, b := &steer.Waiter{Tenant: "then", Since: now}, &steer.Waiter{Tenant: "now", Since: now}
		l.Join(a)
		l.Join(b)
		require.Negative(t, l.Before(a, b, now))
		l.Leave(a, false, now)
		l.Leave(b, false, now)
	}
}

// What a request has really had replaces what was expected.
func TestCharge(t *testing.T) {
	t.Parallel()
	for _, half := range []time.Duration{0, time.Minute} {
		e := newEngine(steer.Line{HalfLife: half})
		for range 300 {
			e.add(steer.Waiter{Tenant: "writer", Work: 100 * time.Millisecond}) // and as much again to write its answer
			e.add(steer.Waiter{Tenant: "reader", Work: 100 * time.Millisecond})
			e.add(steer.Waiter{Tenant: "cached", Work: 100 * time.Millisecond}) // of which half was in a cache
		}
		for range 210 {
			switch w := e.serve(); w.Tenant {
			case "writer":
				e.line.Charge("writer", 1, 100*time.Millisecond, e.now)
			case "cached":
				e.line.Charge("cached", 1, -50*time.Millisecond, e.now)
			}
		}
		require.InDelta(t, 3, e.had["writer"].Seconds(), 0.4, "half-life %v", half)
		require.InDelta(t, 6, e.had["reader"].Seconds(), 0.4)
		require.InDelta(t, 12, e.had["cached"].Seconds(), 0.4)
	}
	var l steer.Line
	l.Charge("nobody waits", 1, time.Second, time.Unix(1, 0))
	l.Charge("nor here", 1, -time.Second, time.Unix(1, 0))
	require.Zero(t, l.Tenants())
	l.HalfLife = time.Second
	l.Charge("gets something back", 1, -time.Second, time.Unix(1, 0))
	require.Zero(t, l.Tenants())
}

// However late it is known that a charge was too much, what the tenant has had since is
// not forgiven with it.
func TestALateCorrection(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{time.Second, 10 * time.Minute, 10 * time.Hour} {
		l := steer.Line{HalfLife: time.Minute}
		then := time.Unix(1000, 0)
		now := then.Add(late)
		l.Charge("corrected", 1, 10*time.Second, then)
		l.Charge("corrected", 1, 100*time.Second, now)
		l.Charge("other", 1, 99*time.Second, now)
		l.Charge("corrected", 1, -10*time.Second, then)
		a, b := &steer.Waiter{Tenant: "corrected", Since: now}, &steer.Waiter{Tenant: "other", Since: now}
		l.Join(a)
		l.Join(b)
		require.Positive(t, l.Before(a, b, now), "it has had 100 s")
		l.Charge("other", 1, 2*time.Second, now)
		require.Negative(t, l.Before(a, b, now), "and no more")
		l.Leave(a, false, now)
		l.Leave(b, false, now)
	}
}

// Whatever the others' priority and however little they have had, a tenant is given
// something in the stated time; and no more than that at the others' cost.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	const starve = 5 * time.Second
	for _, c := range []struct {
		name   string
		starve time.Duration
		longs  int // requests of the tenant that is behind
	}{
		{"strict", 0, 30}, {"bounded", starve, 30}, {"bounded, many", starve, 500},
	} {
		e := newEngine(steer.Line{Starve: c.starve, HalfLife: time.Minute})
		for range c.longs {
			e.add(steer.Waiter{Tenant: "behind", Priority: 9, Work: time.Second})
		}
		start := e.now
		for e.now.Sub(start) < 100*time.Second { // others come as fast as they are served
			e.add(steer.Waiter{Tenant: "ahead", Work: time.Second})
			e.serve()
		}
		if c.starve == 0 {
			require.Zero(t, e.had["behind"], "without the bound it is never served")
			continue
		}
		require.InDelta(t, 100/5, e.had["behind"].Seconds(), 2, "%s: one request each time, however many wait", c.name)
	}
}

// The bound holds for each of many that starve, and is that of the longest waiting.
func TestStarvingTakeTurns(t *testing.T) {
	t.Parallel()
	const starve, tenants, work = 10 * time.Second, 20, 100 * time.Millisecond
	e := newEngine(steer.Line{Starve: starve})
	for i := range tenants {
		e.add(steer.Waiter{Tenant: fmt.Sprint("t", i), Priority: 1 + i%3, Work: 2 * work})
		e.add(steer.Waiter{Tenant: fmt.Sprint("t", i), Priority: 1 + i%3, Work: work})
	}
	start := e.now
	var order []string
	for e.now.Sub(start) < 2*starve+2*tenants*work {
		e.add(steer.Waiter{Tenant: "ahead", Work: work})
		if w := e.serve(); w.Tenant != "ahead" {
			order = append(order, w.Tenant)
			require.LessOrEqual(t, e.now.Sub(w.Since), 2*(starve+tenants*2*work)+2*work)
		}
	}
	require.Len(t, order, 2*tenants)
	first := slices.Clone(order[:tenants])
	slices.Sort(first)
	require.Len(t, slices.Compact(first), tenants, "everybody has one before anybody has two")
}

// A request that has waited too long within its own tenant's priority goes first, though
// it is long.
func TestLongRequestsOfOneTenant(t *testing.T) {
	t.Parallel()
	l := steer.Line{Starve: time.Second}
	now := time.Unix(1000, 0)
	long := &steer.Waiter{Tenant: "a", Since: now, Work: time.Minute}
	short := &steer.Waiter{Tenant: "a", Since: now.Add(time.Millisecond), Work: time.Second}
	l.Join(long)
	l.Join(short)
	require.Positive(t, l.Before(long, short, now.Add(999*time.Millisecond)))
	require.Negative(t, l.Before(long, short, now.Add(time.Second)))
}

// With a half-life too, a million tenants take no more memory than a few thousand, and
// those that had most are remembered.
func TestMillionTenants(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l := steer.Line{HalfLife: time.Minute, Starve: time.Second}
	now := time.Unix(1000, 0)
	for i := range 1_000_000 {
		now = now.Add(10 * time.Microsecond)
		w := &steer.Waiter{Tenant: fmt.Sprint("tenant-", i), Since: now, Work: time.Millisecond}
		l.Join(w)
		l.Leave(w, true, now)
		if i%1000 == 0 {
			l.Charge("heavy", 1, time.Second, now)
		}
		require.LessOrEqual(t, l.Tenants(), 8200)
	}
	after := heap()
	require.Less(t, float64(after)-float64(before), 8e6)
	a, b := &steer.Waiter{Tenant: "heavy", Since: now}, &steer.Waiter{Tenant: "new", Since: now}
	l.Join(a)
	l.Join(b)
	require.Positive(t, l.Before(a, b, now))
	l.Leave(a, false, now)
	l.Leave(a, false, now) // a second time does nothing
	l.Leave(b, false, now)
}

// A light tenant is hardly kept waiting by one that sends a hundred times as much as the
// engine can do.
func TestHeavyTenant(t *testing.T) {
	t.Parallel()
	const work = 250 * time.Millisecond
	for _, c := range []struct {
		name string
		line steer.Line
		most time.Duration // that the light one waits
	}{
		{"shares", steer.Line{Aging: 0.2}, 2 * work},
		{"shares with a half-life", steer.Line{Aging: 0.2, HalfLife: time.Minute}, 2 * work},
	} {
		e := newEngine(c.line)
		e.most = 128
		start := e.now
		heavy, light := 0, 0
		for e.now.Sub(start) < 5*time.Minute {
			for ; time.Duration(heavy)*10*time.Millisecond <= e.now.Sub(start); heavy++ { // 100 a second, of which 4 can be served
				e.add(steer.Waiter{Tenant: "heavy", Work: work})
			}
			for ; time.Duration(light)*time.Second <= e.now.Sub(start); light++ {
				e.add(steer.Waiter{Tenant: "light", Work: work})
			}
			e.serve()
		}
		require.LessOrEqual(t, e.longest["light"], c.most, c.name)
		require.InDelta(t, 300*work.Seconds(), e.had["light"].Seconds(), 1, "%s: all that it sent", c.name)
		require.Zero(t, e.refused["light"])
		require.Greater(t, e.refused["heavy"], 20_000)
	}
}

// A full line is shared too: who fills it makes room.
func TestYields(t *testing.T) {
	t.Parallel()
	type one struct {
		tenant   string
		priority int
		weight   float64
	}
	for _, c := range []struct {
		name     string
		waiting  []one
		newcomer one
		want     int
	}{
		{"the last of who has most", []one{{"a", 0, 1}, {"a", 0, 1}, {"b", 0, 1}}, one{"c", 0, 1}, 1},
		{"the lowest priority of who has most", []one{{"a", 7, 1}, {"a", 0, 1}, {"b", 9, 1}}, one{"c", 0, 1}, 0},
		{"by weight", []one{{"a", 0, 4}, {"a", 0, 4}, {"b", 0, 1}, {"b", 0, 1}}, one{"c", 0, 1}, 3},
		{"nobody has more", []one{{"a", 0, 1}, {"b", 0, 1}}, one{"c", 0, 1}, -1},
		{"nor would have", []one{{"a", 0, 1}, {"a", 0, 1}, {"b", 0, 1}}, one{"b", 0, 1}, -1},
		{"its own tenant", []one{{"a", 0, 1}, {"a", 0, 1}, {"b", 0, 1}}, one{"a", 0, 1}, -1},
		{"its own tenant, less urgent", []one{{"a", 0, 1}, {"a", 5, 1}, {"b", 9, 1}}, one{"a", 1, 1}, 1},
		{"its own tenant, as urgent", []one{{"a", 0, 1}, {"a", 5, 1}, {"b", 9, 1}}, one{"a", 5, 1}, -1},
		{"no line at all", nil, one{"a", 0, 1}, -1},
	} {
		var l steer.Line
		now := time.Unix(1000, 0)
		var ws []*steer.Waiter
		for i, o := range c.waiting {
			w := &steer.Waiter{Tenant: o.tenant, Priority: o.priority, Weight: o.weight, Since: now.Add(time.Duration(i))}
			l.Join(w)
			ws = append(ws, w)
		}
		n := &steer.Waiter{Tenant: c.newcomer.tenant, Priority: c.newcomer.priority, Weight: c.newcomer.weight, Since: now.Add(time.Second)}
		require.Equal(t, c.want, l.Yields(ws, n, now.Add(time.Second)), c.name)
	}
}
