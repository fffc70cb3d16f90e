package kvcachetest

import "github.com/kvsteer/kvsteer/kvcache"

func (w *indexWorld) expectStanding(o kvcache.Owner, want kvcache.Standing, short kvcache.Reason) {
	if got := w.Standing(o); got != want {
		failf("Standing = %+v, want %+v", got, want)
	}
	if got := w.Trust(o); got != want.Trust {
		failf("Trust = %v, want %v", got, want.Trust)
	}
	if got := w.Short(o); got != short {
		failf("Short = %v, want %v", got, short)
	}
}

func (w *indexWorld) expectPosition(o kvcache.Owner, want *kvcache.Position) {
	switch got, ok := w.Position(o); {
	case ok != (want != nil):
		failf("Position = %+v, %v, want %+v", got, ok, want)
	case ok && got != *want:
		failf("Position = %+v, want %+v", got, *want)
	}
}

//nolint:gochecknoglobals // a table that nothing changes
var standingCases = []indexCase{
	{"trust has a reason", func(w *indexWorld) {
		o := w.Join("a")
		gap := kvcache.Standing{Trust: kvcache.Resyncing, Reason: "gap"}
		w.expectStanding(o, kvcache.Standing{}, none)
		w.SetStanding(o, gap)
		w.expectStanding(o, gap, none)
		w.SetTrust(o, kvcache.Exact)
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.Leave(o)
		w.SetStanding(o, gap)
		w.expectStanding(o, kvcache.Standing{}, none)
	}},
	{"what lost anything at a bound is not exact", func(w *indexWorld) {
		const bound = kvcache.ReasonOrphanBound
		o := w.Join("a")
		short := kvcache.Standing{Trust: kvcache.Resyncing, Reason: bound.String()}
		w.SetTrust(o, kvcache.Exact)
		w.do(o, stored('a', "bcdefghij"))
		w.expectStanding(o, short, bound)
		w.SetTrust(o, kvcache.Exact)
		w.expectStanding(o, short, bound)
		w.SetTrust(o, kvcache.Approximate)
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Approximate}, bound)
		w.SetTrust(o, kvcache.Exact)
		if s := w.OwnerStats(o); s.Missing != 1 || s.Short != bound || w.Stats().Short != 1 {
			failf("%d copies missing, %v, of %d owners; want 1", s.Missing, s.Short, w.Stats().Short)
		}
		w.do(o, with(removed("j"), onTier(kvcache.TierCPU)))
		w.expectStanding(o, short, bound)
		w.Clear(o)
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.do(o, removed("j"))
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.do(o, stored('a', "bcdefghijk"))
		w.expectStanding(o, short, bound)
		w.do(o, removed("bj"))
		w.expectStanding(o, short, bound)
		w.do(o, removed("k"))
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
		w.do(o, stored('a', "bcdefghijk"), &kvcache.Event{Kind: kvcache.Cleared})
		w.expectStanding(o, kvcache.Standing{Trust: kvcache.Exact}, none)
	}},
	{"a position ends with the next event", func(w *indexWorld) {
		o, p := w.Join("a"), w.Join("b")
		at := kvcache.Position{Seq: 1 << 63, Proof: 3, Whole: true}
		w.expectPosition(o, nil)
		for _, end := range []func(){
			func() { w.do(o, stored(0, "ab")) },
			func() { w.do(o, removed("x")) },
			func() { w.Clear(o) },
		} {
			w.SetPosition(o, at)
			w.do(p, stored(0, "ab"))
			w.SetTrust(o, kvcache.Exact)
			w.expectPosition(o, &at)
			w.expectPosition(p, nil)
			end()
			w.expectPosition(o, nil)
		}
		w.SetPosition(o, at)
		w.Leave(o)
		w.expectPosition(o, nil)
		w.SetPosition(o, at)
		w.expectPosition(o, nil)
		w.expectPosition(w.Join("a"), nil)
	}},
}
