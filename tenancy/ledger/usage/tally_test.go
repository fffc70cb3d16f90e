package usage_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

func TestMain(m *testing.M) { leak.Main(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func rec(id string, s ledger.State, change ...func(*ledger.Record)) *ledger.Record {
	r := &ledger.Record{ID: id, Attempt: 1, State: s, At: noon, Tenant: "acme", Model: "m", Uncached: 100, Output: 10, Cost: 1000}
	for _, c := range change {
		c(r)
	}
	return r
}

func report(t *testing.T, q usage.Query, records ...*ledger.Record) *usage.Report {
	t.Helper()
	tally, err := usage.New(q)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, r.Check())
		tally.Add(r)
	}
	return tally.Report()
}

func TestWhatBecomesOfAReservation(t *testing.T) {
	used := func(r *ledger.Record) { r.CachedKnown, r.Cached, r.Uncached, r.Cost = true, 60, 40, 700 }
	got := report(t, usage.Query{},
		rec("a", ledger.Reserved), rec("a", ledger.Settled, used),
		rec("b", ledger.Reserved), rec("b", ledger.Voided),
		rec("c", ledger.Reserved),
		rec("d", ledger.Settled, func(r *ledger.Record) { r.Source = ledger.Estimate }),
	)
	require.Len(t, got.Rows, 1)
	require.Equal(t, map[usage.Field]string{usage.Day: "2026-11-30", usage.Tenant: "acme"}, got.Rows[0].Of)
	one := usage.Sum{Attempts: 1, Amounts: usage.Amounts{Unsplit: 100, Output: 10, Cost: 1000}}
	s := got.Total
	require.Equal(t, s, got.Rows[0].Sums)
	require.Equal(t, usage.Sum{Attempts: 3, Amounts: usage.Amounts{Unsplit: 300, Output: 30, Cost: 3000}}, s.Reserved)
	require.Equal(t, one, s.ReservedSettled)
	require.Equal(t, one, s.ReservedVoided)
	require.Equal(t, one, s.ReservedOpen)
	require.Equal(t, usage.Sum{Attempts: 2, Amounts: usage.Amounts{Uncached: 40, Cached: 60, Unsplit: 100, Output: 20, Cost: 1700}}, s.Used)
	require.Equal(t, one, s.Estimated)
	require.Equal(t, int64(1), s.Unknown)
	require.Equal(t, int64(1), s.Unreserved)
	require.Len(t, got.Open, 1)
	require.Equal(t, "c", got.Open[0].ID)
}

// What nobody said about the cache is not taken for nothing cached.
func TestUnknownIsNotZero(t *testing.T) {
	cached := func(r *ledger.Record) { r.Cached = 50 } // meaningless without CachedKnown
	s := report(t, usage.Query{}, rec("a", ledger.Settled, cached)).Total
	require.Equal(t, usage.Amounts{Unsplit: 100, Output: 10, Cost: 1000}, s.Used.Amounts)
	require.Equal(t, int64(110), s.Used.Tokens())
	require.Equal(t, int64(1), s.Unknown)
}

// An attempt is of the day on which it was let through, in the zone asked for, with the
// end that it had on the next.
func TestDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := func(s string) func(*ledger.Record) {
		at, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return func(r *ledger.Record) { r.At = at }
	}
	records := []*ledger.Record{
		// The day on which the clock goes forward has 23 hours.
		rec("a", ledger.Reserved, at("2026-03-28T22:59:59Z")), rec("a", ledger.Settled, at("2026-03-29T10:00:00Z")),
		rec("b", ledger.Reserved, at("2026-03-28T23:00:00Z")),
		rec("c", ledger.Reserved, at("2026-03-29T21:59:59Z")),
		rec("d", ledger.Reserved, at("2026-03-29T22:00:00Z")),
	}
	days := func(q usage.Query) (out []string) {
		q.By = []usage.Field{usage.Day}
		for _, row := range report(t, q, records...).Rows {
			out = append(out, fmt.Sprint(row.Of[usage.Day], " ", row.Reserved.Attempts, row.Used.Attempts))
		}
		return out
	}
	require.Equal(t, []string{"2026-03-28 1 1", "2026-03-29 2 0", "2026-03-30 1 0"}, days(usage.Query{Zone: berlin}))
	require.Equal(t, []string{"2026-03-28 2 1", "2026-03-29 2 0"}, days(usage.Query{}))
	require.Equal(t, []string{"2026-03-29 2 0"}, days(usage.Query{
		Zone: berlin, From: time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), To: time.Date(2026, 3, 30, 0, 0, 0, 0, berlin),
	}))
}

func TestGroupsAndFilters(t *testing.T) {
	of := func(tenant, model, worker string) func(*ledger.Record) {
		return func(r *ledger.Record) { r.Tenant, r.Model, r.Worker = tenant, model, worker }
	}
	records := []*ledger.Record{
		rec("a", ledger.Reserved, of("x", "m", "")), rec("a", ledger.Settled, of("x", "m", "gpu-1")),
		rec("b", ledger.Settled, of("x", "n", "gpu-0")), rec("c", ledger.Settled, of("y", "m", "gpu-0")),
	}
	got := report(t, usage.Query{By: []usage.Field{usage.Worker, usage.Model}}, records...)
	var rows []string
	for _, r := range got.Rows {
		rows = append(rows, r.Of[usage.Worker]+" "+r.Of[usage.Model])
	}
	require.Equal(t, []string{"gpu-0 m", "gpu-0 n", "gpu-1 m"}, rows)
	require.Equal(t, int64(2), report(t, usage.Query{Tenants: []string{"x"}}, records...).Total.Used.Attempts)
	require.Equal(t, int64(1), report(t, usage.Query{Tenants: []string{"x"}, Models: []string{"m"}}, records...).Total.Used.Attempts)
	require.Empty(t, report(t, usage.Query{Tenants: []string{"z"}}, records...).Rows)

	for want, q := range map[string]usage.Query{
		"can't group by":  {By: []usage.Field{"colour"}},
		"is there twice":  {By: []usage.Field{usage.Day, usage.Day}},
		"nothing is from": {From: noon, To: noon},
	} {
		_, err := usage.New(q)
		require.ErrorContains(t, err, want)
	}
}

// history is what a ledger could hold after everything that can go wrong.
type history struct {
	records []*ledger.Record
	// want are the true sums by tenant, counted when each record was made.
	want map[string]*usage.Sums
}

func plus(s *usage.Sum, r *ledger.Record) {
	s.Attempts++
	if r.CachedKnown {
		s.Uncached += r.Uncached
		s.Cached += r.Cached
	} else {
		s.Unsplit += r.Uncached
	}
	s.CacheWrite += r.CacheWrite
	s.Output += r.Output
	s.Reasoning += r.Reasoning
	s.Cost += r.Cost
}

// randomHistory is of attempts that a crash may have cut off anywhere, each record told
// up to four times.
func randomHistory(rng *rand.Rand) *history {
	h := &history{want: map[string]*usage.Sums{}}
	tenants := []string{"a", "b", "c"}
	make1 := func(i int, tenant string, s ledger.State) *ledger.Record {
		r := &ledger.Record{
			ID: fmt.Sprint(i / 2), Attempt: 1 + i%2, State: s, At: noon, Tenant: tenant, Model: "m", Uncached: rng.Int64N(1000), Cached: rng.Int64N(1000),
			CachedKnown: rng.IntN(2) == 0, CacheWrite: rng.Int64N(9), Output: rng.Int64N(500), Reasoning: rng.Int64N(5), Cost: rng.Int64N(1e6),
		}
		if s == ledger.Settled {
			r.Source = []ledger.Source{ledger.Provider, ledger.Stream, ledger.Estimate}[rng.IntN(3)]
		}
		return r
	}
	for i := range 1 + rng.IntN(200) {
		tenant := tenants[rng.IntN(3)]
		reserved := make1(i, tenant, ledger.Reserved)
		settled, voided := make1(i, tenant, ledger.Settled), make1(i, tenant, ledger.Voided)
		has := func(most int) bool { return rng.IntN(most) > 0 }
		hasReserved, hasSettled, hasVoided := has(20), has(3), false
		if !hasSettled || !has(20) {
			hasVoided = has(2)
		}
		for _, of := range []struct {
			r     *ledger.Record
			there bool
		}{{reserved, hasReserved}, {settled, hasSettled}, {voided, hasVoided}} {
			for range rng.IntN(4) + 1 {
				if of.there {
					h.records = append(h.records, of.r)
				}
			}
		}
		if !hasReserved && !hasSettled && !hasVoided {
			continue
		}
		w := h.want[tenant]
		if w == nil {
			w = new(usage.Sums)
			h.want[tenant] = w
		}
		part := &w.ReservedOpen
		if hasVoided {
			part = &w.ReservedVoided
		}
		if hasSettled {
			part = &w.ReservedSettled
			plus(&w.Used, settled)
			if settled.Source == ledger.Estimate {
				plus(&w.Estimated, settled)
			}
			if !settled.CachedKnown {
				w.Unknown++
			}
		}
		if hasReserved {
			plus(&w.Reserved, reserved)
			plus(part, reserved)
		} else {
			w.Unreserved++
		}
	}
	rng.Shuffle(len(h.records), func(a, b int) { h.records[a], h.records[b] = h.records[b], h.records[a] })
	return h
}

func sum(of ...usage.Sum) (s usage.Sum) {
	for _, o := range of {
		s.Attempts += o.Attempts
		s.Uncached += o.Uncached
		s.Cached += o.Cached
		s.Unsplit += o.Unsplit
		s.CacheWrite += o.CacheWrite
		s.Output += o.Output
		s.Reasoning += o.Reasoning
		s.Cost += o.Cost
	}
	return s
}

// Reserved = settled + voided + open, in every amount and every row, whatever is lost at
// the end, told twice or out of order; and the rows are the true ones.
func TestSumsOfRandomHistories(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := randomHistory(rng)
		tally, err := usage.New(usage.Query{By: []usage.Field{usage.Tenant}})
		require.NoError(t, err)
		check := func() *usage.Report {
			rep := tally.Report()
			var total usage.Sums
			for _, row := range append(rep.Rows, usage.Row{Sums: rep.Total}) {
				require.Equal(t, row.Reserved, sum(row.ReservedSettled, row.ReservedVoided, row.ReservedOpen), "seed %d", seed)
			}
			for _, row := range rep.Rows {
				total.Reserved = sum(total.Reserved, row.Reserved)
				total.Used = sum(total.Used, row.Used)
			}
			require.Equal(t, rep.Total.Reserved, total.Reserved)
			require.Equal(t, rep.Total.Used, total.Used)
			require.Len(t, rep.Open, int(rep.Total.ReservedOpen.Attempts))
			return rep
		}
		cut := rng.IntN(len(h.records) + 1) // a report while the ledger is still being read
		for i, r := range h.records {
			if i == cut {
				check()
			}
			tally.Add(r)
		}
		rep := check()
		require.Len(t, rep.Rows, len(h.want), "seed %d", seed)
		for _, row := range rep.Rows {
			require.Equal(t, *h.want[row.Of[usage.Tenant]], row.Sums, "seed %d", seed)
		}
		rng.Shuffle(len(h.records), func(a, b int) { h.records[a], h.records[b] = h.records[b], h.records[a] })
		other, err := usage.New(usage.Query{By: []usage.Field{usage.Tenant}})
		require.NoError(t, err)
		for _, r := range h.records {
			other.Add(r)
		}
		require.Equal(t, rep, other.Report(), "seed %d: the order matters", seed)
	}
}

// Sums stop at the largest number instead of turning negative.
func TestSumsDoNotOverflow(t *testing.T) {
	tally, err := usage.New(usage.Query{})
	require.NoError(t, err)
	for i := range 1100 {
		tally.Add(rec(fmt.Sprint(i), ledger.Settled, func(r *ledger.Record) { r.Cost = ledger.MaxAmount }))
	}
	require.Equal(t, int64(1<<63-1), tally.Report().Total.Used.Cost)
}
