package quota_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var fourLevels = []quota.Rule{
	{Name: "org", Scope: quota.PerOrg, Tokens: quota.Rate{Amount: 1 << 31}, Concurrency: 1 << 20},
	{Name: "team", Scope: quota.PerTeam, Tokens: quota.Rate{Amount: 1 << 31}},
	{Name: "tenant", Scope: quota.PerTenant, PerModel: true, Tokens: quota.Rate{Amount: 1 << 31}, Requests: quota.Rate{Amount: 1 << 31}},
	{Name: "key", Scope: quota.PerKey, Requests: quota.Rate{Amount: 1 << 31}},
}

// BenchmarkAdmit reserves and settles one request that falls into four buckets.
func BenchmarkAdmit(b *testing.B) {
	l, err := quota.New(quota.Options{Rules: fourLevels})
	require.NoError(b, err)
	d := quota.Demand{Org: "org", Team: "team", Tenant: "tenant", Key: "key", Model: "model", Input: 100, Output: 10}
	var r quota.Reservation
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Reserve(&d, &r); err != nil {
			b.Fatal(err)
		}
		r.Settle(quota.Used{Uncached: 90, CacheRead: 10, Output: 8})
	}
}

// BenchmarkReserve is its first half.
func BenchmarkReserve(b *testing.B) {
	l, err := quota.New(quota.Options{Rules: fourLevels})
	require.NoError(b, err)
	d := quota.Demand{Org: "org", Team: "team", Tenant: "tenant", Key: "key", Model: "model", Input: 1}
	const batch = 1000
	rs := make([]quota.Reservation, batch)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		for k := range rs {
			if err := l.Reserve(&d, &rs[k]); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		for k := range rs {
			rs[k].Refund()
		}
		b.StartTimer()
	}
}

// BenchmarkIdle is the memory of a million tenants that have just been served, and
// what is left of it when they have been idle for a while.
func BenchmarkIdle(b *testing.B) {
	const tenants = 1_000_000
	for b.Loop() {
		before := heap()
		l, clock := newLimiter(b, quota.Options{Rules: []quota.Rule{{
			Name: "tenant", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 600}, Tokens: quota.Rate{Amount: 100_000},
		}}})
		var r quota.Reservation
		for i := range tenants {
			if err := l.Reserve(&quota.Demand{Tenant: "tenant-" + strconv.Itoa(i), Input: 100}, &r); err != nil {
				b.Fatal(err)
			}
			r.Settle(quota.Used{Uncached: 100})
		}
		b.ReportMetric(float64(heap()-before)/1e6, "MB/busy")
		require.Equal(b, tenants, l.Totals().Buckets)
		clock.add(2 * time.Minute)
		l.Sweep()
		require.Zero(b, l.Totals().Buckets)
		b.ReportMetric(max(float64(heap())-float64(before), 0)/1e6, "MB/idle")
		runtime.KeepAlive(l)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
