package kvcachetest

import (
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Short names for what the cases say most.
const (
	applied   = kvcache.Applied
	duplicate = kvcache.Duplicate
	orphaned  = kvcache.Orphaned
	ignored   = kvcache.Ignored
	none      = kvcache.NoReason
)

//nolint:gochecknoglobals // a table that nothing changes
var indexCases = []indexCase{
	{"store and remove", func(w *indexWorld) {
		o := w.Join("a")
		w.expect(o, "abc", 0)
		w.apply(o, stored(0, "abc"), applied, none)
		w.expect(o, "abc", 3)
		w.expect(o, "ab", 2)
		w.expect(o, "abcd", 3)
		w.expect(o, "abx", 2)
		w.expect(o, "xbc", 0)
		w.expect(o, "", 0)
		w.apply(o, stored('c', "d"), applied, none)
		w.expect(o, "abcd", 4)
		w.apply(o, removed("d"), applied, none)
		w.expect(o, "abcd", 3)
	}},
	{"a hole stops the match until it is filled", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "abcd"), removed("b"))
		w.expect(o, "abcd", 1)
		w.do(o, stored('a', "b"))
		w.expect(o, "abcd", 4)
		w.do(o, removed("a"))
		w.expect(o, "abcd", 0)
		w.do(o, stored(0, "a"))
		w.expect(o, "abcd", 4)
	}},
	{"branches share their start", func(w *indexWorld) {
		o, p := w.Join("a"), w.Join("b")
		w.do(o, stored(0, "abcd"), stored('b', "xy"), stored('x', "z"))
		w.do(p, stored(0, "abx"))
		w.expect(o, "abcd", 4)
		w.expect(o, "abxy", 4)
		w.expect(o, "abxz", 4)
		w.expect(p, "abxy", 3)
		w.expect(p, "abcd", 2)
		w.do(o, removed("ab"))
		w.expect(o, "abcd", 0)
		w.expect(p, "abx", 3)
	}},
	{"duplicates are counted", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "ab"))
		w.apply(o, stored(0, "ab"), duplicate, none)
		if s := w.Stats(); s.Blocks != 2 || s.Pairs != 2 {
			failf("a repeated store made %d blocks, %d pairs of 2", s.Blocks, s.Pairs)
		}
		w.apply(o, removed("b"), duplicate, none)
		w.expect(o, "ab", 2)
		w.apply(o, removed("b"), applied, none)
		w.expect(o, "ab", 1)
		w.apply(o, removed("b"), ignored, kvcache.ReasonUnknown)
		w.do(o, stored('a', "b"))
		w.expect(o, "ab", 2)
		w.apply(o, removed("b"), applied, none)
		w.expect(o, "ab", 1)
	}},
	{"tiers", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "abcd"))
		w.expectTiers(o, "abcd", 4)
		w.apply(o, placeholder("bc"), applied, none)
		w.expectTiers(o, "abcd", 4)
		w.do(o, removed("b"))
		w.expectTiers(o, "abcd", 3, 1)
		w.apply(o, with(removed("b"), onTier(kvcache.TierDisk)), ignored, kvcache.ReasonUnknown)
		w.expectTiers(o, "abcd", 3, 1)
		w.do(o, with(removed("b"), onTier(kvcache.TierCPU)))
		w.expectTiers(o, "abcd", 1)
		w.do(o, with(stored('a', "b"), onTier(kvcache.TierRemote)))
		w.expectTiers(o, "abcd", 3, 0, 0, 1)
		w.do(o, with(stored('a', "b"), onTier(kvcache.TierDisk)))
		w.expectTiers(o, "abcd", 3, 0, 1)
		w.do(o, with(stored('a', "b"), onTier(kvcache.TierDisk)), with(removed("b"), onTier(kvcache.TierDisk)))
		w.expectTiers(o, "abcd", 3, 0, 1)
	}},
	{"a placeholder of an unknown block is refused", func(w *indexWorld) {
		o := w.Join("a")
		w.apply(o, placeholder("a"), ignored, kvcache.ReasonUnknown)
		w.expect(o, "a", 0)
	}},
	{"orphans wait for their parent", func(w *indexWorld) {
		o := w.Join("a")
		w.apply(o, stored('a', "b"), orphaned, none)
		w.apply(o, stored('b', "cd"), orphaned, none)
		w.expect(o, "abcd", 0)
		w.expect(o, "bcd", 0)
		w.expect(o, "cd", 0)
		if n := w.Stats().Orphans; n != 3 {
			failf("%d orphans, want 3", n)
		}
		w.do(o, removed("d"))
		if out := w.Apply(o, stored(0, "a")); out.Adopted != 2 {
			failf("%d blocks adopted, want 2", out.Adopted)
		}
		w.expect(o, "abcd", 3)
		if n := w.Stats().Orphans; n != 0 {
			failf("%d orphans, want none", n)
		}
	}},
	{"orphans keep their copies", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored('a', "b"), stored('a', "b"), placeholder("b"), stored(0, "a"))
		w.expect(o, "ab", 2)
		w.do(o, removed("b"))
		w.expectTiers(o, "ab", 2)
		w.do(o, removed("b"))
		w.expectTiers(o, "ab", 1, 1)
	}},
	{"orphans are bounded", func(w *indexWorld) {
		o := w.Join("a")
		w.apply(o, stored('a', "bcdefghijklm"), orphaned, kvcache.ReasonOrphanBound)
		if n := w.Stats().Orphans; n != 8 {
			failf("%d orphans, want the bound of 8", n)
		}
		w.apply(o, stored('a', "z"), ignored, kvcache.ReasonOrphanBound)
		w.apply(o, stored('a', "b"), duplicate, none)
		w.do(o, stored(0, "a"))
		w.expect(o, "abcdefghijklm", 9)
	}},
	{"clearing is one owner's affair", func(w *indexWorld) {
		o, p := w.Join("a"), w.Join("b")
		w.SetTrust(o, kvcache.Exact)
		for _, q := range []kvcache.Owner{o, p} {
			w.do(q, stored(0, "abc"), stored('x', "y"))
			w.Book(q, keysOf(kvcache.Scope{}, "mn"), time.Minute)
		}
		w.apply(o, &kvcache.Event{Kind: kvcache.Cleared}, applied, none)
		w.expect(o, "abc", 0)
		w.expect(o, "mn", 0)
		w.expect(p, "abc", 3)
		w.expectKeys(p, keysOf(kvcache.Scope{}, "mn"), 2, 0)
		w.do(o, stored(0, "ab"))
		w.expect(o, "abc", 2)
		w.Clear(o)
		w.expect(o, "abc", 0)
		if w.BlockSize(o) != 0 || w.Trust(o) != kvcache.Exact {
			failf("Clear must forget the block size and keep the trust")
		}
		w.Clear(p)
		if s := w.Stats(); s.Blocks+s.Pairs+s.Orphans+s.Provisional != 0 {
			failf("blocks remain after clearing: %+v", s)
		}
	}},
	{"an owner that left is gone for good", func(w *indexWorld) {
		o, p := w.Join("a"), w.Join("a")
		w.do(o, stored(0, "ab"))
		w.do(p, stored(0, "a"))
		w.SetTrust(o, kvcache.Exact)
		w.Leave(o)
		w.Leave(o)
		w.expect(o, "ab", 0)
		if w.Trust(o) != kvcache.Blind || w.BlockSize(o) != 0 {
			failf("trust or block size of an owner that left")
		}
		q := w.Join("a")
		if q == o || q == p || q.IsZero() {
			failf("an owner was used again")
		}
		w.expect(q, "ab", 0)
		w.apply(o, stored(0, "ab"), ignored, kvcache.ReasonOwner)
		w.Book(o, keysOf(kvcache.Scope{}, "ab"), time.Hour)
		w.SetTrust(o, kvcache.Exact)
		w.SetCapacity(o, 1)
		w.Clear(o)
		w.expect(o, "ab", 0)
		w.expect(q, "ab", 0)
		w.expect(p, "ab", 1)
		w.expect(kvcache.Owner{}, "ab", 0)
		if w.Trust(o) != kvcache.Blind || w.Trust(q) != kvcache.Blind || w.OwnerStats(o) != (kvcache.OwnerStats{}) {
			failf("the trust of an owner survived it")
		}
		if s := w.Stats(); s.Owners != 2 || s.Pairs != 1 {
			failf("%d owners with %d pairs, want 2 with 1", s.Owners, s.Pairs)
		}
	}},
	{"adapters, salts and extras are apart", func(w *indexWorld) {
		o := w.Join("a")
		scopes := []kvcache.Scope{{}, {Adapter: "x"}, {Adapter: "y"}, {Salt: "x"}, {Adapter: "x", Salt: "x"}}
		for i, s := range scopes {
			e := with(stored(0, "ab"), func(e *kvcache.Event) {
				e.Adapter, e.Salt = s.Adapter, s.Salt
				e.Hashes = []kvcache.EngineHash{kvcache.EngineHash(10 * i), kvcache.EngineHash(10*i + 1)}
			})
			w.expectKeys(o, keysOf(s, "ab"), 0, 0)
			w.apply(o, e, applied, none)
			w.expectKeys(o, keysOf(s, "ab"), 2, 2)
		}
		e := stored(0, "vw")
		e.Extras = [][]kvcache.Extra{nil, {{ID: "image", Offset: -1}}}
		w.apply(o, e, applied, none)
		h := kvcache.Hasher{BlockSize: caseBlock}
		w.expect(o, "vw", 1)
		w.expectKeys(o, h.Keys(nil, tokensOf("vw"), kvcache.Scope{}, []kvcache.Item{{ID: "image", Offset: 1, Length: 2}}), 0, 0)
		w.expectKeys(o, h.Keys(nil, tokensOf("vw"), kvcache.Scope{}, []kvcache.Item{{ID: "image", Offset: 2, Length: 2}}), 1, 1)
	}},
	{"a copy described without salt and extras is of the block that its hash names", func(w *indexWorld) {
		o := w.Join("a")
		salted := keysOf(kvcache.Scope{Salt: "s"}, "ab")
		w.do(o, with(stored(0, "ab"), func(e *kvcache.Event) { e.Salt = "s" }))
		w.apply(o, with(stored(0, "ab"), onTier(kvcache.TierCPU)), applied, none)
		w.expectKeys(o, salted, 2, 2)
		w.expect(o, "ab", 0)
		w.do(o, removed("ab"))
		w.expectKeys(o, salted, 2, 2)
		w.do(o, with(stored('b', "c"), onTier(kvcache.TierCPU)))
		w.expectKeys(o, keysOf(kvcache.Scope{Salt: "s"}, "abc"), 3, 3)
		w.do(o, with(removed("ab"), onTier(kvcache.TierCPU)))
		w.expectKeys(o, salted, 0, 0)
	}},
	{"an adapter without a name matches nothing", func(w *indexWorld) {
		o := w.Join("a")
		e := with(stored(0, "ab"), func(e *kvcache.Event) { e.AdapterUnnamed = true })
		w.apply(o, e, ignored, kvcache.ReasonAdapter)
		w.expect(o, "ab", 0)
	}},
	{"every full-attention group must hold a block", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "abc"), with(stored(0, "abc"), inGroup(3)))
		w.expect(o, "abc", 3)
		w.do(o, with(removed("b"), inGroup(3)))
		w.expect(o, "abc", 1)
		w.do(o, removed("b"), with(stored('a', "b"), inGroup(3)))
		w.expect(o, "abc", 1)
		w.do(o, stored('a', "b"))
		w.expect(o, "abc", 3)
		w.do(o, with(stored('c', "d"), inGroup(3)))
		w.expect(o, "abcd", 3)
		w.do(o, with(stored('c', "d"), onTier(kvcache.TierCPU)))
		w.expectTiers(o, "abcd", 3, 1)
	}},
	{"events that do not add up are refused", func(w *indexWorld) {
		o := w.Join("a")
		for _, change := range []func(*kvcache.Event){
			func(e *kvcache.Event) { e.Tokens = e.Tokens[:3] },
			func(e *kvcache.Event) { e.Hashes = e.Hashes[:1] },
			func(e *kvcache.Event) { e.BlockSize = 0 },
			func(e *kvcache.Event) { e.BlockSize = -2 },
			func(e *kvcache.Event) { e.Extras = make([][]kvcache.Extra, 1) },
		} {
			w.apply(o, with(stored(0, "ab"), change), ignored, kvcache.ReasonLength)
		}
		w.apply(o, stored(0, ""), ignored, kvcache.ReasonEmpty)
		w.apply(o, removed(""), ignored, kvcache.ReasonEmpty)
		w.apply(o, &kvcache.Event{}, ignored, kvcache.ReasonKind)
		w.apply(o, &kvcache.Event{Kind: 99}, ignored, kvcache.ReasonKind)
		w.expect(o, "ab", 0)
		if n := w.OwnerStats(o).Ignored[kvcache.ReasonLength]; n != 5 {
			failf("%d length mismatches counted, want 5", n)
		}
	}},
	{"the first block size stands until a clear", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "ab"))
		e := &kvcache.Event{Kind: kvcache.Stored, Hashes: hashesOf("q"), Tokens: tokensOf("qr"), BlockSize: 4}
		w.apply(o, e, ignored, kvcache.ReasonBlockSize)
		if w.BlockSize(o) != caseBlock {
			failf("BlockSize = %d, want %d", w.BlockSize(o), caseBlock)
		}
		w.do(o, &kvcache.Event{Kind: kvcache.Cleared})
		w.apply(o, e, applied, none)
		if w.BlockSize(o) != 4 {
			failf("BlockSize = %d, want 4", w.BlockSize(o))
		}
	}},
	{"a hash that changes its meaning leaves nothing behind", func(w *indexWorld) {
		o := w.Join("a")
		w.do(o, stored(0, "ab"))
		e := stored(0, "xy")
		e.Hashes = hashesOf("ab")
		w.apply(o, e, applied, none)
		w.expect(o, "ab", 0)
		w.expect(o, "xy", 2)
		w.do(o, removed("ab"))
		w.expect(o, "xy", 0)
	}},
	{"two hashes may stand for one block", func(w *indexWorld) {
		o := w.Join("a")
		e := stored(0, "ab")
		e.Hashes = hashesOf("xy")
		w.do(o, stored(0, "ab"))
		w.apply(o, e, applied, none)
		w.do(o, with(stored(0, "a"), onTier(kvcache.TierCPU)))
		w.do(o, removed("ab"))
		w.expect(o, "ab", 2)
		w.expectTiers(o, "ab", 2)
		w.do(o, removed("x"))
		w.expectTiers(o, "ab", 1, 1)
		w.do(o, removed("y"))
		w.expect(o, "ab", 1)
	}},
	{"bookings are provisional", func(w *indexWorld) {
		o, p := w.Join("a"), w.Join("b")
		keys := keysOf(kvcache.Scope{}, "abcd")
		w.do(o, stored(0, "ab"))
		w.Book(o, keys, time.Minute)
		w.expectKeys(o, keys, 4, 2)
		w.expectKeys(p, keys, 0, 0)
		w.do(o, stored('b', "c"))
		w.expectKeys(o, keys, 4, 3)
		w.do(o, removed("c"))
		w.expectKeys(o, keys, 2, 2)
		w.now = w.now.Add(59 * time.Second)
		w.do(o, stored('b', "c"))
		w.expectKeys(o, keys, 4, 3)
		w.now = w.now.Add(time.Second)
		w.expectKeys(o, keys, 3, 3)
		w.Book(o, keys, 0)
		w.Book(o, keys, -time.Second)
		w.expectKeys(o, keys, 3, 3)
	}},
	{"booking again renews", func(w *indexWorld) {
		o := w.Join("a")
		keys := keysOf(kvcache.Scope{}, "abcd")
		w.Book(o, keys, time.Minute)
		w.now = w.now.Add(30 * time.Second)
		w.Book(o, keys[:2], time.Minute)
		w.now = w.now.Add(30 * time.Second)
		w.expectKeys(o, keys, 2, 0)
		w.now = w.now.Add(30 * time.Second)
		w.expectKeys(o, keys, 0, 0)
		if s := w.OwnerStats(o); s.Provisional != 0 || s.Booked != 4 || s.Expired != 4 {
			failf("%d provisional, %d booked, %d expired", s.Provisional, s.Booked, s.Expired)
		}
	}},
	{"capacity drops what was booked least recently", func(w *indexWorld) {
		o := w.Join("a")
		ab, cd, ef := keysOf(kvcache.Scope{}, "ab"), keysOf(kvcache.Scope{}, "cd"), keysOf(kvcache.Scope{}, "ef")
		w.SetCapacity(o, 5)
		w.Book(o, ab, time.Hour)
		w.Book(o, cd, time.Hour)
		w.Book(o, ab, time.Hour)
		w.Book(o, ef, time.Hour)
		w.expectKeys(o, ab, 2, 0)
		w.expectKeys(o, cd, 1, 0)
		w.expectKeys(o, ef, 2, 0)
		w.SetCapacity(o, 2)
		w.expectKeys(o, ab, 0, 0)
		w.expectKeys(o, ef, 2, 0)
		w.Book(o, keysOf(kvcache.Scope{}, "ghij"), time.Hour)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "ghij"), 2, 0)
		w.SetCapacity(o, 0)
		w.Book(o, keysOf(kvcache.Scope{}, "klmn"), time.Hour)
		w.expectKeys(o, keysOf(kvcache.Scope{}, "klmn"), 4, 0)
	}},
}
