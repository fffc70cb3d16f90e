//go:build e2e

package main

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// busy is the demo under load, for as long as the test runs.
func busy(t *testing.T, members []member) *rig {
	t.Helper()
	r, err := start(t.Context(), "127.0.0.1:0", members, "a100")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.ask(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		r.close()
	})
	return r
}

func TestEveryViewUnderLoad(t *testing.T) {
	r := busy(t, showFleet())
	for _, l := range looks() {
		t.Run(l.name, func(t *testing.T) {
			p := open(t, r, l)
			p.until(`document.getElementById('connection').dataset.state === 'live'`)
			p.until(`document.querySelectorAll('#fleet-cards .card').length === 7`)
			p.until(`document.querySelectorAll('#tiles .spark i:not([data-none])').length >= 2`) // of decisions, and of times
			p.until(`document.querySelector('#fleet-cards .badge[data-kind=unhealthy]')`)
			for _, name := range []string{"fleet", "heat", "decisions", "policy", "refusals", "log"} {
				p.view(name)
				switch name {
				case "heat":
					p.until(`document.querySelectorAll('table.heat tbody tr').length >= 3 && document.querySelector('.cell[data-hot=much]')`)
				case "decisions":
					p.until(`[...document.querySelectorAll('#decisions-list .ttft')].filter(e => e.textContent.includes(', was ')).length > 5`)
					eval[int](p, `document.querySelector("#decisions-list summary").click(), 0`) // it moves too fast for a mouse
					p.until(`document.querySelectorAll('#decisions-list details[open] table.plain tbody tr').length >= 5`)
					p.until(`!document.getElementById('decisions-new').hidden`)
					require.True(t, eval[bool](p, `document.querySelector('#decisions-list details').open`), "new ones have pushed it away")
					p.shootAt(l, name)
					// Of the other 199, which are alike, axe would look at each, here and in the
					// views after this.
					first := eval[string](p, `document.querySelector('#decisions-list details[open] .id').textContent`)
					p.find(first)
					p.until(`document.querySelectorAll('#decisions-list > li').length < 15`)
				case "policy":
					p.until(`document.getElementById('policy-body').textContent.includes('spare-the-old-cards')`)
					p.until(`document.getElementById('policy-body').textContent.includes('Latest differences')`)
				case "refusals":
					p.until(`document.getElementById('refusals-body').textContent.includes('the trial has ended')`)
				case "log":
					p.until(`document.querySelectorAll('#log-list li').length > 0`)
				}
				p.fits(name)
				if l.judged {
					p.accessible(name)
				}
				if name != "decisions" {
					p.shootAt(l, name)
				}
			}
			p.silent()
			p.clean()
		})
	}
}

// shootAt takes a picture of a view from its top on; on a phone the figures above it would be
// all that it shows of decisions.
func (p *page) shootAt(l look, name string) {
	p.t.Helper()
	eval[int](p, `(document.getElementById('decisions-list').querySelector('details[open]') && innerWidth < 600 ? document.getElementById('decisions-filters').scrollIntoView() : scrollTo(0, 0), 0)`)
	p.shoot(l.name + "-" + name)
}

// find types into the filter of decisions.
func (p *page) find(words string) {
	p.t.Helper()
	eval[int](p, `(() => {
		const field = document.getElementById("decisions-find");
		field.value = `+quoted(words)+`;
		field.dispatchEvent(new Event("input", {bubbles: true}));
		return 0;
	})()`)
}

// silent fails if the prompts' canary is anywhere.
func (p *page) silent() {
	p.t.Helper()
	require.False(p.t, eval[bool](p, `document.documentElement.outerHTML.includes("`+canary+`")`))
	require.NotContains(p.t, eval[string](p, `fetch("state.json").then(r => r.text())`), canary)
}
