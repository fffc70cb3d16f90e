//go:build e2e

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

func quoted(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// Names that would be markup, were they not only ever text.
func TestHostileNamesAreText(t *testing.T) {
	const evil = `<img src=x onerror=alert(1)>"'><script>alert(2)</script>`
	members := showFleet()[:2]
	for i := range members {
		members[i].class = evil
		members[i].config.Model = model
	}
	members[0].config.Name = evil
	members[0].config.Adapters = []fleettest.Adapter{{Name: evil + "-adapter"}}
	r := busy(t, members)
	p := open(t, r, looks()[0])
	p.until(`[...document.querySelectorAll('#fleet-cards h3')].some(e => e.textContent === ` + quoted(evil) + `)`)
	for _, name := range []string{"fleet", "heat", "decisions", "policy", "refusals", "log"} {
		p.view(name)
		if name == "decisions" {
			p.until(`document.querySelectorAll('#decisions-list > li').length > 5`)
			p.click("#decisions-list > li > details > summary")
			p.until(`document.querySelector('#decisions-list details[open] pre')`)
		}
		require.Zero(t, eval[int](p, `document.querySelectorAll('main img, main script, script:not([src="app.js"])').length`), name)
	}
	p.clean()
}

// Engines that come to harm are told of, to those who listen as well.
func TestWhatGoesWrongIsAnnounced(t *testing.T) {
	r := busy(t, showFleet()[:3])
	p := open(t, r, looks()[0])
	p.until(`document.getElementById('connection').dataset.state === 'live' && document.querySelectorAll('#fleet-cards .card').length === 4`)
	require.NoError(t, r.engines[1].Kill())
	p.until(`document.querySelectorAll('#fleet-cards .badge[data-kind=healthy]').length === 2`)
	p.until(`/Worker gpu-a100-1 is (suspect|unhealthy)/.test(document.getElementById('announcer').textContent)`)
	require.Equal(t, "polite", eval[string](p, `document.getElementById('announcer').getAttribute('aria-live')`))
	p.until(`document.title.startsWith('KVSteer 2/3')`)
	p.clean()
}

// Without a stream the page asks; without a console it says so, and comes back.
func TestWithoutAStream(t *testing.T) {
	r := busy(t, showFleet()[:2])
	p := open(t, r, looks()[0])
	p.until(`document.getElementById('connection').dataset.state === 'live'`)
	// The end of the stream and the 503 that answers the next are what is being tested.
	p.forgiving(func(problem string) bool {
		return strings.Contains(problem, "ERR_INCOMPLETE_CHUNKED_ENCODING") || strings.Contains(problem, "503")
	})
	require.NoError(t, r.console.Close())
	p.until(`document.getElementById('connection').dataset.state === 'lost'`)
	require.NotEmpty(t, eval[string](p, `document.getElementById('fleet-cards').innerText`), "what was known stays")
	p.clean()
}

func (p *page) forgiving(which func(string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgive = which
}
