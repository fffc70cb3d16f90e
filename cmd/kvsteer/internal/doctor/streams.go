package doctor

import (
	"context"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

const (
	// recheck is how soon a lost last message is looked for.
	recheck = time.Second
	// indexBytes bounds the index of one worker: some ten million tokens.
	indexBytes = 64 << 20
)

// streams follows the events of one worker as the router does.
type streams struct {
	index  *kvcache.Index
	owners []kvcache.Owner // by rank
	all    []*stream
}

// stream is one event address.
type stream struct {
	endpoint follow.Endpoint
	rank     int // whose events it has, -1 if batches tell
	tap      *tap
	follower *follow.Follower // nil if it can't be dialled, for the reason err
	err      error
	// stats are those of when the stream had settled.
	stats follow.Stats
}

// open starts to follow all addresses.
func openStreams(ctx context.Context, w *fleet.Worker, transport follow.Transport, patience time.Duration) *streams {
	s := &streams{index: kvcache.NewIndex(kvcache.Options{MaxBytes: indexBytes})}
	for range w.Ranks() {
		s.owners = append(s.owners, s.index.Join(w.Name))
	}
	for _, ep := range w.Events {
		one := &stream{endpoint: ep, rank: -1, tap: newTap(transport)}
		if len(w.Events) == len(s.owners) && ep.Rank < len(s.owners) {
			one.rank = ep.Rank // as the router takes it: a batch may count ranks over several nodes
		}
		one.follower, one.err = follow.Start(ctx, follow.Config{
			Transport: one.tap, Endpoint: ep, Index: s.index, Owner: s.ownerOf(one.rank),
			ReplayTimeout: patience, CheckEvery: recheck, RetryMax: recheck,
		})
		s.all = append(s.all, one)
	}
	return s
}

func (s *streams) ownerOf(own int) func(int) (kvcache.Owner, bool) {
	return func(rank int) (kvcache.Owner, bool) {
		if own >= 0 {
			rank = own
		}
		if rank < 0 || rank >= len(s.owners) {
			return kvcache.Owner{}, false
		}
		return s.owners[rank], true
	}
}

func (s *streams) close() {
	for _, one := range s.all {
		if one.follower != nil {
			_ = one.follower.Close() // always nil
		}
	}
}

// blockSize is what the events say, 0 if they have said nothing.
func (s *streams) blockSize() int {
	size := 0
	for _, o := range s.owners {
		size = max(size, s.index.BlockSize(o))
	}
	return size
}

// held is how many blocks of a prompt, of so many tokens a block, a rank holds.
func (s *streams) held(keys []kvcache.Key, rank int) int {
	hits := make([]kvcache.Hit, 1)
	s.index.Match(keys, s.owners[rank:rank+1], hits)
	return int(hits[0].Confirmed)
}

// exact reports whether what is known of a rank is all there is.
func (s *streams) exact(rank int) bool { return s.index.Trust(s.owners[rank]) == kvcache.Exact }

// settled reports whether the stream has got as far as it will get by itself, and
// notes where that is.
func (one *stream) settled() bool {
	one.stats = one.follower.Stats()
	if one.follower.Problem() != "" {
		return true
	}
	switch one.stats.Reason {
	case follow.ReasonNone:
		return one.stats.Trust == kvcache.Exact
	case follow.ReasonStarting, follow.ReasonGap, follow.ReasonUnanswered, follow.ReasonNotConnected, follow.ReasonDisconnected:
		return false
	default:
		return true
	}
}

// messages is how many messages the engine is known to have published.
func (one *stream) messages() int {
	return peek(one.tap, func(o *observed) int { return len(o.live) + len(o.replayed) })
}

// missedSince counts the messages that came after the stream had settled, and those of them that only
// a replay brought.
func (one *stream) missedSince() (missed, total int) {
	one.tap.mu.Lock()
	defer one.tap.mu.Unlock()
	o := &one.tap.seen
	for seq := range o.live {
		if seq >= one.stats.Next {
			total++
		}
	}
	for seq := range o.replayed {
		if seq >= one.stats.Next && !o.live[seq] {
			missed++
		}
	}
	return missed, missed + total
}
