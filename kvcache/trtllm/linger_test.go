package trtllm

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// next closes c and returns a connection that takes its place.
func next(t *testing.T, tr *Transport, c follow.Conn) follow.Conn {
	t.Helper()
	require.NoError(t, c.Close())
	return dial(t, tr, 0)
}

// What the first connection has taken of an engine that has just started is given to
// the one that follows it, again and again.
func TestLingerHandsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created, stored("null", 1))
		tr := &Transport{Client: e.client(), Linger: 10 * time.Second}
		c := dial(t, tr, 0)
		require.Equal(t, []uint64{0, 1}, recvIDs(t, c, 2))
		c = next(t, tr, c)
		require.Equal(t, []uint64{0, 1}, recvIDs(t, c, 2))
		require.NoError(t, c.Close())
		e.add(stored("null", 2))
		time.Sleep(5 * time.Second) // nobody is connected
		c = dial(t, tr, 0)
		require.Equal(t, []uint64{0, 1, 2}, recvIDs(t, c, 3))
		c = next(t, tr, c)
		e.add(stored("null", 3))
		require.Equal(t, []uint64{0, 1, 2, 3}, recvIDs(t, c, 4))
		require.NoError(t, tr.Close())
		e.add(removed(1))
		require.Equal(t, []uint64{4}, recvIDs(t, c, 1), "connections stay")
	})
}

// Nothing is given of a process that is no more, nor in part.
func TestLingerHandsOnWhatIsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(e *engine) // the next connection is made
		want          []uint64
	}{
		"gap before":  {before: func(e *engine) { e.miss(1, stored("null", 7)); e.add(stored("null", 8)); time.Sleep(time.Second) }},
		"old":         {before: func(*engine) { time.Sleep(2 * time.Minute) }},
		"restart":     {after: func(e *engine) { e.restart(); e.add(created, stored("null", 7)) }, want: []uint64{0, 1}},
		"gap":         {after: func(e *engine) { e.add(stored("null", 7), stored("null", 8)); e.drop(1) }, want: []uint64{3}},
		"one refusal": {after: func(e *engine) { e.once(fault{refuse: true}) }, want: []uint64{0, 1}},
		"no answer":   {after: func(e *engine) { e.set(func() fault { return fault{refuse: true} }) }},
		"no linger":   {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				e.add(created, stored("null", 1))
				tr := &Transport{Client: e.client()}
				if name != "no linger" {
					tr.Linger = 10 * time.Second
				}
				defer func() { require.NoError(t, tr.Close()) }()
				first := dial(t, tr, 0)
				require.Equal(t, []uint64{0, 1}, recvIDs(t, first, 2))
				if c.before != nil {
					c.before(e)
				}
				second := next(t, tr, first)
				if c.after != nil {
					c.after(e)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				var got []uint64
				m, err := second.Recv(ctx)
				for ; err == nil; m, err = second.Recv(ctx) {
					got = append(got, m.Seq)
				}
				assert.Equal(t, c.want, got)
			})
		})
	}
}

// An address is polled on for as long as was said, and no longer.
func TestLingerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.add(created)
		tr := &Transport{Client: e.client(), Linger: 10 * time.Second}
		c := dial(t, tr, 0)
		recvIDs(t, c, 1)
		require.NoError(t, c.Close())
		time.Sleep(9 * time.Second)
		before := e.count()
		time.Sleep(2 * time.Second)
		after := e.count()
		require.Greater(t, after, before)
		time.Sleep(time.Minute)
		require.Equal(t, after, e.count())

		c = dial(t, tr, 0)
		e.add(removed(1))
		require.Equal(t, []uint64{1}, recvIDs(t, c, 1), "who comes later begins anew")
		require.NoError(t, c.Close())
		require.NoError(t, tr.Close())
		require.NoError(t, tr.Close())
		before = e.count()
		time.Sleep(time.Minute)
		require.Equal(t, before, e.count())
	})
}

// What is kept is bounded.
func TestLingerIsBounded(t *testing.T) {
	s := &source{t: &Transport{Linger: time.Second}, lanes: map[int]*lane{}, conns: 1}
	l := s.lane(0)
	l.conn = &conn{wake: make(chan struct{}, 1)}
	raw := make([]byte, maxUnclaimed/4)
	copy(raw, fmt.Sprintf(`{"event_id":%d`, 0))
	for id := range uint64(4) {
		s.push(event{id: id, rank: 0, raw: raw}, time.Now())
	}
	require.Len(t, l.young.items(), 4)
	s.push(event{id: 4, rank: 0, raw: raw}, time.Now())
	require.Nil(t, l.young)
	s.push(event{id: 5, rank: 0, raw: raw}, time.Now())
	require.Nil(t, l.young, "a part of it is of no use")
}
