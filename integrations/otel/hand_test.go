package kvsteerotel_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/kvsteer/kvsteer"
)

func (r *rig) sel(body string) *kvsteer.Request {
	return &kvsteer.Request{
		API: kvsteer.ChatCompletions, Body: []byte(body), Header: http.Header{"Traceparent": {clientParent}},
	}
}

// send asks the Selection's worker.
func send(ctx context.Context, t *testing.T, client *http.Client, sel interface {
	Target() kvsteer.Target
	Body() []byte
}, change func(http.Header),
) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sel.Target().URL.String()+path, bytes.NewReader(sel.Body()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	change(req.Header)
	resp, err := client.Do(req)
	require.NoError(t, err)
	return resp
}

// By hand, with all that a Transport does: propagation, another attempt, the answer.
func TestByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	sel, err := r.tracer.Select(t.Context(), r.router, r.sel(
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	first := sel.Target().Worker
	r.engine(first).Faults().Fail(1, http.StatusServiceUnavailable, 0)
	propagated := &http.Client{Transport: kvsteer.NewBase()}
	defer propagated.CloseIdleConnections()
	resp := send(t.Context(), t, propagated, sel, sel.Propagate)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, sel.Next(t.Context(), kvsteer.StatusError(resp.StatusCode)))
	second := sel.Target().Worker
	require.NotEqual(t, first, second)

	based := &http.Client{Transport: r.tracer.Base(kvsteer.NewBase())}
	defer based.CloseIdleConnections()
	resp = send(sel.Context(), t, based, sel, func(http.Header) {})
	answer := sel.Answer(resp.StatusCode, resp.Header)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	answer.Pass(body)
	require.Empty(t, r.spans.Ended())
	answer.End()
	sel.Done(kvsteer.Usage{}) // does nothing any more

	s := r.span()
	assertHas(t, s, map[string]any{
		"kvsteer.worker": second, "kvsteer.attempt": int64(2), "gen_ai.usage.output_tokens": int64(4), "error.type": nil,
	})
	assert.Equal(t, clientTrace, s.SpanContext().TraceID().String())
	require.Len(t, events(s, "kvsteer.attempt"), 2)
	require.Len(t, events(s, "kvsteer.first_token"), 1)
	require.Equal(t, []map[string]any{{"kvsteer.attempt": int64(1), "kvsteer.worker": first, "error.type": "503"}},
		events(s, "kvsteer.attempt.failed"))
	for _, e := range r.engines {
		require.Len(t, e.Requests(), 1)
		assert.Contains(t, e.Requests()[0].Header.Get("Traceparent"), clientTrace+"-"+s.SpanContext().SpanID().String())
	}
}

// aborter is a Selection, traced or not.
type aborter interface{ Abort(reason error) }

func TestByHandEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end       func(t *testing.T, sel aborter)
		errorType string
	}{
		"abort":        {func(_ *testing.T, s aborter) { s.Abort(nil); s.Abort(nil) }, "canceled"},
		"with a cause": {func(_ *testing.T, s aborter) { s.Abort(errors.New("CANARY")) }, "_OTHER"},
		"unreachable": {func(_ *testing.T, s aborter) {
			s.Abort(&net.OpError{Op: "dial", Err: errors.New("CANARY")})
		}, "unreachable"},
		"its time is up": {func(_ *testing.T, s aborter) { s.Abort(context.DeadlineExceeded) }, "timeout"},
		"forgotten":      {func(*testing.T, aborter) {}, "abandoned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := rigConfig{}
			if c.errorType == "abandoned" {
				config.options = []kvsteer.Option{kvsteer.WithMaxIdle(time.Second)}
			}
			r := newRig(t, config)
			sel, err := r.tracer.Select(t.Context(), r.router, r.sel(chat("hi", true)))
			require.NoError(t, err)
			c.end(t, sel)
			s := r.span()
			assertHas(t, s, map[string]any{"error.type": c.errorType})
			assert.Equal(t, codes.Error, s.Status().Code)
		})
	}
}

// A Next that finds nobody leaves the span to whoever ends the Selection.
func TestByHandNobodyIsLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	sel, err := r.tracer.Select(t.Context(), r.router, r.sel(chat("hi", true)))
	require.NoError(t, err)
	cause := kvsteer.StatusError(http.StatusBadGateway)
	require.Error(t, sel.Next(t.Context(), cause))
	require.Empty(t, r.spans.Ended())
	sel.Abort(cause)
	assertHas(t, r.span(), map[string]any{"error.type": "502"})
}

func TestByHandRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	for want, q := range map[string]*kvsteer.Request{
		"unknown_model": {API: kvsteer.ChatCompletions, Model: "other", TokenIDs: []uint32{1}},
		"bad_request":   nil,
	} {
		r.spans.Reset()
		sel, err := r.tracer.Select(t.Context(), r.router, q)
		require.Error(t, err)
		require.Nil(t, sel)
		var e *kvsteer.Error
		require.ErrorAs(t, err, &e, "the router's own error")
		s := r.span()
		assertHas(t, s, map[string]any{"error.type": want})
		if q != nil {
			assertHas(t, s, map[string]any{"gen_ai.request.model": q.Model})
		}
	}
}

func TestByHandNotRecording(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{sampler: sdktrace.NeverSample()})
	sel, err := r.tracer.Select(t.Context(), r.router, r.sel(chat("hi", true)))
	require.NoError(t, err)
	h := http.Header{}
	sel.Propagate(h)
	assert.Regexp(t, "^00-"+clientTrace+"-[0-9a-f]{16}-00$", h.Get("Traceparent"))
	require.NoError(t, sel.Next(t.Context(), nil))
	sel.Done(kvsteer.Usage{})
	_, err = r.tracer.Select(t.Context(), r.router, nil)
	require.Error(t, err)
	require.Zero(t, r.tracer.UnderWay())
}

// A Router that does not know its Tracer: requests are served, spans end, and somebody is
// told, once.
func TestNotHooked(t *testing.T) {
	var told atomic.Int32
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if assert.Error(t, err) && err.Error() != "" {
			told.Add(1)
		}
	}))
	r := newRig(t, rigConfig{engines: 1, unhooked: true})
	for range 2 {
		r.spans.Reset()
		r.post(chat("hi", true))
		assertHas(t, r.span(), map[string]any{"kvsteer.worker": "w0", "gen_ai.request.model": "m"})
	}
	r.spans.Reset()
	sel, err := r.tracer.Select(t.Context(), r.router, r.sel(chat("hi", true)))
	require.NoError(t, err)
	sel.Done(kvsteer.Usage{})
	r.span()
	require.EqualValues(t, 1, told.Load())
}
