package kvsteer_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// gate lets a subscription stand, and nothing through, until it is opened. A replay that
// takes too long meanwhile is not given up: whoever asks for it is told when it is open,
// however long the test takes.
type gate struct {
	follow.Transport

	opened chan struct{}
	open   func()
}

func newGate(to follow.Transport) gate {
	opened := make(chan struct{})
	return gate{to, opened, sync.OnceFunc(func() { close(opened) })}
}

func (g gate) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	c, err := g.Transport.Dial(ctx, ep)
	return gatedConn{c, g.opened}, err
}

type gatedConn struct {
	follow.Conn

	opened chan struct{}
}

func (c gatedConn) Recv(ctx context.Context) (follow.Message, error) {
	select {
	case <-c.opened:
		return c.Conn.Recv(ctx)
	case <-ctx.Done():
		return follow.Message{}, ctx.Err()
	}
}

func (c gatedConn) Replay(ctx context.Context, from uint64, fn func(follow.Message) error) error {
	<-c.opened
	return c.Conn.Replay(ctx, from, fn)
}

// roster is a Discoverer of which the test says what it lists.
type roster struct {
	mu      sync.Mutex
	workers []fleet.Worker
	news    chan struct{}
}

func newRoster(workers ...fleet.Worker) *roster {
	return &roster{workers: workers, news: make(chan struct{}, 1)}
}

func (l *roster) set(workers ...fleet.Worker) {
	l.mu.Lock()
	l.workers = workers
	l.mu.Unlock()
	l.news <- struct{}{}
}

func (l *roster) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	for {
		l.mu.Lock()
		err := set(l.workers)
		l.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-l.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// successor is another router over the same engines.
type successor struct {
	*kvsteer.Router

	t     *testing.T
	fleet *fleet.Fleet
	log   *syncBuffer
}

func newSuccessor(t *testing.T, from fleet.Discoverer, options ...kvsteer.Option) *successor {
	t.Helper()
	f, err := fleet.New(fleet.Options{
		Discoverer: from, ProbeInterval: 50 * time.Millisecond, ScrapeInterval: -1, // as in rigConfig.unseen
		ProbeTimeout: wait, UnhealthyAfter: 50,
	})
	require.NoError(t, err)
	log, encoder := new(syncBuffer), prompt.NewEncoder(prompt.Options{Deadline: wait})
	r, err := kvsteer.New(append([]kvsteer.Option{
		kvsteer.WithFleet(f), kvsteer.WithEncoder(encoder), kvsteer.WithSeed(2), kvsteer.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
	}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, encoder.Close())
		require.NoError(t, f.Close())
	})
	return &successor{r, t, f, log}
}

// explain waits until n workers take requests and returns the decision.
func (r *successor) explain(n int, text string) *kvsteer.Decision {
	r.t.Helper()
	var d *kvsteer.Decision
	require.Eventually(r.t, func() bool {
		var err error
		d, err = r.Explain(r.t.Context(), chatRequest(text, false))
		return err == nil && len(d.Candidates) == n && d.TokenSource != "bytes" && !slices.ContainsFunc(d.Candidates, justDiscovered)
	}, wait, tick)
	return d
}

// justDiscovered reports whether nothing has been made of the worker yet.
func justDiscovered(c kvsteer.DecisionCandidate) bool { return c.Trust == kvcache.Blind }

// exact waits until all is known.
func (r *successor) exact(n int, text string) *kvsteer.Decision {
	r.t.Helper()
	var d *kvsteer.Decision
	require.Eventually(r.t, func() bool {
		d = r.explain(n, text)
		for i := range d.Candidates {
			if d.Candidates[i].Trust != kvcache.Exact {
				return false
			}
		}
		return true
	}, wait, tick)
	return d
}
