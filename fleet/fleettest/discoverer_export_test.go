package fleettest

// DiscovererCases returns the names of TestDiscoverer's subtests.
func DiscovererCases() []string {
	var names []string
	for _, c := range discovererCases() {
		names = append(names, c.name)
	}
	return names
}
