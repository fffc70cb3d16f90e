package dns_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSearchEnds: a name further down the search list may be a wildcard's, with
// somebody else's address.
func TestSearchEnds(t *testing.T) {
	const conf = "search nobody.test mine.test wild.test\noptions ndots:5"
	for name, lose := range map[string]func(*server){
		"scaled to 0": func(s *server) { s.put("vllm.mine.test.") },
		"removed":     func(s *server) { s.drop("vllm.mine.test.") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.put("vllm.wild.test.", addressesOf("10.66.6.6")...)
			s.put("vllm.mine.test.")
			d := s.discoverer()
			d.Name = "vllm"
			look := func(want ...string) {
				t.Helper()
				records, err := d.Search(t.Context(), conf)
				require.NoError(t, err)
				got := []string{}
				for _, r := range records {
					got = append(got, r.Addr.Addr().String())
				}
				assert.ElementsMatch(t, want, got)
			}
			look() // it exists, and has nobody yet
			s.put("vllm.mine.test.", addressesOf("10.0.0.1")...)
			look("10.0.0.1")
			lose(s)
			look()
			s.put("vllm.mine.test.", addressesOf("10.0.0.2")...)
			look("10.0.0.2")
		})
	}
	s := newServer(t)
	s.put("vllm.wild.test.", addressesOf("10.0.0.3")...)
	d := s.discoverer()
	d.Name = "vllm"
	records, err := d.Search(t.Context(), conf)
	require.NoError(t, err)
	assert.Len(t, records, 1, "those that don't exist are passed over")
}
