package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// sendWithin sends a request by t, within ctx.
func sendWithin(ctx context.Context, r *rig, base http.RoundTripper, stream bool) (*http.Response, error) {
	t := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: base})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kvsteer/v1/chat/completions",
		strings.NewReader(chatBody("hi", stream)))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	return t.RoundTrip(req)
}

// Whose doing it was that a request was not answered is known of each way to end: an error's
// looks do not say, since those of dials wrap a deadline.
func TestOutcomesSayWhoLeft(t *testing.T) {
	t.Parallel()
	// Each connection takes too long.
	slow := &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}
	wrapped := &url.Error{Op: "Post", URL: "http://w0", Err: context.DeadlineExceeded}
	byHand := func(reason error) func(t *testing.T, r *rig) {
		return func(t *testing.T, r *rig) {
			t.Helper()
			sel, err := r.router.Select(t.Context(), chatRequest("hi", false))
			require.NoError(t, err)
			sel.Abort(reason)
		}
	}
	reading := func(leave func(cancel context.CancelCauseFunc, resp *http.Response)) func(t *testing.T, r *rig) {
		return func(t *testing.T, r *rig) {
			t.Helper()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			base := kvsteer.NewBase()
			defer base.CloseIdleConnections()
			r.engines[0].Faults().Hang(fleettest.HangMidStream)
			defer r.engines[0].Faults().Clear()
			resp, err := sendWithin(ctx, r, base, true)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			defer resp.Body.Close()
			leave(cancel, resp)
			for buf := make([]byte, 512); err == nil; {
				_, err = resp.Body.Read(buf)
			}
		}
	}
	for name, c := range map[string]struct {
		end  func(t *testing.T, r *rig)
		left bool
	}{
		"a worker that can't be dialled": {func(t *testing.T, r *rig) {
			t.Helper()
			resp, err := sendWithin(t.Context(), r, slow, false)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			require.Error(t, err)
		}, false},
		"a dial that timed out, by hand": {byHand(wrapped), false},
		"a worker's failure, by hand":    {byHand(errors.New("broken")), false},
		"gone, by hand":                  {byHand(nil), true},
		"its time is up, by hand":        {byHand(context.DeadlineExceeded), true},
		"answered": {func(t *testing.T, r *rig) {
			t.Helper()
			require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody("hi", false)).status)
		}, false},
		"gone while reading": {reading(func(cancel context.CancelCauseFunc, _ *http.Response) {
			cancel(nil)
		}), true},
		"gone for a reason of the gateway's": {reading(func(cancel context.CancelCauseFunc, _ *http.Response) {
			cancel(errors.New("shutting down"))
		}), true},
		"closed before the end": {reading(func(_ context.CancelCauseFunc, resp *http.Response) {
			_ = resp.Body.Close()
		}), true},
		"a worker that breaks off": {func(t *testing.T, r *rig) {
			t.Helper()
			r.engines[0].Faults().DieMidStream(1, 2)
			_, _ = r.try(t.Context(), "/v1/chat/completions", chatBody("hi", true)) // cut off
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) { c.OutputTokens = 20 }})
			n := r.observed.outcomeCount()
			c.end(t, r)
			o := r.observed.nextOutcome(t, n)
			require.Equal(t, c.left, o.Left, fmt.Sprint(o.Err))
			require.Equal(t, name == "answered", o.Err == nil)
		})
	}
}
