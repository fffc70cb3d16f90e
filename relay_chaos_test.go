package kvsteer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// Whatever is called in whatever order, while workers drain and return and requests
// give up: everything ends once, and nobody is left in line.
func TestAnyOrderOfCallsEnds(t *testing.T) {
	t.Parallel()
	r := newSplit(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithQueue(kvsteer.QueueOptions{MaxWaiting: 20, MaxWait: 50 * time.Millisecond}),
	}})
	stop := make(chan struct{})
	var drains, clients sync.WaitGroup
	drains.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				name := []string{"p0", "p1", "d2", "d3"}[rng.IntN(4)]
				_ = r.fleet.Drain(name, rng.IntN(3) == 0)
			}
		}
	})
	for i := range 16 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			for k := range 12 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(100))*time.Millisecond)
				text := strings.Repeat(fmt.Sprint("w", i, k, " "), 200)
				if rng.IntN(2) == 0 {
					_, _ = r.try(ctx, "/v1/chat/completions", chatBody(text, rng.IntN(2) == 0))
				} else {
					req := chatRequest(text, rng.IntN(2) == 0)
					req.Tenant, req.Priority, req.Session = fmt.Sprint(i%3), i%2, fmt.Sprint(i)
					if s, err := r.router.Select(ctx, req); err == nil {
						anyCalls(ctx, s, rng)
					}
				}
				cancel()
			}
		})
	}
	clients.Wait()
	close(stop)
	drains.Wait()
	r.idle()
	// A gateway may notice a little later than its client that nobody waits any more.
	require.Eventually(t, func() bool { return r.router.Waiting() == 0 }, wait, tick)
	r.idle()
}

// anyCalls drives a Selection as no one should, to its end.
func anyCalls(ctx context.Context, s *kvsteer.Selection, rng *rand.Rand) {
	for range rng.IntN(6) {
		switch rng.IntN(5) {
		case 0:
			s.FirstToken()
		case 1:
			_, _, _ = s.Prefill()
		case 2:
			_ = s.Prefilled([]byte(`{"kv_transfer_params":{"x":1},"usage":{"prompt_tokens":200,"completion_tokens":1}}`))
		case 3:
			_ = s.Next(ctx, nil)
		default:
			_ = s.Body()
		}
	}
	if rng.IntN(2) == 0 {
		s.Done(kvsteer.Usage{})
	}
	s.Abort(nil)
}
