package kvsteer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// A proxy spells addresses as it likes.
func TestAddressesAreComparedAsSuch(t *testing.T) {
	t.Parallel()
	for url, addresses := range map[string]map[string]bool{
		"http://[2001:db8:0::1]:8000": {"[2001:db8::1]:8000": true, "[2001:DB8::1]:8000": true, "[2001:db8::2]:8000": false, "[2001:db8::1]:80": false},
		"http://10.0.0.7":             {"10.0.0.7:80": true, "[::ffff:10.0.0.7]:80": true, "10.0.0.7": true, "10.0.0.7:443": false},
		"https://Engine.example":      {"engine.example:443": true, "engine.example:80": false, "other.example:443": false, "": false},
	} {
		f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "w", URL: url})})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(f.Snapshot().Members()) == 1 }, 30*time.Second, time.Millisecond)
		m := f.Snapshot().Members()[0]
		for address, want := range addresses {
			require.Equal(t, want, isAt(m, address), "%s %s", url, address)
		}
		require.True(t, named(m, []string{"x", "w"}))
		require.NoError(t, f.Close())
	}
}
