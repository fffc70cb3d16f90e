package extproc_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/integrations/extproc"
)

func TestAPanicIsAnswered(t *testing.T) {
	r := newRig(t, rigConfig{extproc: extproc.Options{Describe: func(*http.Request, *kvsteer.Request) { panic("canary") }}})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	d := p.denied()
	require.Equal(t, http.StatusServiceUnavailable, d.status)
	require.NotContains(t, d.body, "canary")
	r.idle()
}

// bad panics at the end of each request.
type bad struct{ heard atomic.Int64 }

func (b *bad) OnOutcome(*kvsteer.Outcome) { b.heard.Add(1); panic("canary") }

// However a request ends, a hook that panics then ends neither the process nor the others.
func TestHooksThatPanicAtTheEnd(t *testing.T) {
	hook := &bad{}
	r := newRig(t, rigConfig{options: []kvsteer.Option{kvsteer.WithHooks(hook)}})
	for stage := range 3 {
		p := r.open(duplex, duplex)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		p.routed(duplex, true)
		if stage > 0 {
			p.send(answerHeaders("200", "text/event-stream", false))
			p.receive()
		}
		if stage > 1 {
			p.send(answerBody(firstEvent+doneEvent, true))
		}
		require.NoError(t, p.stream.CloseSend())
		_ = p.ended()
		r.idle()
		require.Eventually(t, func() bool { return hook.heard.Load() > int64(stage) }, wait, tick)
		require.EqualValues(t, stage+1, hook.heard.Load())
	}
}

func TestReadyThatPanicsIsNotReady(t *testing.T) {
	r := newRig(t, rigConfig{extproc: extproc.Options{Ready: func() bool { panic("canary") }}})
	resp, err := healthv1.NewHealthClient(r.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, resp.GetStatus())
}
