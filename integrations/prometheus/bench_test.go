package prometheus_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// BenchmarkScrape is a scrape with as many series as there may be, text and all.
func BenchmarkScrape(b *testing.B) {
	for _, most := range []int{prometheus.DefaultMaxSeries, 2 * prometheus.DefaultMaxSeries} {
		b.Run(fmt.Sprint(most), func(b *testing.B) {
			r := fullHouse(b, prometheus.Options{MaxSeries: most}, 0)
			n := series(text(b, r.registry))
			reg := prom.NewRegistry() // the other kind is for tests
			require.NoError(b, reg.Register(r.metrics))
			h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{DisableCompression: true})
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				_, _ = io.Copy(io.Discard, w.Body)
			}
			b.ReportMetric(float64(n), "series")
		})
	}
}

// BenchmarkHooks is what one request costs.
func BenchmarkHooks(b *testing.B) {
	m, _ := alone(b, prometheus.Options{})
	d := decided("w", model)
	d.TenantLabel = "tenant"
	d.Degradations = []string{"token ids not from render: endpoint not available", "cache approximate: the worker publishes no KV events"}
	o := ended(d, nil)
	m.OnDecision(d)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.OnDecision(d)
			m.OnOutcome(o)
		}
	})
}
