package kvsteer

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// paced gives a byte at a time, each after the next delay.
type paced struct {
	ctx    context.Context //nolint:containedctx // the attempt's, as net/http has it
	delays []time.Duration
}

func (p *paced) Read(b []byte) (int, error) {
	delay := p.delays[0]
	p.delays = p.delays[1:]
	select {
	case <-time.After(delay):
		return copy(b, "x"), nil
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
}

func (p *paced) Close() error { return nil }

// The time that counts is that between two pieces, and none in which nobody reads.
func TestIdleTimeoutIsPerRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(client, http.MethodPost, "http://any", http.NoBody)
		require.NoError(t, err)
		const most = time.Minute
		src := &paced{ctx: ctx, delays: []time.Duration{most - 1, most - 1, 1, most - 1, most + 1}}
		b := &attemptBody{
			ReadCloser: src, client: req, resp: &http.Response{}, ctx: ctx, cancel: cancel, idle: most,
			sel: &Selection{router: &Router{opts: options{now: time.Now}}},
		}
		buf := make([]byte, 8)
		for range 4 {
			n, err := b.Read(buf)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			time.Sleep(10 * most) // the client is slow
		}
		require.NoError(t, ctx.Err())
		leave() // so that no worker is blamed
		_, _ = b.Read(buf)
		require.ErrorIs(t, context.Cause(ctx), errIdle)
	})
}
