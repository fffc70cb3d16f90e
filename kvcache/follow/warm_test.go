package follow_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// patience is for machines that are busy with something else.
const patience = time.Minute

// busyEngine publishes stores and removals in vLLM's encoding.
type busyEngine struct {
	traceEngine
	rng     *rand.Rand
	publish func(payload []byte)
	sent    int
	names   uint64 // of its stretches begin here
}

func newBusyEngine(seed uint64, publish func([]byte)) *busyEngine {
	return &busyEngine{traceEngine{used: map[uint64]int{}}, rand.New(rand.NewPCG(seed, 7)), publish, 0, 0}
}

// work serves n prompts of up to 12 stretches, many with a beginning in common.
func (e *busyEngine) work(n int) {
	for range n {
		last := uint64(e.rng.IntN(6))
		ids := []uint64{e.names + last}
		for len(ids) < 1+e.rng.IntN(12) {
			last = last*8 + 6 + uint64(e.rng.IntN(3))
			ids = append(ids, e.names+last)
		}
		e.ask(ids)
	}
}

// fill serves prompts with nothing in common until the cache is full.
func (e *busyEngine) fill() {
	for i := range uint64(traceCapacity) {
		e.ask([]uint64{e.names + i})
	}
}

// ask serves one prompt and publishes what comes of it.
func (e *busyEngine) ask(ids []uint64) {
	// The time that step puts into a payload is that of its place in out.
	out := make([]traceMessage, e.sent)
	s := step{limit: 128, out: &out}
	e.serve(ids, &s)
	s.end()
	for _, m := range out[e.sent:] {
		e.publish(m.payload)
		e.sent++
	}
}

// pursuit is an index and a Follower that keeps it.
type pursuit struct {
	t     *testing.T
	index *kvcache.Index
	owner kvcache.Owner
	f     *follow.Follower
}

// pursue follows ep, after importing a snapshot if there is one.
func pursue(t *testing.T, tr follow.Transport, ep follow.Endpoint, snapshot []byte) *pursuit {
	t.Helper()
	p := &pursuit{t: t, index: kvcache.NewIndex(kvcache.Options{})}
	p.owner = p.index.Join("worker")
	if snapshot != nil {
		_, err := p.index.Import(bytes.NewReader(snapshot), nil)
		require.NoError(t, err)
		require.Equal(t, kvcache.Approximate, p.index.Trust(p.owner))
	}
	var err error
	p.f, err = follow.Start(context.Background(), follow.Config{
		Transport: tr, Endpoint: ep, Index: p.index,
		Owner: func(int) (kvcache.Owner, bool) { return p.owner, true },
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.f.Close()) })
	return p
}

// waitExact waits until the follower has heard of n messages and is exact.
func (p *pursuit) waitExact(n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		return p.index.Trust(p.owner) == kvcache.Exact && p.f.Stats().Next == uint64(n)
	}, patience, 2*time.Millisecond, "%+v", p.f.Stats())
}

func (p *pursuit) export() []byte {
	p.t.Helper()
	var out bytes.Buffer
	require.NoError(p.t, p.index.Export(&out))
	return out.Bytes()
}

// requireSame compares what two indexes hold, block by block.
func (p *pursuit) requireSame(cold *pursuit, engine *busyEngine) {
	p.t.Helper()
	s := p.index.OwnerStats(p.owner)
	require.Equal(p.t, len(engine.used)*traceStretch, cold.index.OwnerStats(cold.owner).Pairs)
	require.Equal(p.t, len(engine.used)*traceStretch, s.Pairs)
	require.Zero(p.t, s.Orphans)
	// A snapshot names every block with its hashes and copies.
	require.Len(p.t, p.export(), len(cold.export()))
}

// testWarmStart: a router's successor takes over its index and goes on where it
// stopped, and is then where one that begins anew is.
func testWarmStart(t *testing.T, tr follow.Transport, ep follow.Endpoint, publish func([]byte)) {
	t.Helper()
	engine := newBusyEngine(1, publish)
	engine.work(200)
	first := pursue(t, tr, ep, nil)
	first.waitExact(engine.sent)
	snapshot, at := first.export(), engine.sent
	engine.work(50)

	warm := pursue(t, tr, ep, snapshot)
	warm.waitExact(engine.sent)
	s := warm.f.Stats()
	assert.Equal(t, uint64(1), s.Resumed)
	assert.LessOrEqual(t, s.Replayed, uint64(engine.sent-at)+130, "no more than what came after, and its proofs")
	cold := pursue(t, tr, ep, nil)
	cold.waitExact(engine.sent)
	assert.Zero(t, cold.f.Stats().Resumed)
	warm.requireSame(cold, engine)

	engine.work(50)
	warm.waitExact(engine.sent)
	cold.waitExact(engine.sent)
	first.waitExact(engine.sent)
	warm.requireSame(cold, engine)

	// While events keep coming the snapshot has a place in the stream, too.
	done := make(chan struct{})
	go func() {
		defer close(done)
		engine.work(100)
	}()
	snapshot = first.export()
	<-done
	warm = pursue(t, tr, ep, snapshot)
	warm.waitExact(engine.sent)
	cold.waitExact(engine.sent)
	assert.Equal(t, uint64(1), warm.f.Stats().Resumed)
	warm.requireSame(cold, engine)
}

func TestWarmStart(t *testing.T) {
	t.Parallel()
	t.Run("in the process", func(t *testing.T) {
		t.Parallel()
		hub := follow.NewHub()
		pipe, err := hub.Open("engine", follow.PipeOptions{})
		require.NoError(t, err)
		testWarmStart(t, hub, pipe.Endpoint(0), func(p []byte) { pipe.Publish(p) })
	})
	t.Run("over TCP", func(t *testing.T) {
		t.Parallel()
		pub, err := zmtp.NewPublisher(zmtp.PublisherConfig{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", ReplayTopic: true})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, pub.Close()) })
		testWarmStart(t, new(zmtp.Transport), pub.Endpoint(), func(p []byte) {
			_, err := pub.Publish("kv", p)
			assert.NoError(t, err)
		})
	})
}

// The engine was restarted between the snapshot and its use.
func TestWarmStartOfAnotherProcess(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	pipe, err := hub.Open("engine", follow.PipeOptions{})
	require.NoError(t, err)
	engine := newBusyEngine(1, func(p []byte) { pipe.Publish(p) })
	engine.work(50)
	first := pursue(t, hub, pipe.Endpoint(0), nil)
	first.waitExact(engine.sent)
	snapshot := first.export()
	pipe.Restart()
	other := newBusyEngine(2, engine.publish)
	other.work(80)
	warm := pursue(t, hub, pipe.Endpoint(0), snapshot)
	warm.waitExact(other.sent)
	assert.Zero(t, warm.f.Stats().Resumed)
	warm.requireSame(warm, other)
}

// A budget that all owners' blocks do not fit into names what is lost, and the
// blocks come back when others have left.
func TestBudgetIsNamedAndMadeUpFor(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	index := kvcache.NewIndex(kvcache.Options{MaxBytes: 4 << 20})
	engines, owners, followers := make([]*busyEngine, 9), make([]kvcache.Owner, 9), make([]*follow.Follower, 9)
	for i := range engines {
		pipe, err := hub.Open(string(rune('a'+i)), follow.PipeOptions{})
		require.NoError(t, err)
		engines[i] = newBusyEngine(uint64(i), func(p []byte) { pipe.Publish(p) })
		engines[i].names = uint64(i) << 48 // nothing in common
		owners[i] = index.Join("worker")
		followers[i], err = follow.Start(context.Background(), follow.Config{
			Transport: hub, Endpoint: pipe.Endpoint(0), Index: index, CheckEvery: 20 * time.Millisecond, ResyncEvery: 50 * time.Millisecond,
			Owner: func(int) (kvcache.Owner, bool) { return owners[i], true },
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, followers[i].Close()) })
		engines[i].fill()
	}
	for i := range engines {
		require.Eventually(t, func() bool {
			p, ok := index.Position(owners[i])
			return ok && p.Seq == uint64(engines[i].sent-1)
		}, patience, time.Millisecond)
	}
	// Attempts to win back blocks may be under way, but somebody is always short.
	loser := -1
	require.Eventually(t, func() bool {
		for i, o := range owners {
			s := index.OwnerStats(o)
			if all := len(engines[i].used) * traceStretch; s.Pairs < all {
				assert.Equal(t, kvcache.Resyncing, s.Trust, "less is not exact")
				assert.NotEmpty(t, s.TrustReason)
				if s.Short == kvcache.ReasonEvicted {
					loser = i
				}
			}
		}
		return loser >= 0
	}, patience, time.Millisecond)
	// All but one of those that lost something leave.
	for i := range owners {
		if i != loser {
			require.NoError(t, followers[i].Close())
			index.Leave(owners[i])
		}
	}
	require.Eventually(t, func() bool {
		s := index.OwnerStats(owners[loser])
		return s.Trust == kvcache.Exact && s.Pairs == len(engines[loser].used)*traceStretch
	}, patience, 5*time.Millisecond, "%+v", index.OwnerStats(owners[loser]))
	assert.Positive(t, followers[loser].Stats().Restores)
}

// A late subscriber hears of blocks before their parents, whose events the engine
// no longer has: nothing of it counts before the parent comes, and all of it then.
func TestOrphansOfALateJoin(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	pipe, err := hub.Open("engine", follow.PipeOptions{ReplayBatches: 2})
	require.NoError(t, err)
	var out []traceMessage
	s := step{limit: traceStretch, out: &out}
	for i := range 4 {
		s.store([]uint64{1, 2, 3, 4}, i)
		s.end()
	}
	s.remove(traceHash(9, 0)) // which it never heard of either
	s.end()
	for _, m := range out[:4] {
		pipe.Publish(m.payload)
	}
	p := pursue(t, hub, pipe.Endpoint(0), nil)
	require.Eventually(t, func() bool { return p.f.Stats().Next == 4 }, patience, time.Millisecond)
	pipe.Publish(out[4].payload)
	keys := keysOf(1, 2, 3, 4)
	found := func() (blocks int) {
		hits := make([]kvcache.Hit, 1)
		p.index.Match(keys, []kvcache.Owner{p.owner}, hits)
		return int(hits[0].Blocks)
	}
	require.Eventually(t, func() bool { return p.f.Stats().Next == 5 }, patience, time.Millisecond)
	st := p.index.OwnerStats(p.owner)
	assert.Equal(t, 2*traceStretch, st.Orphans)
	assert.Zero(t, found(), "an orphan is no beginning of a prompt")
	assert.Equal(t, kvcache.Standing{Trust: kvcache.Resyncing, Reason: "history wrapped"}, p.index.Standing(p.owner))
	// The engine computes the beginning anew.
	pipe.Publish(out[1].payload)
	require.Eventually(t, func() bool { return p.f.Stats().Next == 6 }, patience, time.Millisecond)
	assert.Zero(t, found())
	pipe.Publish(out[0].payload)
	require.Eventually(t, func() bool { return found() == 4*traceStretch }, patience, time.Millisecond)
	assert.Zero(t, p.index.OwnerStats(p.owner).Orphans)
	assert.Equal(t, kvcache.Resyncing, p.index.Trust(p.owner), "there may be more")
}

func keysOf(ids ...uint64) []kvcache.Key {
	var tokens []uint32
	for _, id := range ids {
		tokens = appendStretch(tokens, id)
	}
	return kvcache.Hasher{BlockSize: traceBlock}.Keys(nil, tokens, kvcache.Scope{}, nil)
}
