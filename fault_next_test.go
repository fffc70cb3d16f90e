package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// A gateway that drives HTTP itself tells the fleet of failures by Next, as a Transport
// does: what is the worker's fault counts, and nothing else does.
func TestNextTellsTheFleet(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("no route")} // at once; others count three times
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx    context.Context //nolint:containedctx // a case
		causes []error
		well   bool
	}{
		"can't be reached":   {t.Context(), []error{dial}, false},
		"wrapped":            {t.Context(), []error{fmt.Errorf("sending: %w", dial)}, false},
		"broke off":          {t.Context(), []error{errors.New("a"), errors.New("b"), errors.New("c")}, false},
		"took too long":      {t.Context(), []error{context.DeadlineExceeded, context.DeadlineExceeded, context.DeadlineExceeded}, false},
		"unwell":             {t.Context(), []error{kvsteer.StatusError(500), kvsteer.StatusError(502), kvsteer.StatusError(503)}, false},
		"twice":              {t.Context(), []error{errors.New("a"), errors.New("b")}, true},
		"busy":               {t.Context(), []error{kvsteer.StatusError(429), kvsteer.StatusError(429), kvsteer.StatusError(429)}, true},
		"the request's":      {t.Context(), []error{kvsteer.StatusError(400), kvsteer.StatusError(400), kvsteer.StatusError(400)}, true},
		"superseded":         {t.Context(), []error{nil, nil, nil, nil}, true},
		"the client left":    {t.Context(), []error{&net.OpError{Op: "dial", Err: context.Canceled}}, true},
		"out of time anyway": {ended, []error{dial}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, place := range []bool{false, true} {
				if place && c.ctx == ended {
					continue // Placement.Next takes no context
				}
				// Probes would forget the failures that requests told.
				var ill atomic.Bool // from when on a probe finds what requests met
				r := newScripted(t, rigConfig{probes: time.Hour}, worker{serve: prompts(whole), health: func(w http.ResponseWriter, _ *http.Request) {
					if ill.Load() {
						w.WriteHeader(http.StatusServiceUnavailable)
					}
				}})
				ill.Store(true)
				for _, cause := range c.causes {
					if place {
						p, err := r.router.Place(&kvsteer.Forward{HTTP: postRequest(t, "/v1/score", "")})
						require.NoError(t, err)
						require.Error(t, p.Next(cause), "there is nobody else")
						p.End()
						continue
					}
					sel, err := r.router.Select(t.Context(), chatRequest("x", false))
					require.NoError(t, err)
					require.Error(t, sel.Next(c.ctx, cause), "there is nobody else")
					require.Error(t, sel.Next(c.ctx, cause), "nor the second time, for which nobody is blamed again")
					sel.Abort(cause)
					require.Error(t, sel.Next(c.ctx, cause))
				}
				require.Equal(t, c.well, r.fleet.Snapshot().Member("s0").Healthy(), "placed: %v", place)
				r.idle()
			}
		})
	}
}

// An Answer that was begun has told of the failure already.
func TestAFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{probes: time.Hour}, worker{serve: prompts(whole)})
	for range 2 { // of the three that it takes
		sel, err := r.router.Select(t.Context(), chatRequest("x", false))
		require.NoError(t, err)
		sel.Answer(http.StatusServiceUnavailable, http.Header{})
		require.Error(t, sel.Next(t.Context(), kvsteer.StatusError(http.StatusServiceUnavailable)), "there is nobody else")
		sel.Abort(nil)
	}
	require.True(t, r.fleet.Snapshot().Member("s0").Healthy())
	r.idle()

	// So does a Transport, which looks at more than a cause.
	r = newScripted(t, rigConfig{probes: time.Hour}, worker{serve: prompts(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})})
	for range 2 {
		require.Equal(t, http.StatusServiceUnavailable, r.post("/v1/chat/completions", chatBody("x", false)).status)
	}
	require.True(t, r.fleet.Snapshot().Member("s0").Healthy())
	r.idle()
}
