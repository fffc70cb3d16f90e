package kvsteer_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// BenchmarkTenancy is what WithTenancy adds to a choice among four workers for a chat of
// 20 kB whose token ids are known: a key of 1,000 looked up, four levels of limits with a
// budget, a price, a record reserved and one settled, a salt in the body.
func BenchmarkTenancy(b *testing.B) {
	e := fleettest.New(b, fleettest.Config{Name: "e", Model: testModel, Speed: 1000})
	workers := make([]fleet.Worker, 4)
	for i := range workers {
		workers[i] = fleet.Worker{Name: fmt.Sprint("w", i), URL: e.URL(), Models: []string{testModel}}
	}
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: time.Minute, ProbeTimeout: time.Minute, ScrapeInterval: time.Minute,
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	require.Eventually(b, func() bool { return f.Snapshot().Routable() == len(workers) }, wait, tick)

	secret := func(i int) string { return fmt.Sprintf("kv-%060d", i) }
	keys := make([]tenancy.Key, 1000)
	for i := range keys {
		hash, err := tenancy.HashKey(secret(i))
		require.NoError(b, err)
		keys[i] = tenancy.Key{Hash: hash, Identity: tenancy.Identity{
			Key: fmt.Sprint("k", i), Org: "acme", Team: fmt.Sprint("team", i%10), Tenant: fmt.Sprint("t", i%100),
		}}
	}
	who, err := tenancy.NewKeys(tenancy.KeysOptions{}, keys...)
	require.NoError(b, err)
	const plenty = 1 << 31
	limits, err := quota.New(quota.Options{Rules: []quota.Rule{
		{Name: "org", Scope: quota.PerOrg, Tokens: perMinute(plenty), Budget: quota.Budget{Money: 1 << 50, Period: quota.Month}},
		{Name: "team", Scope: quota.PerTeam, Tokens: perMinute(plenty), Concurrency: 1 << 20},
		{Name: "tenant", Scope: quota.PerTenant, Tokens: perMinute(plenty)},
		{Name: "key", Scope: quota.PerKey, Requests: perMinute(plenty)},
	}})
	require.NoError(b, err)
	prices, err := price.New([]price.Entry{{Model: "*", Prices: price.Prices{Input: 100_000, Output: 400_000}}}, nil)
	require.NoError(b, err)
	book, err := ledger.New(ledger.Options{Sink: ledger.SinkFunc(func(context.Context, []ledger.Record) error { return nil })})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, book.Close()) })

	ids := randomTokens(1, 4000)
	body := []byte(chatBody(fleettest.Text(1, 4000), true))
	for name, o := range map[string][]kvsteer.Option{
		"without": nil,
		"with": {kvsteer.WithTenancy(kvsteer.TenancyOptions{
			Identify: who, Limits: limits, Prices: prices, Ledger: book, Salter: testSalter(b),
		})},
	} {
		b.Run(name, func(b *testing.B) {
			r, err := kvsteer.New(append(o, kvsteer.WithFleet(f), kvsteer.WithSeed(1))...)
			require.NoError(b, err)
			defer func() { require.NoError(b, r.Close()) }()
			b.ReportAllocs()
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				q := &kvsteer.Request{
					API: kvsteer.ChatCompletions, Body: body, TokenIDs: ids,
					Header: http.Header{"Authorization": {"Bearer " + secret(i%len(keys))}},
				}
				began := time.Now()
				s, err := r.Select(context.Background(), q)
				if err != nil {
					b.Fatal(err)
				}
				s.FirstToken()
				s.Done(kvsteer.Usage{Known: true, Uncached: 4000, Output: 100})
				took = append(took, time.Since(began))
			}
			b.ReportMetric(microseconds(took, 0.5), "p50-us")
			b.ReportMetric(microseconds(took, 0.99), "p99-us")
		})
	}
}
