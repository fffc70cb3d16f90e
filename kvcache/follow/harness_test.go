package follow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// set is the blocks that an engine or an owner holds.
type set map[kvcache.EngineHash]bool

func setOf(hashes ...kvcache.EngineHash) set {
	s := set{}
	for _, h := range hashes {
		s[h] = true
	}
	return s
}

func (s set) within(of set) bool {
	for h := range s {
		if !of[h] {
			return false
		}
	}
	return true
}

// plainIndex is an index without tokens, tiers or chains, so that its content
// can be compared with the truth at a glance.
type plainIndex struct {
	mu     sync.Mutex
	blocks map[kvcache.Owner]set
	trust  map[kvcache.Owner]kvcache.Trust
	clears int
	refuse map[kvcache.EngineHash]kvcache.Reason
}

func (x *plainIndex) Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range e.Hashes {
		if why := x.refuse[h]; why != kvcache.NoReason {
			return kvcache.Outcome{Reason: why}
		}
	}
	applyTo(x.blocks, o, e)
	return kvcache.Outcome{Verdict: kvcache.Applied}
}

func applyTo(blocks map[kvcache.Owner]set, o kvcache.Owner, e *kvcache.Event) {
	s := blocks[o]
	if s == nil {
		s = set{}
		blocks[o] = s
	}
	for _, h := range e.Hashes {
		if e.Kind == kvcache.Stored {
			s[h] = true
		} else {
			delete(s, h)
		}
	}
	if e.Kind == kvcache.Cleared {
		clear(s)
	}
}

func (x *plainIndex) Clear(o kvcache.Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clears++
	clear(x.blocks[o])
}

func (x *plainIndex) SetTrust(o kvcache.Owner, t kvcache.Trust) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.trust[o] = t
}

func (x *plainIndex) state(o kvcache.Owner) (set, kvcache.Trust) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := maps.Clone(x.blocks[o])
	if s == nil {
		s = set{}
	}
	return s, x.trust[o]
}

// textDecoder decodes "id|rank|S1,2 R3 C M ?": stores, removals, a clear, a
// malformed event, an unknown one. "!" is undecodable.
type textDecoder struct{}

var errText = errors.New("not decodable")

func (textDecoder) Decode(payload []byte) (*kvcache.Batch, error) {
	_, text, _ := strings.Cut(string(payload), "|")
	rank, text, _ := strings.Cut(text, "|")
	b := &kvcache.Batch{}
	var err error
	if b.Rank, err = strconv.Atoi(rank); err != nil {
		return nil, errText
	}
	for op := range strings.FieldsSeq(text) {
		e := kvcache.Event{}
		switch op[0] {
		case 'S':
			e.Kind = kvcache.Stored
		case 'R':
			e.Kind = kvcache.Removed
		case 'C':
			e.Kind = kvcache.Cleared
		case 'M':
			b.Malformed++
			continue
		case '?':
			b.Unknown++
			continue
		default:
			return nil, errText
		}
		for n := range strings.SplitSeq(op[1:], ",") {
			if h, err := strconv.ParseUint(n, 10, 64); err == nil {
				e.Hashes = append(e.Hashes, kvcache.EngineHash(h))
			}
		}
		b.Events = append(b.Events, e)
	}
	return b, nil
}

// world is an engine, its publisher, and a Follower of it.
type world struct {
	t      *testing.T
	hub    *follow.Hub
	pipe   *follow.Pipe
	index  *plainIndex
	owners []kvcache.Owner // by rank
	f      *follow.Follower
	cfg    follow.Config

	serial  int
	truth   set
	changes []follow.Change // guarded by index.mu
}

// inWorld runs a test in a bubble of its own time.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		makes := kvcache.NewIndex(kvcache.Options{}) // for owners
		w := &world{
			t: t, hub: follow.NewHub(), truth: set{},
			index:  &plainIndex{blocks: map[kvcache.Owner]set{}, trust: map[kvcache.Owner]kvcache.Trust{}},
			owners: []kvcache.Owner{makes.Join("rank 0"), makes.Join("rank 1")},
		}
		w.open(follow.PipeOptions{})
		w.cfg = follow.Config{
			Transport: w.hub, Endpoint: w.pipe.Endpoint(0), Index: w.index, Decoder: textDecoder{},
			Owner: func(rank int) (kvcache.Owner, bool) {
				if rank < 0 || rank >= len(w.owners) {
					return kvcache.Owner{}, false
				}
				return w.owners[rank], true
			},
			OnTrust: func(c follow.Change) {
				w.index.mu.Lock()
				defer w.index.mu.Unlock()
				w.changes = append(w.changes, c)
			},
		}
		test(w)
	})
}

func (w *world) open(opts follow.PipeOptions) {
	w.t.Helper()
	if w.pipe != nil {
		require.NoError(w.t, w.pipe.Close())
	}
	var err error
	w.pipe, err = w.hub.Open("engine", opts)
	require.NoError(w.t, err)
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.f, err = follow.Start(context.Background(), w.cfg)
	require.NoError(w.t, err)
	f := w.f
	w.t.Cleanup(func() { assert.NoError(w.t, f.Close()) })
	synctest.Wait()
}

// publish sends one message for each text and waits until it is handled.
func (w *world) publish(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		w.publishRank(-1, text)
	}
	synctest.Wait()
}

func (w *world) publishRank(rank int, text string) {
	w.serial++
	payload := fmt.Sprintf("%d|%d|%s", w.serial, rank, text)
	if b, err := (textDecoder{}).Decode([]byte(payload)); err == nil && rank <= 0 {
		truth := map[kvcache.Owner]set{{}: w.truth}
		for i := range b.Events {
			applyTo(truth, kvcache.Owner{}, &b.Events[i])
		}
	}
	w.pipe.Publish([]byte(payload))
}

// restart begins a new engine with an empty cache.
func (w *world) restart(how func()) {
	how()
	w.truth = set{}
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

func (w *world) trust() kvcache.Trust {
	_, trust := w.index.state(w.owners[0])
	return trust
}

// expectExact checks that the index is said to be, and is, equal to the truth.
func (w *world) expectExact(msg ...any) {
	w.t.Helper()
	blocks, trust := w.index.state(w.owners[0])
	require.Equal(w.t, kvcache.Exact, trust, msg...)
	require.Equal(w.t, w.truth, blocks, msg...)
	require.Equal(w.t, follow.ReasonNone, w.f.Stats().Reason, msg...)
}

// expectLess checks that the index is said to be, and is, a lower bound.
func (w *world) expectLess(why follow.Reason) {
	w.t.Helper()
	blocks, trust := w.index.state(w.owners[0])
	require.Equal(w.t, kvcache.Resyncing, trust)
	require.Equal(w.t, why, w.f.Stats().Reason)
	assert.True(w.t, blocks.within(w.truth), "%v within %v", blocks, w.truth)
}

func (w *world) expectBlocks(hashes ...kvcache.EngineHash) {
	w.t.Helper()
	blocks, _ := w.index.state(w.owners[0])
	assert.Equal(w.t, setOf(hashes...), blocks)
}

// trusts lists the trust states that rank 0 went through.
func (w *world) trusts() []string {
	w.index.mu.Lock()
	defer w.index.mu.Unlock()
	var names []string
	for _, c := range w.changes {
		if c.Rank == 0 {
			names = append(names, strings.TrimSpace(c.To.String()+" "+string(c.Reason)))
		}
	}
	return names
}

// tap is a transport that watches or holds up another one's replays.
type tap struct {
	follow.Transport
	mu     sync.Mutex
	froms  []uint64
	asked  func()                 // called before each request
	before func(m follow.Message) // called before each replayed message is handed on
	shy    bool                   // connections never say that they are up
}

func (t *tap) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	c, err := t.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, err
	}
	return &tapConn{Conn: c, tap: t}, nil
}

func (t *tap) replays() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.froms)
}

type tapConn struct {
	follow.Conn
	tap *tap
}

func (c *tapConn) Link() follow.Link {
	if c.tap.shy {
		return follow.Link{}
	}
	return c.Conn.Link()
}

func (c *tapConn) Replay(ctx context.Context, from uint64, fn func(follow.Message) error) error {
	c.tap.mu.Lock()
	c.tap.froms = append(c.tap.froms, from)
	asked, before := c.tap.asked, c.tap.before
	c.tap.mu.Unlock()
	if asked != nil {
		asked()
	}
	return c.Conn.Replay(ctx, from, func(m follow.Message) error {
		if before != nil {
			before(m)
		}
		return fn(m)
	})
}
