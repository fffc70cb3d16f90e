package prometheus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// What routers share is shown as it is when it is scraped, and why the store is down, which
// may name its address, is not. Without the options there are no such series.
func TestSharedStore(t *testing.T) {
	_, reg := alone(t, prometheus.Options{})
	for name := range gather(t, reg) {
		require.NotRegexp(t, "^kvsteer_(limit_store|replica_carrier)_", name)
	}

	limits := prometheus.LimitStore{Running: 1, Waiting: 2, Without: 3, Expired: 4, Dropped: 5, Failed: 6}
	carried := prometheus.Carrier{
		Published: 7, Failed: 8, Received: 9, Malformed: 10, OtherVersion: 11, Lost: 12, SentBytes: 13, ReceivedBytes: 14,
	}
	_, reg = alone(t, prometheus.Options{
		LimitStore: func() prometheus.LimitStore { return limits },
		Carrier:    func() prometheus.Carrier { return carried },
	})
	value := func(name string, labels ...string) float64 {
		f := gather(t, reg)["kvsteer_"+name]
		require.NotNil(t, f, name)
		require.NotContains(t, f.String(), "secret")
		return sum(f, labels...)
	}
	for want, of := range map[float64]string{
		1: "limit_store_running_requests", 2: "limit_store_waiting_ends",
		3: "limit_store_requests_total reason without", 4: "limit_store_requests_total reason expired",
		5: "limit_store_requests_total reason dropped", 6: "limit_store_requests_total reason failed",
		7: "replica_carrier_messages_total result published", 8: "replica_carrier_messages_total result failed",
		9: "replica_carrier_messages_total result received", 10: "replica_carrier_messages_total result malformed",
		11: "replica_carrier_messages_total result other version", 12: "replica_carrier_lost_total",
		13: "replica_carrier_bytes_total direction sent", 14: "replica_carrier_bytes_total direction received",
	} {
		parts := strings.SplitN(of, " ", 3)
		require.InDelta(t, want, value(parts[0], parts[1:]...), 0, of)
	}
	require.InDelta(t, 1, value("limit_store_up"), 0)
	limits.Down = errors.New("redis://:secret@host is away")
	require.InDelta(t, 0, value("limit_store_up"), 0)
}
