package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// happening is something that happens to workers.
type happening struct {
	name string
	do   func(ctx context.Context, w *workers) error
}

func happenings() []happening {
	return []happening{
		{"replaced", func(ctx context.Context, w *workers) error {
			if err := w.start(ctx, nil); err != nil {
				return err
			}
			_, err := w.stop(ctx)
			return err
		}},
		{"restarted", func(ctx context.Context, w *workers) error {
			return w.restart(ctx, func(e *engine) error {
				if err := e.Kill(); err != nil {
					return err
				}
				if err := pause(ctx, 200*time.Millisecond); err != nil {
					return err
				}
				return revive(ctx, e)
			})
		}},
		{"events lost", func(_ context.Context, w *workers) error { w.one().Faults().LoseEvents(3); return nil }},
		{"another at its address", func(ctx context.Context, w *workers) error {
			url, err := w.stop(ctx)
			if err != nil {
				return err
			}
			var listening net.ListenConfig
			l, err := listening.Listen(ctx, "tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				return err
			}
			return w.start(ctx, l)
		}},
		{"failing", func(_ context.Context, w *workers) error {
			w.one().Faults().Fail(10, http.StatusServiceUnavailable, 0)
			return nil
		}},
		{"restarted unseen", func(ctx context.Context, w *workers) error {
			return w.restart(ctx, func(e *engine) error { return e.RestartUnseen() })
		}},
		{"events damaged", func(_ context.Context, w *workers) error { w.one().Faults().CorruptEvents(1); return nil }},
		{"answers cut off", func(_ context.Context, w *workers) error {
			const answers, tokens = 3, 2
			e := w.one()
			w.injected.cut(e.Name(), answers)
			e.Faults().DieMidStream(answers, tokens)
			return nil
		}},
		{"numbers burnt", func(_ context.Context, w *workers) error { w.one().Faults().BurnEvents(2); return nil }},
		{"drained", func(ctx context.Context, w *workers) error {
			name := w.one().Name()
			if err := w.rig.fleet.Drain(name, true); err != nil {
				return err
			}
			if err := pause(ctx, 500*time.Millisecond); err != nil {
				return err
			}
			return w.rig.fleet.Drain(name, false)
		}},
	}
}

// restart does something to a worker that ends what it has under way.
func (w *workers) restart(ctx context.Context, how func(e *engine) error) error {
	e := w.one()
	up := w.injected.killing(e.Name())
	defer up()
	if err := how(e); err != nil {
		return err
	}
	return await(ctx, e.Name()+" is back", func() bool {
		m := w.rig.fleet.Snapshot().Member(e.Name())
		return m != nil && m.Routable()
	})
}

// revive starts a dead engine. Its port for events may be in the hands of a client for a
// moment.
func revive(ctx context.Context, e *engine) error {
	var last error
	err := await(ctx, e.Name()+" starts again", func() bool {
		last = e.Revive()
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// churn lets things happen until ctx ends.
func (w *workers) churn(ctx context.Context, every time.Duration) error {
	all := happenings()
	for n := 0; ; n++ {
		if pause(ctx, every) != nil {
			return nil //nolint:nilerr // that was all
		}
		h := all[n%len(all)]
		w.busy.Lock()
		err := h.do(ctx, w)
		w.busy.Unlock()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was in the middle of it
		}
		if err != nil {
			return fmt.Errorf("a worker is to be %s: %w", h.name, err)
		}
		w.mu.Lock()
		w.did[h.name]++
		w.mu.Unlock()
	}
}
