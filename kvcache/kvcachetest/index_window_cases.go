package kvcachetest

import (
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// ofKind makes an event one of group 1, which is of some kind of attention.
func ofKind(a kvcache.Attention, window int) func(*kvcache.Event) {
	return func(e *kvcache.Event) { e.Attention, e.Window, e.Group = a, window, 1 }
}

// of has the group's event name some of the blocks only.
func of(e *kvcache.Event, blocks string) *kvcache.Event {
	e.Hashes = hashesOf(blocks)
	return e
}

//nolint:gochecknoglobals // a table that nothing changes
var windowCases = []indexCase{
	{"a hit ends where a window is there", func(w *indexWorld) {
		o := w.Join("a")
		sliding := ofKind(kvcache.WindowAttention, 2*caseBlock) // two blocks less a token
		w.SetTrust(o, kvcache.Exact)
		w.apply(o, of(with(stored(0, "abcdefgh"), sliding), "gh"), applied, none)
		w.do(o, stored(0, "abcdefgh"))
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.expect(o, "abcdefgh", 8)
		w.expect(o, "abcdefg", 0)
		w.expect(o, "abcdx", 0)
		// As far as it goes from the start, a window may be shorter.
		w.apply(o, of(with(stored(0, "ab"), sliding), "a"), applied, none)
		w.expect(o, "abcd", 1)
		w.apply(o, of(with(stored(0, "abcd"), sliding), "cdc"), applied, none)
		w.expect(o, "abcdx", 4)
		w.expect(o, "abcde", 4)
		w.expect(o, "abc", 1)
		w.apply(o, with(removed("c"), inGroup(1)), duplicate, none)
		w.expect(o, "abcde", 4)
		w.apply(o, with(removed("cc"), inGroup(1)), applied, kvcache.ReasonUnknown)
		w.expect(o, "abcde", 1)
		// What the windows have is of no use without the rest.
		w.do(o, removed("gh"))
		w.expect(o, "abcdefgh", 1)
		if s := w.OwnerStats(o); s.Windows != 4 || s.Pairs != 6 {
			failf("%d window blocks, %d pairs, want 4, 6", s.Windows, s.Pairs)
		}
		w.do(o, &kvcache.Event{Kind: kvcache.Cleared}, stored(0, "ab"))
		w.expect(o, "abcd", 2)
	}},
	{"a window of one token needs a block", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "abcd"), of(with(stored(0, "abcd"), ofKind(kvcache.WindowAttention, 1)), "c"))
		w.expect(o, "abcd", 3)
	}},
	{"a hit ends where a state is", func(w *indexWorld) {
		o := w.Join("a")
		state := ofKind(kvcache.StateAttention, 0)
		w.do(o, stored(0, "abcdef"), of(with(stored(0, "abcdef"), state), "bd"))
		w.expect(o, "abcdef", 4)
		w.expect(o, "abc", 2)
		w.expect(o, "a", 0)
		w.do(o, with(removed("d"), inGroup(1)))
		w.expect(o, "abcdef", 2)
	}},
	{"all groups must allow it", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, of(with(stored(0, "abcdefgh"), ofKind(kvcache.WindowAttention, 2*caseBlock)), "cdefgh"), stored(0, "abcdefgh"))
		state := with(stored(0, "abcdefgh"), func(e *kvcache.Event) {
			e.Attention, e.Group, e.BlockSize = kvcache.StateAttention, 2, 3*caseBlock
		})
		w.do(o, of(state, "cf"))
		w.expect(o, "abcdefgh", 6) // not at 3, where the window starts too late
		w.expect(o, "abcde", 0)
	}},
	{"a kind that is not known needs all blocks, and is no ground for trust", func(w *indexWorld) {
		o := w.Join("a")
		w.SetTrust(o, kvcache.Exact)
		unsure := kvcache.Standing{Trust: kvcache.Approximate, Reason: "attention of unknown kind"}
		w.do(o, stored(0, "abcd"))
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.do(o, of(with(stored(0, "abcd"), ofKind(kvcache.OtherAttention, 0)), "abd"))
		w.expect(o, "abcd", 2)
		w.expectStanding(o, unsure, none)
		w.Clear(o)
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		// Blocks that end where no block of ours does.
		odd := with(stored(0, "abcd"), func(e *kvcache.Event) {
			e.Attention, e.Window, e.Group, e.BlockSize = kvcache.WindowAttention, 4, 1, caseBlock+1
		})
		w.do(o, stored(0, "abcd"), of(odd, "abcd"))
		w.expect(o, "abcd", 0)
		w.expectStanding(o, unsure, none)
		w.Clear(o)
		// Nothing but windows.
		w.do(o, with(stored(0, "abcd"), ofKind(kvcache.WindowAttention, 4)))
		w.expect(o, "abcd", 0)
		w.expectStanding(o, unsure, none)
		// One that changes.
		w.do(o, stored(0, "abcd"))
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.expect(o, "abcd", 4)
		w.do(o, of(with(stored(0, "abcd"), ofKind(kvcache.WindowAttention, 5)), "a"), with(removed("b"), inGroup(1)))
		w.expect(o, "abcd", 1)
		w.expectStanding(o, unsure, none)
	}},
	{"hybrids are served from GPU memory", func(w *indexWorld) {
		o := w.Join("a")
		state := ofKind(kvcache.StateAttention, 0)
		w.do(o, with(stored(0, "abcd"), state), stored(0, "abcd"))
		w.do(o, with(stored(0, "c"), onTier(kvcache.TierCPU)), placeholder("abcd"), removed("c"))
		w.expect(o, "abcd", 2)
		w.apply(o, with(placeholder("abcd"), inGroup(1)), ignored, kvcache.ReasonAttention)
		w.apply(o, with(with(removed("b"), inGroup(1)), onTier(kvcache.TierCPU)), ignored, kvcache.ReasonAttention)
		w.expect(o, "abcd", 2)
		w.do(o, with(removed("b"), inGroup(1)))
		w.expect(o, "abcd", 1)
	}},
	{"a booking on a hybrid is of use where it ends", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, of(with(stored(0, "ab"), ofKind(kvcache.WindowAttention, 2*caseBlock)), "ab"), stored(0, "ab"))
		w.Book(o, keysOf(kvcache.Scope{}, "abcde"), time.Minute)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "abcdef"), 5, 2)
		w.expect(o, "abcd", 2)
		w.Book(o, keysOf(kvcache.Scope{}, "abcdefg"), time.Hour)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "abcdef"), 5, 2)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "abcdefg"), 7, 2)
		// What it announces is what counts.
		w.do(o, stored('b', "cdefg"))
		w.expect(o, "abcdefg", 2)
		w.do(o, of(with(stored('b', "cdefg"), ofKind(kvcache.WindowAttention, 2*caseBlock)), "fg"))
		w.expect(o, "abcdefg", 7)
		w.Book(o, keysOf(kvcache.Scope{}, "xy"), time.Second)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "xy"), 2, 0)
		w.now = w.now.Add(2 * time.Second)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "xy"), 0, 0)
	}},
}
