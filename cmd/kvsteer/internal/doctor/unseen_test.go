package doctor

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// checked are a report's findings of one check.
func checked(r *Report, check string) (found findings) {
	for _, f := range r.Workers[0].Checks {
		if f.Check == check {
			found = append(found, f)
		}
	}
	return found
}

// A prompt for which a model has no room fills no block: what is not cached of it is no fault.
func TestProbeThatFillsNoBlock(t *testing.T) {
	t.Parallel()
	e := engine(t, func(c *fleettest.Config) { c.BlockSize, c.MaxModelLen = 1024, 1024 })
	r := oneWorker(t, e.Worker())
	found := checked(r, "probe")
	require.Len(t, found, 1)
	assert.Equal(t, Skipped, found[0].Status)
	assert.Contains(t, found[0].Summary, "fill no block of 1024")
	assert.NotEqual(t, Fault, r.Status)
}

// Nothing is well about the events of a worker that does not answer.
func TestEventsOfADeadWorker(t *testing.T) {
	t.Parallel()
	r := oneWorker(t, fleet.Worker{Name: "gone", URL: "http://127.0.0.1:1"})
	found := checked(r, "events")
	require.Len(t, found, 1)
	assert.Equal(t, Skipped, found[0].Status)
	assert.Equal(t, 0, r.Counts.OK)
}

// What an engine says of itself neither controls a terminal nor hides in it.
func TestPrintable(t *testing.T) {
	t.Parallel()
	got := printable("a\x1b[31mb\u202ec\u200bd\u2066e\u00e9")
	assert.Equal(t, "a [31mbcdeé", got)
	assert.False(t, strings.ContainsRune(got, '\u202e'))
}
