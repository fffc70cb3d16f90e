package extproc_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/integrations/extproc"
)

// Whenever a stream ends, and however, what was booked is released.
func TestStreamsThatEndEarlyRelease(t *testing.T) {
	r := newRig(t, rigConfig{})
	ends := map[string]func(p *proxy){
		"cancelled": func(p *proxy) { p.cancel() },
		"closed":    func(p *proxy) { _ = p.stream.CloseSend() },
	}
	for name, end := range ends {
		for stage := range 5 {
			p := r.open(duplex, duplex)
			p.send(requestHeaders("POST", "/v1/chat/completions", false))
			if stage > 0 {
				p.send(requestBody(chat(true), stage > 1))
			}
			if stage > 2 {
				p.routed(duplex, true)
				p.send(answerHeaders("200", "text/event-stream", false))
			}
			if stage > 3 {
				p.send(answerBody(firstEvent, false))
			}
			end(p)
			for {
				if _, err := p.stream.Recv(); err != nil {
					break
				}
			}
			r.idle()
			if stage > 2 {
				require.ErrorIs(t, r.seen.last(t).Err, context.Canceled, "%s %d: no worker is blamed", name, stage)
			}
		}
	}
}

// A prompt may take longer than a request may be silent.
func TestWaitingForTheAnswerIsNotForgetting(t *testing.T) {
	// A machine that pauses for longer than a request may be silent is no reason to fail.
	for idle := 2 * time.Second; !outlasts(t, idle); idle *= 2 {
		require.Less(t, idle, wait)
	}
}

// outlasts reports whether a request outlasts twice the time that it may be silent for.
func outlasts(t *testing.T, idle time.Duration) bool {
	t.Helper()
	r := newRig(t, rigConfig{
		options: []kvsteer.Option{kvsteer.WithMaxIdle(idle)},
		server:  func(s *extproc.Server) { s.TouchEvery(idle / 100) },
	})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	p.routed(duplex, true)
	time.Sleep(2 * idle)
	if r.router.InFlight() == 0 {
		return false
	}
	p.send(answerHeaders("200", "text/event-stream", false))
	p.receive()
	p.send(answerBody(firstEvent+doneEvent, true))
	p.receive()
	r.idle()
	return r.seen.last(t).Err == nil
}

// A client that leaves while its request waits for a worker leaves the line, although
// Envoy only closes its side of the stream.
func TestLeavingTheQueue(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: time.Hour}), kvsteer.WithPredictor(never{}),
	}})
	busy := r.busy()
	require.NoError(t, busy[len(busy)-1].stream.CloseSend())
	require.Eventually(t, func() bool { return r.router.Waiting() == 0 }, wait, tick)
	for _, b := range busy {
		b.cancel()
	}
	r.idle()
}

// So does one that Envoy answers itself, whatever has come before that.
func TestAnswersOfEnvoyEndTheWait(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: time.Hour}), kvsteer.WithPredictor(never{}),
	}})
	busy := r.busy()
	last := busy[len(busy)-1]
	last.send(requestBody("", true)) // the end, once more
	last.send(answerHeaders("504", "text/plain", false))
	require.Eventually(t, func() bool { return r.router.Waiting() == 0 }, wait, tick)
	require.NotNil(t, last.receive().GetResponseHeaders(), "no answer of ours")
	last.send(answerBody("slow", true))
	require.Equal(t, "slow", string(last.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()))
	for _, b := range busy {
		b.cancel()
	}
	r.idle()
}

// Who leaves after that, too.
func TestLeavingTheQueueAfterMore(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: time.Hour}), kvsteer.WithPredictor(never{}),
	}})
	busy := r.busy()
	last := busy[len(busy)-1]
	last.send(requestBody("", true))
	require.NoError(t, last.stream.CloseSend())
	require.Eventually(t, func() bool { return r.router.Waiting() == 0 }, wait, tick)
	for _, b := range busy {
		b.cancel()
	}
	r.idle()
}

// never predicts that everything takes long.
type never struct{}

func (never) Predict(f []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range f {
		out[i] = kvsteer.Prediction{TTFT: time.Hour, Prefill: time.Hour}
	}
}

func (never) Observe(*kvsteer.Features, time.Duration) {}

// busy has requests on their way, the last of which waits.
func (r *rig) busy() (all []*proxy) {
	for r.router.Waiting() == 0 {
		require.Less(r.t, len(all), 1000, "nothing waits")
		p := r.open(duplex, duplex)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		all = append(all, p)
		require.Eventually(r.t, func() bool { return r.router.InFlight()+r.router.Waiting() == len(all) }, wait, tick)
	}
	return all
}

func TestShedLoadIs429(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: time.Millisecond}), kvsteer.WithPredictor(never{}),
	}})
	busy := []*proxy{}
	for range 100 {
		p := r.open(duplex, duplex)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		m := p.receive()
		if d := m.GetImmediateResponse(); d != nil {
			require.Equal(t, http.StatusTooManyRequests, int(d.GetStatus().GetCode()))
			names := map[string]bool{}
			for _, h := range d.GetHeaders().GetSetHeaders() {
				names[h.GetHeader().GetKey()] = true
			}
			require.True(t, names["retry-after"])
			require.Contains(t, string(d.GetBody()), "overloaded_error")
			for _, b := range busy {
				b.cancel()
			}
			r.idle()
			return
		}
		busy = append(busy, p)
	}
	t.Fatal("no request was shed")
}

func TestHealthAndStopping(t *testing.T) {
	var ready atomic.Bool
	ready.Store(true)
	r := newRig(t, rigConfig{
		extproc: extproc.Options{Ready: ready.Load},
		serve:   extproc.ServeOptions{Notice: 2 * time.Second, Grace: wait},
	})
	health := healthv1.NewHealthClient(r.conn)
	check := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		resp, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		return resp.GetStatus()
	}
	names := []string{"", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"}
	for _, name := range names {
		require.Equal(t, healthv1.HealthCheckResponse_SERVING, check(name), name)
	}
	_, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "other"})
	require.Equal(t, codes.NotFound, status.Code(err))
	ready.Store(false)
	for _, name := range names {
		require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, check(name), name)
	}
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, check("liveness"))
	ready.Store(true)
	watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, first.GetStatus())

	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	p.routed(duplex, true)
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	next, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, next.GetStatus(), "readiness fails first")
	p.send(answerHeaders("200", "text/event-stream", false)) // while the request goes on
	p.receive()
	p.send(answerBody(firstEvent+doneEvent, true))
	p.receive()
	require.NoError(t, p.stream.CloseSend())
	require.NoError(t, p.ended())
	require.NoError(t, <-stopped)
	require.NoError(t, r.seen.last(t).Err)
	r.idle()
}

func TestStoppingWithoutGrace(t *testing.T) {
	r := newRig(t, rigConfig{serve: extproc.ServeOptions{Grace: time.Millisecond}})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	p.routed(duplex, true)
	require.ErrorContains(t, r.stop(), "still open")
	r.idle()
}
