package replicatest_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func numbered(seq uint64) *replica.Message {
	return &replica.Message{
		Version: replica.Version, Router: "a", Epoch: 1, Seq: seq, Loads: []replica.Load{{Instance: "w", PrefillRequests: 1}},
		Bookings: []replica.Booking{{Instance: "w", Keys: []kvcache.Key{1}}},
	}
}

// heard is what an end has received, in a bubble of synctest.
type heard struct {
	seqs []uint64
	all  []*replica.Message
	err  error
}

// listen receives until the bubble's test ends.
func listen(t *testing.T, e replica.Exchange) *heard {
	t.Helper()
	h := &heard{}
	go func() {
		h.err = e.Receive(t.Context(), nil, func(m *replica.Message) { h.seqs, h.all = append(h.seqs, m.Seq), append(h.all, m) })
	}()
	synctest.Wait()
	return h
}

func send(t *testing.T, e replica.Exchange, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, e.Publish(t.Context(), numbered(uint64(i+1))))
	}
}

func TestBusDeliversCopiesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := replicatest.NewBus(replicatest.BusOptions{})
		a, b := bus.Join(), bus.Join()
		own, other := listen(t, a), listen(t, b)
		m := numbered(1)
		require.NoError(t, a.Publish(t.Context(), m))
		m.Loads[0].PrefillRequests, m.Bookings[0].Keys[0] = 9, 9
		synctest.Wait()
		require.Equal(t, []*replica.Message{numbered(1)}, own.all)
		require.Equal(t, []*replica.Message{numbered(1)}, other.all)
		own.all[0].Loads[0].Rank, own.all[0].Bookings[0].Keys[0] = 5, 5
		require.Equal(t, []*replica.Message{numbered(1)}, other.all)
		require.Equal(t, replicatest.BusStats{Published: 1, Delivered: 2}, bus.Stats())
		require.ErrorIs(t, a.Publish(t.Context(), &replica.Message{}), replica.ErrBounds)
		require.ErrorIs(t, b.Receive(t.Context(), nil, nil), replicatest.ErrReceiving)
	})
}

func TestBusFaults(t *testing.T) {
	run := func(t *testing.T, o replicatest.BusOptions, n int) (seqs []uint64, stats replicatest.BusStats) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			bus := replicatest.NewBus(o)
			h := listen(t, bus.Join())
			for i := range n {
				require.NoError(t, bus.Join().Publish(t.Context(), numbered(uint64(i+1))))
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			seqs, stats = h.seqs, bus.Stats()
		})
		return seqs, stats
	}
	t.Run("drop", func(t *testing.T) {
		seqs, stats := run(t, replicatest.BusOptions{Drop: 0.25}, 1000)
		require.InDelta(t, 750, len(seqs), 60)
		require.IsIncreasing(t, seqs)
		require.Equal(t, replicatest.BusStats{Published: 1000, Delivered: uint64(len(seqs)), Dropped: uint64(1000 - len(seqs))}, stats)
		again, _ := run(t, replicatest.BusOptions{Drop: 0.25}, 1000)
		require.Equal(t, seqs, again)
		other, _ := run(t, replicatest.BusOptions{Drop: 0.25, Seed: 1}, 1000)
		require.NotEqual(t, seqs, other)
	})
	t.Run("duplicate", func(t *testing.T) {
		seqs, stats := run(t, replicatest.BusOptions{Duplicate: 0.25}, 1000)
		require.InDelta(t, 1250, len(seqs), 60)
		require.Equal(t, uint64(len(seqs)-1000), stats.Duplicated)
	})
	t.Run("reorder", func(t *testing.T) {
		seqs, stats := run(t, replicatest.BusOptions{Reorder: 0.25}, 1000)
		require.InDelta(t, 200, stats.Reordered, 60) // the one that overtakes isn't reordered
		require.GreaterOrEqual(t, len(seqs), 999)    // the last may be held back for ever
		steps := uint64(0)
		for i := 1; i < len(seqs); i++ {
			if seqs[i] < seqs[i-1] {
				steps++
			}
		}
		require.InDelta(t, stats.Reordered, steps, 1)
	})
	t.Run("delay", func(t *testing.T) {
		seqs, _ := run(t, replicatest.BusOptions{Delay: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(5)) * time.Millisecond }}, 1000)
		require.Len(t, seqs, 1000)
		require.Less(t, sorted(seqs), 1000)
	})
}

// sorted counts the neighbours that are in order.
func sorted(seqs []uint64) (n int) {
	for i := range seqs {
		if i == 0 || seqs[i-1] <= seqs[i] {
			n++
		}
	}
	return n
}

func TestBusCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := replicatest.NewBus(replicatest.BusOptions{Delay: func(*rand.Rand) time.Duration { return time.Second }})
		a, b := bus.Join(), bus.Join()
		h := listen(t, b)
		send(t, a, 3)
		bus.Cut(true)
		synctest.Wait()
		require.ErrorIs(t, h.err, replicatest.ErrCut)
		require.Empty(t, h.seqs, "what was under way is lost")
		require.ErrorIs(t, a.Publish(t.Context(), numbered(1)), replicatest.ErrCut)
		require.ErrorIs(t, a.Receive(t.Context(), nil, nil), replicatest.ErrCut)
		bus.Cut(false)
		h = listen(t, b)
		send(t, a, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []uint64{1, 2}, h.seqs)

		b.Cut(true) // one end only
		synctest.Wait()
		require.ErrorIs(t, h.err, replicatest.ErrCut)
		send(t, a, 1)
		require.ErrorIs(t, b.Publish(t.Context(), numbered(1)), replicatest.ErrCut)
		b.Cut(false)
		h = listen(t, b)
		b.Silence(true)
		send(t, a, 1)
		send(t, b, 1)
		time.Sleep(time.Second)
		b.Silence(false)
		bus.Faults(replicatest.BusOptions{})
		synctest.Wait()
		require.Empty(t, h.seqs)
		require.NoError(t, h.err)
		require.Equal(t, uint64(2), bus.Stats().Dropped, "nobody but b receives")
		send(t, a, 1)
		synctest.Wait()
		require.Equal(t, []uint64{1}, h.seqs)
	})
}

func TestBusSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := replicatest.NewBus(replicatest.BusOptions{Buffer: 3})
		a := bus.Join()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var err error
		go func() {
			err = bus.Join().Receive(ctx, nil, func(*replica.Message) { time.Sleep(time.Hour) })
		}()
		synctest.Wait()
		send(t, a, 5)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.ErrorIs(t, err, replicatest.ErrSlow)
		require.Equal(t, uint64(4), bus.Stats().Overflowed)
	})
}
