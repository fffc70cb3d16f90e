package prometheus_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// The lines between the markers stand in docs/metrics.md; TestDocumentIsThisCode compares
// them.
func embed(workers *fleet.Fleet, registry *prom.Registry) error {
	// DOCS begin
	metrics, err := prometheus.New(prometheus.Options{}) // github.com/kvsteer/kvsteer/integrations/prometheus
	if err != nil {
		return err
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(metrics))
	if err != nil {
		return err
	}
	metrics.Attach(router)
	registry.MustRegister(metrics) // a *prometheus.Registry of client_golang, which is yours
	// DOCS end
	_, err = registry.Gather()
	return errors.Join(err, router.Close())
}

func TestDocumentIsThisCode(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "\t// DOCS begin\n")
	require.True(t, ok)
	code, _, ok = strings.Cut(code, "\t// DOCS end\n")
	require.True(t, ok)
	var plain strings.Builder
	for line := range strings.Lines(code) {
		plain.WriteString(strings.TrimPrefix(line, "\t"))
	}
	require.Contains(t, string(text), "```go\n"+plain.String()+"```")

	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	require.NoError(t, embed(workers, prom.NewRegistry()))
	require.NoError(t, workers.Close())
}

func ExampleNew() {
	metrics, err := prometheus.New(prometheus.Options{MaxSeries: 10_000})
	if err != nil {
		panic(err)
	}
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	if err != nil {
		panic(err)
	}
	defer workers.Close()
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(metrics))
	if err != nil {
		panic(err)
	}
	defer router.Close()
	metrics.Attach(router)

	registry := prom.NewRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "kvsteer_metrics_series_limit" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: kvsteer_metrics_series_limit 10000
}
