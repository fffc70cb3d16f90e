package kvcachetest

// TransportCases returns the names of TestTransport's subtests.
func TransportCases() []string {
	var names []string
	for _, c := range transportCases() {
		names = append(names, c.name)
	}
	return names
}
