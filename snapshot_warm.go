package kvsteer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
)

const (
	// snapshotKeeps is for how long a snapshot waits for workers that are not
	// discovered yet.
	snapshotKeeps = 5 * time.Minute

	reasonWarm = "taken from a snapshot, not confirmed yet"
)

// warm is a snapshot whose workers have not all been discovered. It is guarded by
// residency.mu.
type warm struct {
	data []byte
	// names are the SharedIDs that it speaks of and that nobody has claimed.
	names map[string]bool
}

// errNothingKnown: a snapshot of a router that had nothing from events.
var errNothingKnown = errors.New("kvsteer: the snapshot holds nothing")

// takeSnapshot returns the first snapshot that can be read, nil if there is none in time.
func (o *options) takeSnapshot(wait time.Duration) *warm {
	if len(o.snapshots) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for i, source := range o.snapshots {
		w, err := o.readInTime(ctx, source, len(o.snapshots)-i)
		switch {
		case err == nil && len(w.names) > 0:
			return w
		case err == nil:
			err = errNothingKnown
		}
		if o.logger != nil {
			o.logger.Warn("kvsteer: a snapshot can't be used", slog.Any("error", err))
		}
	}
	if o.logger != nil {
		o.logger.Info("kvsteer: starting without a snapshot: caches are known as events and requests come")
	}
	return nil
}

// readInTime reads a snapshot within its share of the time that is left for so many
// sources, so that one that hangs leaves some to those behind it.
func (o *options) readInTime(ctx context.Context, source SnapshotSource, left int) (*warm, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return o.readSnapshot(ctx, source)
}

func (o *options) readSnapshot(ctx context.Context, source SnapshotSource) (*warm, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("kvsteer: no time left for it: %w", err)
	}
	body, err := source(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	most := o.index.MaxBytes
	if most <= 0 {
		most = kvcache.DefaultMaxBytes
	}
	data, err := io.ReadAll(io.LimitReader(body, min(most, math.MaxInt64-1)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("kvsteer: read a snapshot: %w", err)
	case int64(len(data)) > most:
		return nil, kvcache.ErrSnapshotTooLarge
	}
	// An index that takes nothing over checks all of it.
	w := &warm{data: data, names: map[string]bool{}}
	check := kvcache.NewIndex(kvcache.Options{MaxBytes: kvcache.MinBytes})
	_, err = check.Import(bytes.NewReader(data), func(name string, _ int) kvcache.Owner {
		w.names[name] = true
		return kvcache.Owner{}
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is
	}
	return w, nil
}

// newcomer is a member that joins, and what is made of it.
type newcomer struct {
	m *fleet.Member
	h *residence
}

// warmUp gives newcomers what the snapshot says of them. It comes before their events
// are followed: what events say is more than a snapshot. It takes the locks of the
// index for moments only, so that picks go on.
func (r *residency) warmUp(list []newcomer) {
	if r.warm == nil {
		return
	}
	by := map[string]*residence{}
	for _, n := range list {
		if name := n.m.SharedID(); r.warm.names[name] {
			by[name] = n.h
			delete(r.warm.names, name)
		}
	}
	if len(by) == 0 {
		return
	}
	stats, err := r.index.Import(bytes.NewReader(r.warm.data), func(name string, nth int) kvcache.Owner {
		if h := by[name]; h != nil && nth < len(h.owners) {
			return h.owners[nth]
		}
		return kvcache.Owner{}
	})
	for _, h := range by {
		for _, o := range h.owners {
			if _, placed := r.index.Position(o); placed || r.index.OwnerStats(o).Pairs > 0 {
				h.warm = true
				r.index.SetStanding(o, kvcache.Standing{Trust: kvcache.Approximate, Reason: reasonWarm})
			}
		}
	}
	if l := r.opts.logger; l != nil {
		l.Info("kvsteer: took over a snapshot", slog.Int("workers", len(by)), slog.Int("ranks", stats.Owners), slog.Int("blocks", stats.Pairs),
			slog.Int("dropped", stats.Dropped), slog.Any("error", err)) // it was checked: no error
	}
	if len(r.warm.names) == 0 {
		r.warm = nil
	}
}

// vouch drops what was taken over of a worker of which nobody can say whether it is the
// engine of then: no events prove it, and no Discoverer.
func (r *residency) vouch(n newcomer) {
	if !n.h.warm || len(n.h.followers) > 0 || n.m.Worker().Epoch != "" {
		return
	}
	r.cool(n.h)
}

// cool drops what was taken over. What was booked since goes with it.
func (r *residency) cool(h *residence) {
	for _, o := range h.owners {
		if r.index.Standing(o).Reason == reasonWarm {
			r.index.Clear(o)
			r.index.SetTrust(o, kvcache.Approximate)
		}
	}
}

// coolDown lets go of the snapshot when no more workers are expected, and of what it
// said of workers without events when that has become old.
func (r *Router) coolDown() {
	for _, step := range []struct {
		after time.Duration
		do    func()
	}{
		{snapshotKeeps, func() {
			r.residency.mu.Lock()
			defer r.residency.mu.Unlock()
			r.residency.warm = nil
		}},
		{max(r.opts.approxTTL-snapshotKeeps, 0), r.residency.coolAll},
	} {
		timer := time.NewTimer(step.after)
		select {
		case <-timer.C:
			step.do()
		case <-r.stop:
			timer.Stop()
			return
		}
	}
}

// coolAll drops what a snapshot said of workers whose events have not confirmed it by now,
// because none are followed or none come: nothing ever tells what has been evicted since.
func (r *residency) coolAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range *r.homes.Load() {
		if h.warm {
			r.cool(h) // what was confirmed is not touched
		}
	}
}
