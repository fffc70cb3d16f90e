package follow_test

import (
	"maps"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// drawn returns the arrows of the trust diagram with their numbers.
func drawn(t *testing.T) map[[2]string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)
	arrows := map[[2]string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ {4}(\w+) --> (\w+): (\d)$`).FindAllStringSubmatch(string(page), -1) {
		arrows[[2]string{m[1], m[2]}] = m[3]
	}
	require.NotEmpty(t, arrows)
	return arrows
}

// What the documentation draws of a Follower's doings is what it does: nothing
// else, and all of it.
func TestTrustIsAsDrawn(t *testing.T) {
	t.Parallel()
	arrows := drawn(t)
	// By number: 1 and 6 are the router's. To a Follower whatever it has not spoken
	// of yet is Blind.
	wanted := map[string]bool{"2": true, "3": true, "4": true, "5": true, "8": true}
	names := map[kvcache.Trust]string{
		kvcache.Blind: "Blind", kvcache.Approximate: "Approximate", kvcache.Suspect: "Suspect",
		kvcache.Resyncing: "Resyncing", kvcache.Exact: "Exact",
	}
	seen := map[string]bool{}
	for _, life := range []func(w *world){
		func(w *world) { // exact from the start, a gap, the end
			w.start()
			w.publish("S1")
			w.pipe.Lose(1)
			w.pipe.Mute(true)
			w.publish("S2", "S3")
			w.pass(time.Minute)
			w.pipe.Mute(false)
			w.pass(time.Minute)
			w.expectExact()
		},
		func(w *world) { // late, cleared, stale
			w.publish("S1", "S2")
			w.pipe.Trim(1)
			w.start()
			w.expectLess(follow.ReasonWrapped)
			w.publish("C")
			w.expectExact()
			require.NoError(w.t, w.pipe.Close())
			w.pass(time.Hour)
			assert.Equal(w.t, kvcache.Blind, w.trust())
			w.pipe = nil
			w.open(follow.PipeOptions{})
			w.pass(time.Minute)
		},
		func(w *world) { // a bound, and its end
			x := w.withLedger()
			w.start()
			w.publish("S1", "S2")
			x.lose(w.owners[0], kvcache.ReasonEvicted, 1)
			w.publish("S3")
			assert.Equal(w.t, follow.ReasonEvicted, w.f.Stats().Reason)
			w.pass(time.Minute)
			w.expectExact()
		},
		func(w *world) { // conflict, promotion
			w.start()
			w.publish("S1", "S2")
			w.publishForged(0, "7|-1|S66")
			w.f.Promote()
			w.pass(time.Minute)
			w.expectExact()
		},
	} {
		inWorld(t, func(w *world) {
			life(w)
			require.NoError(w.t, w.f.Close())
			for _, c := range w.changes {
				arrow := [2]string{names[c.From], names[c.To]}
				number, ok := arrows[arrow]
				assert.True(w.t, ok, "%v is not drawn", arrow)
				seen[number] = true
			}
		})
	}
	assert.Equal(t, wanted, maps.Clone(seen))
}
