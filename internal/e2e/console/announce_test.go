//go:build e2e

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is announced of a fleet, part of which is not listed, is what happened, and not who has
// moved into the list or out of it.
func TestWhatIsAnnouncedOfABigFleet(t *testing.T) {
	p := open(t, busy(t, showFleet()[:1]), looks()[0])
	changes := func(before, after string) []string {
		t.Helper()
		return eval[[]string](p, `import("/debug/kvsteer/fleet.js").then((m) => {
			const w = (name, health) => ({name, health, instance: name + "@1", routable: health === "healthy", draining: false, ranks: [{rank: 0, trust: "exact"}]});
			const fleet = (workers, routable, omitted, ...list) => ({fleet: {workers, routable, omitted}, workers: list, providers: []});
			return m.changes(`+before+`, `+after+`);
		})`)
	}
	require.Equal(t, []string{"Worker b is new.", "Worker a has left."},
		changes(`fleet(1, 1, 0, w("a", "healthy"))`, `fleet(1, 1, 0, w("b", "healthy"))`))
	require.Empty(t, changes(`fleet(300, 300, 44, w("a", "healthy"))`, `fleet(300, 300, 44, w("b", "healthy"))`),
		"a moved out of the list, and b into it")
	require.Equal(t, []string{"299 of 300 workers can take requests, before 300 of 300.", "Worker b is unhealthy."},
		changes(`fleet(300, 300, 44, w("a", "healthy"))`, `fleet(300, 299, 44, w("b", "unhealthy"), w("a", "healthy"))`),
		"who is listed as it fell ill fell ill")
	require.Equal(t, []string{"300 of 300 workers can take requests, before 299 of 300."},
		changes(`fleet(300, 299, 44, w("b", "unhealthy"), w("a", "healthy"))`, `fleet(300, 300, 44, w("a", "healthy"))`))
	require.Equal(t, []string{"Provider cloud is not ready for m."}, changes(
		`{...fleet(0, 0, 0), providers: [{name: "cloud", model: "m", ready: true}]}`,
		`{...fleet(0, 0, 0), providers: [{name: "cloud", model: "m", ready: false}]}`))

	eval[int](p, `import("/debug/kvsteer/dom.js").then((m) => { for (let i = 0; i < 12; i++) m.announce("Sentence " + i + "."); return 0; })`)
	p.until(`/Sentence 0[.].* And [0-9]+ other changes[.]/.test(document.getElementById("announcer").textContent)`)
	p.clean()
}
