package extproc_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/integrations/extproc"
)

// turnedDown is a hook that keeps what refusals say, one line each.
type turnedDown struct {
	mu   sync.Mutex
	told []string
}

func (h *turnedDown) OnRefusal(f *kvsteer.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, f.API+"|"+f.Err.Code.String())
}

func (h *turnedDown) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.told...)
}

// Whoever turns a request down, Envoy's server or the router, the hooks are told once.
func TestEveryRefusalIsToldOnce(t *testing.T) {
	const path = "/v1/chat/completions"
	subset := func(p *proxy, list string) {
		p.send(with(requestHeaders("POST", path, false), "envoy.lb.subset_hint", extproc.HeaderDestination+"-subset", structpb.NewStringValue(list)))
	}
	for name, c := range map[string]struct {
		modes  func(*rig) *proxy
		extra  extproc.Options
		do     func(*proxy)
		want   string
		leaves bool
	}{
		"a path":    {do: func(p *proxy) { p.send(requestHeaders("POST", "no path", false)) }, want: "|bad request"},
		"too large": {do: func(p *proxy) { p.send(requestHeaders("POST", path, false, "content-length", "99999999999")) }, want: "chat completions|request too large"},
		"in the end": {do: func(p *proxy) {
			p.send(requestHeaders("POST", path, false))
			p.send(requestBody(strings.Repeat("x", 7<<20), false))
			p.send(requestBody(strings.Repeat("x", 7<<20), true))
		}, want: "chat completions|request too large"},
		"an upgrade": {do: func(p *proxy) {
			p.send(requestHeaders("GET", "/v1/realtime", false, "upgrade", "websocket", "connection", "upgrade"))
		}, want: "|not forwarded"},
		"no subset":  {do: func(p *proxy) { subset(p, ""); p.send(requestBody(chat(true), true)) }, want: "chat completions|no candidates"},
		"Describe":   {extra: extproc.Options{Describe: func(_ *http.Request, q *kvsteer.Request) { q.Among = []string{"x:1"} }}, do: func(p *proxy) { subset(p, "y:1"); p.send(requestBody(chat(true), true)) }, want: "chat completions|no candidates"},
		"no body":    {modes: func(r *rig) *proxy { return r.open(none, streamed) }, do: func(p *proxy) { p.send(requestHeaders("POST", path, false)) }, want: "chat completions|upstream failed"},
		"no headers": {do: func(p *proxy) { p.send(requestBody(chat(true), true)) }, want: "|upstream failed"},
		"trailers":   {modes: func(r *rig) *proxy { return r.open(buffered, streamed) }, do: func(p *proxy) { p.send(requestHeaders("POST", path, false)); p.receive(); p.send(requestTrailers()) }, want: "chat completions|bad request"},
		"a panic":    {extra: extproc.Options{Describe: func(*http.Request, *kvsteer.Request) { panic("canary") }}, do: func(p *proxy) { p.send(requestHeaders("POST", path, false)); p.send(requestBody(chat(true), true)) }, want: "chat completions|upstream failed"},
		"it left": {do: func(p *proxy) {
			p.send(requestHeaders("POST", path, false))
			require.NoError(p.t, p.stream.CloseSend())
		}, want: "chat completions|canceled", leaves: true},
		"the router":  {do: func(p *proxy) { p.send(requestHeaders("POST", path, false)); p.send(requestBody("{", true)) }, want: "chat completions|bad request"},
		"not allowed": {do: func(p *proxy) { p.send(requestHeaders("GET", "/admin", true)) }, want: "|not forwarded"},
		"no model":    {do: func(p *proxy) { p.send(requestHeaders("GET", "/v1/models/x", true)) }, want: "|unknown model"},
	} {
		t.Run(name, func(t *testing.T) {
			hook := &turnedDown{}
			r := newRig(t, rigConfig{extproc: c.extra, options: []kvsteer.Option{kvsteer.WithHooks(hook)}})
			if c.modes == nil {
				c.modes = func(r *rig) *proxy { return r.open(duplex, duplex) }
			}
			p := c.modes(r)
			c.do(p)
			if !c.leaves {
				p.denied()
				_ = p.stream.CloseSend()
			}
			_ = p.ended()
			require.Eventually(t, func() bool { return len(hook.all()) > 0 }, wait, tick)
			require.Equal(t, []string{c.want}, hook.all())
			r.idle()
		})
	}
}

// A hook that panics when it is told of a refusal does not keep it from being answered.
func TestAHookThatPanicsAtARefusal(t *testing.T) {
	r := newRig(t, rigConfig{options: []kvsteer.Option{kvsteer.WithHooks(badRefusal{})}})
	for _, body := range []string{"", "{"} {
		p := r.open(duplex, duplex)
		if body == "" {
			p.send(requestHeaders("POST", "no path", false))
		} else {
			p.send(requestHeaders("POST", "/v1/chat/completions", false))
			p.send(requestBody(body, true))
		}
		p.denied()
	}
	r.idle()
}

type badRefusal struct{}

func (badRefusal) OnRefusal(*kvsteer.Refusal) { panic("canary") }
