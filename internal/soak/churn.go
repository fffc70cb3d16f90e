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
	do   func(ctx context.Context, w *workers, e *engine) error
	// turn is by how many kinds it is ahead of the others, so that what happens in one round
	// happens to different workers, and each kind is restarted once in a generation.
	turn int
	// events: it is done to engines that number their events and send them.
	events bool
}

func happenings() []happening { //nolint:mnd // turns
	return []happening{
		{name: "replaced", do: func(ctx context.Context, w *workers, _ *engine) error {
			if err := w.start(ctx, nil); err != nil {
				return err
			}
			_, err := w.stop(ctx)
			return err
		}},
		{name: "restarted", turn: 1, do: func(ctx context.Context, w *workers, e *engine) error {
			return w.restart(ctx, e, func() error {
				if err := e.Kill(); err != nil {
					return err
				}
				if err := pause(ctx, 200*time.Millisecond); err != nil {
					return err
				}
				return revive(ctx, e)
			})
		}},
		{name: "events lost", turn: 2, events: true, do: func(_ context.Context, _ *workers, e *engine) error {
			e.Faults().LoseEvents(3)
			return nil
		}},
		{name: "another at its address", do: func(ctx context.Context, w *workers, _ *engine) error {
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
		{name: "failing", turn: 3, do: func(_ context.Context, _ *workers, e *engine) error {
			e.Faults().Fail(10, http.StatusServiceUnavailable, 0)
			return nil
		}},
		{name: "restarted unseen", turn: 4, do: func(ctx context.Context, w *workers, e *engine) error {
			return w.restart(ctx, e, e.RestartUnseen)
		}},
		{name: "events damaged", turn: 5, events: true, do: func(_ context.Context, w *workers, e *engine) error {
			w.spoil(e, "events damaged")
			e.Faults().CorruptEvents(1)
			return nil
		}},
		{name: "answers cut off", turn: 0, do: func(_ context.Context, w *workers, e *engine) error {
			const answers, tokens = 3, 2
			w.injected.cut(e.Name(), answers)
			e.Faults().DieMidStream(answers, tokens)
			return nil
		}},
		{name: "numbers burnt", turn: 2, events: true, do: func(_ context.Context, w *workers, e *engine) error {
			w.spoil(e, "numbers burnt")
			e.Faults().BurnEvents(2)
			return nil
		}},
		{name: "drained", turn: 5, do: func(ctx context.Context, w *workers, e *engine) error {
			if err := w.rig.fleet.Drain(e.Name(), true); err != nil {
				return err
			}
			if err := pause(ctx, 500*time.Millisecond); err != nil {
				return err
			}
			return w.rig.fleet.Drain(e.Name(), false)
		}},
	}
}

// perRound is how many workers go in a round of all happenings.
const perRound = 2

// generation is after how many happenings all workers have been replaced once, those of each
// kind at the same moment of it: what there is then goes up and down with this period.
func (w *workers) generation() int { return len(happenings()) * w.kinds / perRound }

// victim is who the nth happening is done to: each kind in turn.
func (w *workers) victim(h *happening, round int) *engine {
	kind := (round + h.turn) % w.kinds
	if h.events && (kind == kindTRTLLM || kind == kindSilent) {
		kind = (kind + 2) % w.kinds //nolint:mnd // one that does
	}
	return w.of(kind)
}

// restart does something to a worker that ends what it has under way.
func (w *workers) restart(ctx context.Context, e *engine, how func() error) error {
	// What was to be done to its events is over with this life.
	e.Faults().LoseEvents(0)
	e.Faults().BurnEvents(0)
	e.Faults().CorruptEvents(0)
	up := w.injected.killing(e.Name())
	defer up()
	if err := how(); err != nil {
		return err
	}
	w.spoil(e, "")
	return await(ctx, e.Name()+" is back", func() bool {
		m := w.rig.fleet.Snapshot().Member(e.Name())
		return m != nil && m.Routable() && m.Serves(e.adapters[0])
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

// churn lets things happen until ctx ends, one each time that so much has passed, however
// long they take.
func (w *workers) churn(ctx context.Context, every time.Duration) error {
	const breath = 4 // a part of it is left for samples, on a machine that is late
	all := happenings()
	began := time.Now()
	for n := 0; ; n++ {
		due := time.Until(began.Add(time.Duration(n+1) * every))
		if pause(ctx, max(due, every/breath)) != nil {
			return nil //nolint:nilerr // that was all
		}
		h := &all[n%len(all)]
		w.busy.Lock()
		err := h.do(ctx, w, w.victim(h, n/len(all)))
		if err == nil && w.strangers != nil {
			err = w.invite(ctx, n)
		}
		w.busy.Unlock()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was in the middle of it
		}
		if err != nil {
			return fmt.Errorf("a worker is to be %s: %w", h.name, err)
		}
		w.mu.Lock()
		w.did[h.name]++
		w.happened++
		w.mu.Unlock()
	}
}
