package prometheus

// Catalog lists every metric there is, for tests.
func (m *Metrics) Catalog() (list []Family) {
	for _, f := range m.catalog {
		list = append(list, Family{f.name, f.kind, f.help, f.labels})
	}
	return list
}

// Family is one metric.
type Family struct {
	Name, Kind, Help string
	Labels           []string
}

// Shares are how many workers, models and tenants have series of their own.
func (m *Metrics) Shares() (workers, models, tenants int) {
	return m.shares.workers, m.shares.models, m.shares.tenants
}

// Kinds are the values of the label of kvsteer_degradations_total, by how texts begin.
func Kinds() map[string]string {
	out := map[string]string{}
	for _, k := range kinds {
		out[k.begins] = k.reason
	}
	return out
}
