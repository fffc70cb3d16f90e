// Package prometheus shows a [kvsteer.Router] to Prometheus: whether routing is exact, what
// it saves, how fast answers begin, how busy workers are, and what was refused.
//
//	metrics, err := prometheus.New(prometheus.Options{})
//	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(metrics))
//	metrics.Attach(router)
//	registry.MustRegister(metrics)
//
// A [Metrics] is both a hook, which counts what happens to requests, and a collector, which
// reads the router and its fleet when it is scraped. It has no globals and registers itself
// nowhere. docs/metrics.md lists every metric with what it is good for; the folders
// dashboard and alerts hold a Grafana dashboard and alert rules.
//
// # How many series
//
// [Options.MaxSeries] bounds them, whatever clients, tenants and workers are called.
// Requests have no series of their own and clients choose no label: a model's name is that
// of a worker's model, a tenant's is [kvsteer.Decision.TenantLabel], which a label policy
// has given. Half of what is left after the metrics without such labels is for workers, a
// quarter each for models and tenants. What comes on top counts under the label "other", and
// kvsteer_metrics_folded says that it does. Names that are no valid text, or longer than 128
// bytes, are shortened, with a hash of all of it; one of more than 512 is nobody's and counts
// under "other".
//
// The series of a worker end with the scrape that no longer finds it in the fleet, those of
// a model when no worker serves it and no request has used it for an hour.
//
// # Cost
//
// About a microsecond for a request. A scrape takes each lock of the router's index for a
// moment, so once in a few seconds is often enough.
package prometheus
