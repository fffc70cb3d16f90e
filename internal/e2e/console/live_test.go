//go:build e2e

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// stall is a way to the console on which, from some time on, nothing comes any more: neither
// data, nor an error, nor an end.
type stall struct {
	mu      sync.Mutex
	stalled bool
	stop    chan struct{}
}

func (s *stall) set() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = true
}

func (s *stall) hold() {
	s.mu.Lock()
	stalled := s.stalled
	s.mu.Unlock()
	if stalled {
		<-s.stop
	}
}

type stallable struct {
	io.ReadCloser
	s *stall
}

func (b stallable) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.s.hold()
	return n, err
}

// A page that says "Live" and shows what was true a while ago is worse than none.
func TestDeadDataIsNotCalledLive(t *testing.T) {
	r := busy(t, showFleet()[:2])
	s := &stall{stop: make(chan struct{})}
	to := &url.URL{Scheme: "http", Host: r.address}
	way := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
		FlushInterval:  -1,
		ModifyResponse: func(a *http.Response) error { a.Body = stallable{a.Body, s}; return nil },
	})
	t.Cleanup(way.Close)
	t.Cleanup(sync.OnceFunc(func() { close(s.stop) }))
	p := open(t, &rig{address: way.Listener.Addr().String()}, looks()[0])
	p.until(`document.getElementById('connection').dataset.state === 'live'`)
	s.set()
	p.until(`document.getElementById('connection').dataset.state === 'lost'`)
	p.until(`/^No data, \d.* old$/.test(document.getElementById('connection').textContent)`)
	p.click("#pause")
	p.until(`/^Paused · No data, /.test(document.getElementById('connection').textContent)`)
	p.click("#pause")
	require.Equal(t, "lost", eval[string](p, `document.getElementById('connection').dataset.state`), "to go on makes no connection")
	require.NotEmpty(t, eval[string](p, `document.getElementById('fleet-cards').innerText`), "what was known stays")
	p.clean()
}

// To click into a table gives it the focus; it goes on to tell what happens.
func TestWhatIsClickedGoesOn(t *testing.T) {
	r := busy(t, showFleet()[:3])
	p := open(t, r, looks()[0])
	for _, v := range []struct{ name, body string }{{"policy", "policy-body"}, {"refusals", "refusals-body"}} {
		p.view(v.name)
		p.until(`document.querySelector('#` + v.body + ` .scroll td')`)
		p.click("#" + v.body + " .scroll")
		p.until(`document.getElementById('` + v.body + `').contains(document.activeElement)`)
		was := eval[string](p, `document.getElementById('`+v.body+`').textContent`)
		p.until(`document.getElementById('` + v.body + `').textContent !== ` + quoted(was))
		require.True(t, eval[bool](p, `document.getElementById('`+v.body+`').contains(document.activeElement)`), "it keeps the focus")
	}
	p.clean()
}

// Who can't be asked has no wait, and every worker has a column.
func TestADeadWorkerLooksDead(t *testing.T) {
	r := busy(t, showFleet()[:3])
	p := open(t, r, looks()[0])
	const card = `[...document.querySelectorAll('#fleet-cards .card')].find(e => e.querySelector('h3').textContent === 'gpu-a100-1')`
	p.until(card + ` && ` + card + `.querySelector('.badge[data-kind=exact]')`)
	require.NoError(t, r.engines[1].Kill())
	p.until(card + `.querySelector('.wait strong').textContent === '–' && !` + card + `.querySelector('.badge[data-kind=exact]')`)
	p.view("heat")
	p.until(`document.querySelectorAll('table.heat .column').length === 4`) // one worker has two ranks
	p.until(`document.querySelectorAll('table.heat .column[data-out]').length === 1`)
	p.clean()
}
