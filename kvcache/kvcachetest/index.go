package kvcachetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// IndexLike is what an [kvcache.Index] does, for those who write another.
type IndexLike interface { //nolint:interfacebloat // an Index has these
	Join(name string) kvcache.Owner
	Leave(o kvcache.Owner)
	Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome
	Clear(o kvcache.Owner)
	Book(o kvcache.Owner, keys []kvcache.Key, ttl time.Duration)
	SetCapacity(o kvcache.Owner, blocks int)
	Match(keys []kvcache.Key, owners []kvcache.Owner, hits []kvcache.Hit)
	BlockSize(o kvcache.Owner) int
	Trust(o kvcache.Owner) kvcache.Trust
	SetTrust(o kvcache.Owner, t kvcache.Trust)
	Standing(o kvcache.Owner) kvcache.Standing
	SetStanding(o kvcache.Owner, s kvcache.Standing)
	Short(o kvcache.Owner) kvcache.Reason
	Position(o kvcache.Owner) (kvcache.Position, bool)
	SetPosition(o kvcache.Owner, p kvcache.Position)
	Stats() kvcache.Stats
	OwnerStats(o kvcache.Owner) kvcache.OwnerStats
}

// NewIndexFunc makes the implementation under test. It must honour every option.
type NewIndexFunc func(kvcache.Options) IndexLike

// suiteOps is how many random operations [TestIndex] compares with the [Model].
const suiteOps = 20_000

// TestIndex runs the conformance suite: what an index must do, case by case, and
// then a random comparison with the [Model]. newIndex is called many times.
func TestIndex(t *testing.T, newIndex NewIndexFunc) {
	t.Helper()
	for _, c := range allIndexCases() {
		t.Run(c.name, func(t *testing.T) {
			if err := runIndexCase(c, newIndex); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("random", func(t *testing.T) {
		if err := CompareIndex(newIndex, RandomIndex{Seed: 1, Ops: suiteOps}); err != nil {
			t.Error(err)
		}
	})
}

// CheckIndex is [TestIndex] without a test: it returns everything that is wrong.
func CheckIndex(newIndex NewIndexFunc) error {
	var all []error
	for _, c := range allIndexCases() {
		if err := runIndexCase(c, newIndex); err != nil {
			all = append(all, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	if err := CompareIndex(newIndex, RandomIndex{Seed: 1, Ops: suiteOps}); err != nil {
		all = append(all, fmt.Errorf("random: %w", err))
	}
	return errors.Join(all...)
}

func allIndexCases() []indexCase { return slices.Concat(indexCases, standingCases, windowCases) }

type indexCase struct {
	name string
	run  func(w *indexWorld)
}

// indexWorld is an index under test with a clock and short ways to say things.
// The first failed expectation ends the case.
type indexWorld struct {
	IndexLike
	now time.Time
}

// failure is what a failed expectation panics with, to leave the case.
type failure struct{ error }

func runIndexCase(c indexCase, newIndex NewIndexFunc) (err error) {
	w := &indexWorld{now: time.Unix(1_790_000_000, 0)}
	w.IndexLike = newIndex(kvcache.Options{MaxOrphans: 8, Now: func() time.Time { return w.now }})
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	c.run(w)
	return nil
}

func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// caseBlock is the block size of the cases, in tokens.
const caseBlock = 2

// tokensOf gives every block name two tokens; equal names, equal tokens.
func tokensOf(blocks string) []uint32 {
	var t []uint32
	for _, r := range blocks {
		t = append(t, uint32(r), uint32(r)+1)
	}
	return t
}

func keysOf(scope kvcache.Scope, blocks string) []kvcache.Key {
	return kvcache.Hasher{BlockSize: caseBlock}.Keys(nil, tokensOf(blocks), scope, nil)
}

// stored makes an event for a chain of one-letter blocks. The engine's hash of a
// block is its letter; parent is a letter or 0.
func stored(parent rune, blocks string) *kvcache.Event {
	e := &kvcache.Event{
		Kind: kvcache.Stored, Tokens: tokensOf(blocks), BlockSize: caseBlock,
		Hashes: hashesOf(blocks), Parent: kvcache.EngineHash(parent), HasParent: parent != 0,
	}
	return e
}

func hashesOf(blocks string) []kvcache.EngineHash {
	var hs []kvcache.EngineHash
	for _, r := range blocks {
		hs = append(hs, kvcache.EngineHash(r))
	}
	return hs
}

func removed(blocks string) *kvcache.Event {
	return &kvcache.Event{Kind: kvcache.Removed, Hashes: hashesOf(blocks)}
}

// placeholder makes an event for copies in CPU memory of blocks announced before.
func placeholder(blocks string) *kvcache.Event {
	return &kvcache.Event{Kind: kvcache.Stored, Hashes: hashesOf(blocks), Tier: kvcache.TierCPU}
}

func with(e *kvcache.Event, change func(*kvcache.Event)) *kvcache.Event {
	change(e)
	return e
}

func onTier(t kvcache.Tier) func(*kvcache.Event) { return func(e *kvcache.Event) { e.Tier = t } }
func inGroup(g int) func(*kvcache.Event)         { return func(e *kvcache.Event) { e.Group = g } }

func (w *indexWorld) apply(o kvcache.Owner, e *kvcache.Event, want kvcache.Verdict, reason kvcache.Reason) {
	if got := w.Apply(o, e); got.Verdict != want || got.Reason != reason {
		failf("Apply = %v (%v), want %v (%v)", got.Verdict, got.Reason, want, reason)
	}
}

func (w *indexWorld) do(o kvcache.Owner, events ...*kvcache.Event) {
	for _, e := range events {
		w.Apply(o, e)
	}
}

func (w *indexWorld) hit(o kvcache.Owner, keys []kvcache.Key) kvcache.Hit {
	hits := []kvcache.Hit{{Blocks: 77, Confirmed: 77}}
	w.Match(keys, []kvcache.Owner{o}, hits)
	return hits[0]
}

// expect checks how many leading blocks o holds, all of them confirmed.
func (w *indexWorld) expect(o kvcache.Owner, blocks string, want int32) {
	w.expectKeys(o, keysOf(kvcache.Scope{}, blocks), want, want)
}

func (w *indexWorld) expectKeys(o kvcache.Owner, keys []kvcache.Key, blocks, confirmed int32) {
	h := w.hit(o, keys)
	var sum int32
	for _, n := range h.Tiers {
		sum += n
	}
	if h.Blocks != blocks || h.Confirmed != confirmed || sum != blocks {
		failf("Match = %+v, want %d blocks, %d confirmed", h, blocks, confirmed)
	}
}

func (w *indexWorld) expectTiers(o kvcache.Owner, blocks string, want ...int32) {
	var tiers [kvcache.NumTiers]int32
	copy(tiers[:], want)
	if h := w.hit(o, keysOf(kvcache.Scope{}, blocks)); h.Tiers != tiers {
		failf("Tiers = %v, want %v", h.Tiers, tiers)
	}
}
