//go:build unix

package redis

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var fourLevels = quota.Options{Rules: []quota.Rule{
	{Name: "org", Scope: quota.PerOrg, Tokens: quota.Rate{Amount: 1 << 31}, Concurrency: 1 << 20},
	{Name: "team", Scope: quota.PerTeam, Tokens: quota.Rate{Amount: 1 << 31}},
	{Name: "tenant", Scope: quota.PerTenant, PerModel: true, Tokens: quota.Rate{Amount: 1 << 31}, Requests: quota.Rate{Amount: 1 << 31}},
	{Name: "key", Scope: quota.PerKey, Requests: quota.Rate{Amount: 1 << 31}},
}}

func benchmark(b *testing.B, rules quota.Options) {
	b.Helper()
	s := newServer(b)
	d := quota.Demand{Org: "org", Team: "team", Tenant: "tenant", Key: "key", Model: "model", Input: 100, Output: 10}
	l := s.limiter(b, Options{Rules: rules})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		h, err := l.Admit(ctx, &d)
		require.NoError(b, err)
		h.Settle(quota.Used{Uncached: 90, CacheRead: 10, Output: 8})
	}
	b.StopTimer()
	l.settled(b)
	if st := l.Stats(); st.Without+st.Dropped+st.Failed+st.Expired > 0 {
		b.Fatalf("%+v", st)
	}
}

// BenchmarkAdmit reserves in four buckets and settles, with a Redis on a socket of this
// machine; the settling is in the background, and takes of the same two processors.
func BenchmarkAdmit(b *testing.B) { benchmark(b, fourLevels) }

// BenchmarkAdmitOne is with one bucket.
func BenchmarkAdmitOne(b *testing.B) {
	benchmark(b, quota.Options{Rules: fourLevels.Rules[2:3]})
}

// BenchmarkAdmitParallel is what many requests at once come to.
func BenchmarkAdmitParallel(b *testing.B) {
	s := newServer(b)
	d := quota.Demand{Org: "org", Team: "team", Tenant: "tenant", Key: "key", Model: "model", Input: 100, Output: 10}
	l := s.limiter(b, Options{Rules: fourLevels, Backlog: 1 << 20})
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h, err := l.Admit(context.Background(), &d)
			if err != nil {
				b.Error(err)
				return
			}
			h.Settle(quota.Used{Uncached: 90, CacheRead: 10, Output: 8})
		}
	})
}
