package trtllm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// blockOf is the event of a block of 32 tokens, as long as the engine's are.
func blockOf(r *rand.Rand) string {
	const tokens, vocabulary = 32, 150_000
	list := make([]string, tokens)
	for i := range list {
		list[i] = fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, r.IntN(vocabulary))
	}
	return fmt.Sprintf(`{"type":"stored","parent_hash":%d,"blocks":[{"type":"stored_block","block_hash":%d,"tokens":[%s],"cache_level":0,"priority":35}]}`,
		r.Uint64(), r.Uint64(), strings.Join(list, ","))
}

// What is kept comes back as it was, and takes a sixth of the memory at most, with tokens that
// are pure chance and so as hard to pack as any.
func TestYoungArePacked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	y := &young{began: time.Now()}
	var want []item
	add := func(payload string) {
		it := item{follow.Message{Seq: uint64(len(want)), Payload: []byte(payload)}, int64(len(payload)) + 1}
		require.True(t, y.fits(&it, y.began))
		y.add(&it)
		want = append(want, it)
	}
	require.Empty(t, y.items())
	add(created)
	require.Equal(t, want, y.items())
	const events = 1000
	for range events {
		add(blockOf(r))
	}
	require.Equal(t, want, y.items())
	held := cap(y.rest)
	for _, p := range y.packed {
		held += cap(p)
	}
	t.Logf("%d bytes of events are held in %d", y.size, held)
	require.Less(t, int64(held), y.size/6)

	add(strings.Repeat("x", 5*chunk))
	require.LessOrEqual(t, cap(y.rest), 2*chunk, "no room is kept for the longest event")
	add(created)
	add("")
	require.Equal(t, want, y.items())
	require.Equal(t, want, y.items(), "and again")
}

// More than one chunk is handed on, and what is packed meanwhile follows it.
func TestLingerHandsOnWhatIsPacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		e := newEngine()
		tr := &Transport{Client: e.client(), Linger: 10 * time.Second}
		const events = 100
		e.add(created)
		for range events {
			e.add(blockOf(r))
		}
		c := dial(t, tr, 0)
		var first, again []follow.Message
		take := func(to *[]follow.Message, n int) {
			for range n {
				m, err := recv(t, c)
				require.NoError(t, err)
				*to = append(*to, m)
			}
		}
		take(&first, events+1)
		c = next(t, tr, c)
		for range events {
			e.add(blockOf(r))
		}
		take(&again, 2*events+1)
		require.Equal(t, first, again[:events+1])
		require.EqualValues(t, 2*events, again[2*events].Seq)
		require.NoError(t, tr.Close())
	})
}

// An engine that says nothing any more has its first events forgotten, too.
func TestYoungEventsAreForgotten(t *testing.T) {
	now := time.Now()
	s := &source{t: &Transport{Linger: time.Second}, lanes: map[int]*lane{}, conns: 1, changed: make(chan struct{})}
	l := s.lane(0)
	l.conn = &conn{wake: make(chan struct{}, 1)}
	s.push(event{id: 0, rank: 0, raw: []byte(`{"event_id":0}`)}, now)
	s.deliver(answer{})
	require.NotNil(t, l.young)
	l.young.began = now.Add(-youth)
	s.deliver(answer{})
	require.Nil(t, l.young)
}
