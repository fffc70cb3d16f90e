//go:build e2e

package main

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// press presses a key, and nothing else.
func (p *page) press(key string, options ...chromedp.KeyOption) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(key, options...))
}

// focused says what has the focus, and whether that can be seen.
func (p *page) focused() string {
	p.t.Helper()
	return eval[string](p, `(() => {
		const e = document.activeElement;
		if (!e || e === document.body) return "";
		const s = getComputedStyle(e);
		if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) return "INVISIBLE " + e.outerHTML.slice(0, 120);
		const r = e.getBoundingClientRect();
		if (r.width === 0 || r.height === 0) return "NOWHERE " + e.outerHTML.slice(0, 120);
		return e.id || e.hash || e.tagName.toLowerCase();
	})()`)
}

// tab presses Tab until what is wanted has the focus. Everything on the way must be seen.
func (p *page) tab(want string) {
	p.t.Helper()
	for range 80 {
		p.press(kb.Tab)
		at := p.focused()
		require.NotContains(p.t, at, "INVISIBLE")
		require.NotContains(p.t, at, "NOWHERE")
		if at == want {
			return
		}
	}
	require.Fail(p.t, "Tab does not lead to "+want)
}

func TestEveryViewByKeyboardAlone(t *testing.T) {
	r := busy(t, showFleet())
	for _, l := range looks() {
		if l.dark != l.phone { // one of each
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			p := open(t, r, l)
			p.until(`document.querySelectorAll('#fleet-cards .card').length === 7`)
			p.press(kb.Tab)
			require.Equal(t, "skip", p.focused(), "the first stop leads past the header")
			p.press(kb.Enter)
			p.until(`document.activeElement.id === 'main'`)
			p.press(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)) // back out
			for _, name := range []string{"fleet", "heat", "decisions", "policy", "refusals", "log"} {
				eval[int](p, `document.activeElement.blur(), scrollTo(0, 0), document.getElementById('pause').focus(), 0`)
				p.tab("#/" + name)
				p.press(kb.Enter)
				p.until(`!document.getElementById('view-` + name + `').hidden`)
				switch name {
				case "heat":
					p.until(`document.querySelectorAll('table.heat tbody tr').length >= 3`)
					p.tab("heat-scroll") // scrolls with the arrow keys
				case "decisions":
					p.until(`document.querySelectorAll('#decisions-list > li').length > 20`)
					p.tab("decisions-find")
					p.press("northcloud")
					p.until(`document.querySelectorAll('#decisions-list > li').length > 0 && [...document.querySelectorAll('#decisions-list .to')].every(e => e.textContent.includes('northcloud'))`)
					p.tab("summary")
					p.press(kb.Enter)
					p.until(`document.querySelector('#decisions-list details[open] table.plain')`)
					first := eval[string](p, `document.querySelector('#decisions-list details[open] .id').textContent`)
					p.until(`document.getElementById('decisions-new').hidden === false`) // new ones wait
					require.Equal(t, first, eval[string](p, `document.querySelector('#decisions-list details[open] .id').textContent`))
					require.Equal(t, "summary", p.focused(), "what is live does not take the focus away")
					p.press(" ")
					p.until(`!document.querySelector('#decisions-list details[open]')`)
				case "policy":
					p.until(`document.querySelectorAll('#policy-body table').length > 2`)
				}
			}
			p.clean()
		})
	}
}

func TestPauseStopsAllThatMoves(t *testing.T) {
	r := busy(t, showFleet())
	p := open(t, r, looks()[0])
	p.until(`document.querySelector('#tiles .spark i:not([data-none])')`)
	p.tab("pause")
	p.press(" ")
	p.until(`document.getElementById('pause').getAttribute('aria-pressed') === 'true'`)
	before := eval[string](p, `document.querySelector('main').innerText + document.getElementById('tiles').innerText`)
	decided := p.state()["sums"].(map[string]any)["decisions"].(float64)
	require.Eventually(t, func() bool {
		return p.state()["sums"].(map[string]any)["decisions"].(float64) > decided+20
	}, patience, 100e6)
	require.Equal(t, before, eval[string](p, `document.querySelector('main').innerText + document.getElementById('tiles').innerText`))
	p.press(kb.Enter)
	p.until(`document.getElementById('connection').dataset.state === 'live'`)
	p.until(`document.getElementById('tiles').innerText !== ` + quoted(before))
	p.clean()
}
