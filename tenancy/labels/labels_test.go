package labels_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/labels"
)

// clock goes when it is told to.
type clock struct{ t atomic.Int64 }

func (c *clock) now() time.Time      { return time.Unix(0, c.t.Load()) }
func (c *clock) add(d time.Duration) { c.t.Add(int64(d)) }

func policy(t testing.TB, o labels.Options) (*labels.Policy, *clock) {
	t.Helper()
	c := &clock{}
	c.t.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	o.Now = c.now
	p, err := labels.New(o)
	require.NoError(t, err)
	return p, c
}

// values are those that counters have, with their first number.
func values(c *labels.Counters) map[string]uint64 {
	m := map[string]uint64{}
	c.Each(func(value string, numbers []uint64) { m[value] = numbers[0] })
	return m
}

func TestNone(t *testing.T) {
	t.Parallel()
	p, _ := policy(t, labels.Options{})
	require.Empty(t, p.Label("a"))
	require.Equal(t, "tenant label: none", p.Report())
	c := p.NewCounters(1)
	c.Add("a", 0, 2)
	c.Add("b", 0, 3)
	require.Equal(t, map[string]uint64{"": 5}, values(c))
	require.Equal(t, labels.Totals{Values: 1}, p.Totals())
}

func TestAllowlist(t *testing.T) {
	t.Parallel()
	p, _ := policy(t, labels.Options{Mode: labels.Allowlist, Allow: []string{"a", "b", "a", "", "default"}})
	require.Equal(t, "a", p.Label("a"))
	require.Equal(t, labels.Default, p.Label("x"))
	require.Equal(t, labels.Default, p.Label("other"))
	require.Equal(t, labels.Anonymous, p.Label(""))
	own := p.Label("default")
	require.NotEqual(t, labels.Default, own, "a tenant of that name is not the rest")
	require.Equal(t, `tenant label: 4 values, of the listed tenants, and "default" for the rest`, p.Report())
	require.Equal(t, labels.Totals{Values: 5, Given: 4}, p.Totals())
	c := p.NewCounters(2)
	c.Add("a", 1, 2)
	c.Add("x", 1, 3)
	got := map[string]uint64{}
	c.Each(func(value string, numbers []uint64) { got[value] = numbers[1] })
	require.Equal(t, map[string]uint64{"a": 2, "b": 0, labels.Anonymous: 0, own: 0, labels.Default: 3}, got)
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]labels.Options{
		`the Mode "some" is none of`: {Mode: "some"},
		"make it allowlist":          {Mode: labels.All, Allow: []string{"a"}},
		"a Budget of 1; it must be":  {Mode: labels.All, Budget: 1},
		"a Budget of 10001":          {Mode: labels.All, Budget: 10_001},
		"a Budget of -1":             {Budget: -1},
		"Allow has 3 tenants, and a Budget of 3 is for 2 and the rest": {Mode: labels.Allowlist, Allow: []string{"a", "b", "c"}, Budget: 3},
		"a Window of 1ms; it must be at least 1s":                      {Window: time.Millisecond},
	} {
		_, err := labels.New(o)
		require.ErrorContains(t, err, want)
	}
}

// 10,000 tenants make as many series as the budget says, whatever comes.
func TestBudget(t *testing.T) {
	t.Parallel()
	const budget = 50
	p, c := policy(t, labels.Options{Mode: labels.All, Budget: budget, Window: time.Minute})
	require.Equal(t, `tenant label: up to 49 values, of the tenants with the most traffic, and "other" for the rest; `+
		"a value stays for 1m0s at least", p.Report())
	require.Equal(t, 1, p.Totals().Values)
	numbers := p.NewCounters(1)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200_000 {
		numbers.Add(strconv.Itoa(rng.IntN(10_000)), 0, 1)
		if i%50 == 0 {
			c.add(time.Second)
		}
		if i%1000 == 0 {
			require.LessOrEqual(t, len(values(numbers)), budget)
		}
	}
	require.Equal(t, budget, p.Totals().Values)
}

// The tenants with the most traffic have values, whoever came first; and a value is taken
// from nobody before its window is over, nor for a little more traffic.
func TestMostTraffic(t *testing.T) {
	t.Parallel()
	var folded []string
	p, c := policy(t, labels.Options{Mode: labels.All, Budget: 4, Window: time.Hour, OnFold: func(v string) { folded = append(folded, v) }})
	for _, early := range []string{"x", "y", "z"} {
		require.Equal(t, early, p.Label(early))
	}
	hour := func(traffic map[string]int) {
		for range 60 {
			for tenant, n := range traffic {
				for range n {
					p.Label(tenant)
				}
			}
			c.add(time.Minute)
		}
	}
	hour(map[string]int{"x": 10, "y": 10, "z": 1, "big": 30, "peer": 11})
	require.Equal(t, labels.Other, p.Label("z"), "its value is for big")
	require.Equal(t, labels.Other, p.Label("big"), "but the series of z has not ended")
	require.Equal(t, "x", p.Label("x"))
	require.Equal(t, labels.Totals{Values: 4, Given: 3, Retired: 1}, p.Totals())
	require.Empty(t, folded)
	c.add(time.Minute)
	require.Equal(t, labels.Other, p.Label("new"), "the place is kept")
	require.Equal(t, "big", p.Label("big"))
	require.Equal(t, []string{"z"}, folded)
	for range 5 { // peer has less than twice what y has, big keeps its place
		hour(map[string]int{"x": 10, "y": 10, "peer": 19, "big": 1})
		require.Equal(t, "y", p.Label("y"))
	}
	require.Equal(t, labels.Totals{Values: 4, Given: 5, Retired: 2, Folded: 2}, p.Totals(), "peer took the place of big")
	require.Equal(t, []string{"z", "big"}, folded)
}

// A place that whom it was kept for does not take is anybody's after a window.
func TestPlacesAreNotKeptForEver(t *testing.T) {
	t.Parallel()
	p, c := policy(t, labels.Options{Mode: labels.All, Budget: 2, Window: time.Hour})
	p.Label("a")
	for range 2 {
		c.add(time.Hour)
		for range 100 {
			p.Label("gone")
		}
	}
	c.add(time.Minute)
	require.Equal(t, labels.Other, p.Label("b"))
	c.add(time.Hour)
	require.Equal(t, "b", p.Label("b"))
}

// Against a ledger of all that was counted: no number is ever lost or falls, no value
// ends before its time, and there are never more than the budget.
func TestCountersNeverFall(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		const budget, window = 8, time.Minute
		folds := 0
		p, c := policy(t, labels.Options{Mode: labels.All, Budget: budget, Window: window, OnFold: func(string) { folds++ }})
		n := p.NewCounters(1)
		rng := rand.New(rand.NewPCG(seed, 3))
		var total uint64
		before := map[string]uint64{}
		since := map[string]time.Time{}
		for step := range 20_000 {
			// What is in fashion changes.
			hot := step / 2000
			tenant := fmt.Sprintf("t%d", rng.IntN(200))
			if rng.IntN(3) > 0 {
				tenant = fmt.Sprintf("hot%d", hot+rng.IntN(10))
			}
			by := rng.Uint64N(100)
			total += by
			if rng.IntN(2) == 0 {
				n.Add(tenant, 0, by)
			} else {
				p.Label(tenant)
				n.Add(tenant, 0, by)
			}
			c.add(time.Duration(rng.IntN(int(100 * time.Millisecond))))
			if rng.IntN(5000) == 0 {
				c.add(5 * window)
			}
			now := values(n)
			require.LessOrEqual(t, len(now), budget)
			var sum uint64
			for value, count := range now {
				sum += count
				require.GreaterOrEqual(t, count, before[value], "series %s falls", value)
				if _, was := before[value]; !was {
					since[value] = c.now()
				}
			}
			require.Equal(t, total, sum, "nothing is lost")
			for value, count := range before {
				if _, is := now[value]; !is {
					require.GreaterOrEqual(t, c.now().Sub(since[value]), window)
					require.GreaterOrEqual(t, now[labels.Other], before[labels.Other]+count)
				}
			}
			before = now
		}
		require.Greater(t, folds, 10)
		require.EqualValues(t, folds, p.Totals().Folded)
	}
}

// With traffic from many goroutines nothing is lost either.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	p, c := policy(t, labels.Options{Mode: labels.All, Budget: 5, Window: time.Second})
	n := p.NewCounters(2)
	const workers, each = 8, 5000
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range each {
				n.Add(strconv.Itoa(i/500+rng.IntN(10)), 1, 1)
				c.add(time.Millisecond)
				if i%100 == 0 {
					var sum uint64
					n.Each(func(_ string, numbers []uint64) { sum += numbers[1] })
					if sum > workers*each {
						t.Errorf("a sum of %d", sum)
					}
				}
			}
		})
	}
	wg.Wait()
	var sum uint64
	n.Each(func(_ string, numbers []uint64) { sum += numbers[1] })
	require.EqualValues(t, workers*each, sum)
	require.Positive(t, p.Totals().Folded)
}

// However many count at a time, a tenant with three times the traffic takes the place of
// one that has a value.
func TestTheOutdoneGoUnderLoad(t *testing.T) {
	t.Parallel()
	p, c := policy(t, labels.Options{Mode: labels.All, Budget: 2, Window: time.Hour})
	require.Equal(t, "first", p.Label("first"))
	c.add(time.Hour)
	p.Label("first")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				p.Label("first")
				p.Label("more")
				p.Label("more")
				p.Label("more")
			}
		})
	}
	wg.Wait()
	c.add(time.Hour)
	require.Equal(t, labels.Other, p.Label("first"), "its place is for the other")
}

// OnFold may use the Policy, and its panic holds up nobody else.
func TestOnFold(t *testing.T) {
	t.Parallel()
	var p *labels.Policy
	calls := 0
	p, c := policy(t, labels.Options{Mode: labels.All, Budget: 2, Window: time.Minute, OnFold: func(string) {
		calls++
		p.Label("within")
		p.NewCounters(1)
		if calls == 1 {
			panic("oops")
		}
	}})
	p.Label("a")
	for range 2 {
		c.add(time.Minute)
		for range 100 {
			p.Label("b")
		}
	}
	require.Equal(t, labels.Other, p.Label("a")) // it was retired at the end of the window
	c.add(time.Minute)
	require.PanicsWithValue(t, "oops", func() { p.Label("b") })
	require.Equal(t, labels.Other, p.Label("b"))
	c.add(time.Second)
	require.Equal(t, "b", p.Label("b"))
	require.Equal(t, 2, calls)
}

// Whatever a tenant is called, its value can be shown and is its own.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	names := []string{
		"", "default", "other", "anonymous", "Other", "other ", " other", "a\nb", "a\tb", "a\x00b", "a\x01b", "\xff", "\xff\xfe", "\ufffd",
		"\u202eevil", "a\u200bb", "ab", "a\u00a0b", "~", "~a", "~default~0123456789abcdef", strings.Repeat("x", 128), strings.Repeat("x", 129),
		strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20) + "y", strings.Repeat("\u00e9", 64), strings.Repeat("\u00e9", 65), "e\u0301", "\u00e9",
		"spiffe://example.org/ns/a/sa/b", `a"b\c`, "{}", "a{b=\"c\"}", strings.Repeat("\x00", 50), strings.Repeat("~", 50), "\U0001f600",
	}
	p, _ := policy(t, labels.Options{Mode: labels.Allowlist, Allow: names})
	all, _ := policy(t, labels.Options{Mode: labels.All})
	seen := map[string]string{labels.Default: "the rest", labels.Other: "the rest"}
	for _, name := range names {
		v := p.Label(name)
		require.NotContains(t, seen, v, "%.50q is called as %.50q", name, seen[v])
		seen[v] = name
		require.NotEmpty(t, v)
		require.LessOrEqual(t, len(v), 128)
		require.True(t, utf8.ValidString(v))
		require.Equal(t, -1, strings.IndexFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }))
		require.Equal(t, v, all.Label(name), "in every mode the same")
		own := labels.Options{Mode: labels.Allowlist, Allow: []string{v}} // a tenant that is called like the value of this
		thief, err := labels.New(own)
		require.NoError(t, err)
		if v != name {
			require.NotEqual(t, v, thief.Label(v), "%.50q", name)
		}
	}
	require.Equal(t, labels.Anonymous, p.Label(""))
	require.Equal(t, "spiffe://example.org/ns/a/sa/b", p.Label("spiffe://example.org/ns/a/sa/b"))
	require.Equal(t, "~other~d9298a10d1b07358", p.Label("other"))
}

// A name that is a part of a larger text does not keep that in memory, and does not
// change with it.
func TestNamesAreCopied(t *testing.T) {
	t.Parallel()
	p, _ := policy(t, labels.Options{Mode: labels.All})
	require.Equal(t, "tenant", p.Label("a large request of tenant"[19:]))
	require.Equal(t, "tenant", p.Label("tenant"))
	require.Equal(t, 2, p.Totals().Values)
}

func TestAllocations(t *testing.T) {
	p, _ := policy(t, labels.Options{Mode: labels.All, Budget: 10})
	n := p.NewCounters(3)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = strconv.Itoa(i)
		p.Label(names[i])
	}
	i := 0
	require.Zero(t, testing.AllocsPerRun(20_000, func() {
		i++
		n.Add(names[i%len(names)], 1, 1)
		p.Label("0")
	}))
}

func BenchmarkLabel(b *testing.B) {
	p, err := labels.New(labels.Options{Mode: labels.All, Budget: 200})
	require.NoError(b, err)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = "tenant-" + strconv.Itoa(i)
		p.Label(names[i])
	}
	for _, c := range []struct {
		name  string
		among int
	}{{"own", 199}, {"folded", len(names)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					p.Label(names[i%c.among])
				}
			})
		})
	}
}

func ExamplePolicy() {
	p, err := labels.New(labels.Options{Mode: labels.All, Budget: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Report())
	requests := p.NewCounters(1)
	for _, tenant := range []string{"search", "support", "lab", "", "search"} {
		requests.Add(tenant, 0, 1)
	}
	requests.Each(func(value string, numbers []uint64) { fmt.Println(value, numbers[0]) })
	// Output:
	// tenant label: up to 2 values, of the tenants with the most traffic, and "other" for the rest; a value stays for 1h0m0s at least
	// search 2
	// support 1
	// other 2
}
