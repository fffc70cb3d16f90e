package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// What our own side does not manage in time, or gives up, is nobody's to pay: only who goes
// away pays for the prompt.
func TestOurTimeoutsAreFree(t *testing.T) {
	t.Parallel()
	late := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
		defer cancel()
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	for name, c := range map[string]struct {
		model string
		dial  func(ctx context.Context, network, address string) (net.Conn, error)
		key   error
	}{
		"all workers' dials":   {testModel, late, nil},
		"a provider's dials":   {"only-outside", late, nil},
		"credentials are late": {"only-outside", nil, fmt.Errorf("vault: %w", context.DeadlineExceeded)},
		"no time for them":     {"only-outside", nil, context.DeadlineExceeded},
		"they are given up":    {"only-outside", nil, fmt.Errorf("vault: %w", context.Canceled)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutsiders(t, func(p []providers.Provider) {
				if c.key != nil {
					p[1].Credentials = providers.Func(func(context.Context) (string, error) { return "", c.key })
				}
			})
			written := &book{}
			base := &http.Transport{DialContext: c.dial}
			t.Cleanup(base.CloseIdleConnections)
			r := newScripted(t, rigConfig{
				options: []kvsteer.Option{
					kvsteer.WithPolicy(load(t, burstPolicy)), kvsteer.WithProviders(o.set), kvsteer.WithTenancy(kvsteer.TenancyOptions{Ledger: written}),
				},
				transport: kvsteer.TransportOptions{Base: base},
			}, worker{serve: prompts(whole)}, worker{serve: prompts(whole)})
			status, text := r.ask(c.model, false)
			require.GreaterOrEqual(t, status, http.StatusBadGateway, text)
			r.idle()
			written.closed(t)
			states := written.states()
			require.NotEmpty(t, states)
			for i, s := range states {
				require.Equal(t, []ledger.State{ledger.Reserved, ledger.Voided}[i%2], s)
			}
		})
	}
}

// A deadline of the request's own is its sender's going away.
func TestOwnDeadlinesAreNotFree(t *testing.T) {
	t.Parallel()
	for _, model := range []string{testModel, "only-outside"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		gone := errors.New("the gateway's own reason")
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			cancel(gone)
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		o := newOutsiders(t)
		written := &book{}
		r := newScripted(t, rigConfig{options: []kvsteer.Option{
			kvsteer.WithPolicy(load(t, burstPolicy)), kvsteer.WithProviders(o.set), kvsteer.WithTenancy(kvsteer.TenancyOptions{Ledger: written}),
		}}, worker{serve: prompts(whole)})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[]}`))
		require.NoError(t, err)
		resp, err := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: base}).RoundTrip(req) //nolint:bodyclose // there is none
		require.Nil(t, resp)
		require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(err))
		require.ErrorIs(t, err, gone)
		require.Equal(t, []ledger.State{ledger.Reserved, ledger.Settled}, written.states(), model)
	}
}

// Who sends by himself says by the reason whether anybody has gone away.
func TestAbortedByHand(t *testing.T) {
	t.Parallel()
	written := &book{}
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Ledger: written}),
	}}, worker{serve: prompts(whole)})
	for name, c := range map[string]struct {
		reason error
		want   ledger.State
	}{
		"nobody knows":        {nil, ledger.Settled},
		"cancelled":           {fmt.Errorf("client: %w", context.Canceled), ledger.Settled},
		"its deadline":        {context.DeadlineExceeded, ledger.Settled},
		"the router's word":   {&kvsteer.Error{Code: kvsteer.CodeCanceled, Err: errors.New("why")}, ledger.Settled},
		"a dial's deadline":   {&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, ledger.Voided},
		"a read's deadline":   {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, ledger.Voided},
		"the worker's answer": {kvsteer.StatusError(http.StatusServiceUnavailable), ledger.Voided},
	} {
		sel, err := r.router.Select(t.Context(), chatRequest("hi", false))
		require.NoError(t, err)
		sel.Sent()
		sel.Abort(c.reason)
		require.Equal(t, []ledger.State{ledger.Reserved, c.want}, written.states(), name)
	}
}
