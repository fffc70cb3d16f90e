package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
)

// providerSet are the series of one external provider that requests count in.
type providerSet struct {
	decisions, unready prom.Counter
	ends               [numEnds]prom.Counter
}

const (
	providerSeries = 2 + numEnds
	offerSeries    = numBreakers + 3
	numBreakers    = int(providers.BreakerHalfOpen) + 1
)

// offerReadings are of one model at one provider each.
type offerReadings struct {
	ready, inFlight, breaker, quota reading
}

func (m *Metrics) newOffers() offerReadings {
	return offerReadings{
		ready:    m.gauge("kvsteer_provider_ready", "1 if a request may be sent to the provider's model now.", "provider", "model"),
		inFlight: m.gauge("kvsteer_provider_in_flight_requests", "Our requests to the provider's model.", "provider", "model"),
		breaker: m.gauge("kvsteer_provider_breaker",
			"1 for the state that the circuit breaker of the provider's model is in.", "provider", "model", "state"),
		quota: m.gauge("kvsteer_provider_quota_remaining_ratio",
			"Share that is left of the quota of which least is left, where it is known.", "provider", "model"),
	}
}

func (m *Metrics) newProviders() {
	decisions := m.counter("kvsteer_provider_decisions_total", "Attempts for which an external provider was chosen.", "provider")
	ends := m.counter("kvsteer_provider_requests_total", "Requests that ended at an external provider, by how.", "provider", "outcome")
	unready := m.counter("kvsteer_provider_unready_total",
		"Attempts for which an external provider was not asked about, since it could take no request.", "provider")
	m.providers = newTable(maxProviders-1, func(_, label string) *providerSet {
		p := &providerSet{decisions: decisions.WithLabelValues(label), unready: unready.WithLabelValues(label)}
		fill(p.ends[:], ends, label, endNames[:])
		return p
	}, func(string) {})
}

// collectProviders shows how the models at providers stand. Those that are configured beyond
// the bound are not shown.
func (m *Metrics) collectProviders(set *providers.Set, ch chan<- prom.Metric) {
	if set == nil {
		m.read.hidden.offers.Store(0)
		return
	}
	g, now := &m.read.offers, m.opts.Now()
	shown, hidden := map[[2]string]bool{}, int64(0)
	for _, o := range set.All() {
		at := [2]string{labelOf(o.Provider(), true), labelOf(o.Model(), true)}
		if shown[at] {
			continue
		}
		if len(shown) == maxOffers {
			hidden++
			continue
		}
		shown[at] = true
		s := o.Standing(now)
		put(ch, g.ready, yes(s.Ready), at[:]...)
		put(ch, g.inFlight, s.InFlight, at[:]...)
		for b := range numBreakers {
			put(ch, g.breaker, yes(int(s.Breaker) == b), at[0], at[1], providers.Breaker(b).String())
		}
		if s.QuotaKnown {
			put(ch, g.quota, s.Remaining, at[:]...)
		}
	}
	m.read.hidden.offers.Store(hidden)
}

// passedOver counts the providers that could take no request.
func (m *Metrics) passedOver(d *kvsteer.Decision) {
	for i := range d.Unready {
		m.providers.get(only(d.Unready[i].Name)).unready.Inc()
	}
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}
