package sim

import "testing"

// What comes from another engine takes the blocks at once and the batch only when it
// is there. Meanwhile others go on.
func TestFetch(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{Blocks: 40})
	hashes := hashesFor(1, 13)
	submit(t, e, &Request{Prompt: 64, Output: 1, Hashes: hashes})
	drain(t, e)
	other := submit(t, e, &Request{Prompt: 20, Output: 50})
	r := submit(t, e, &Request{Prompt: 208, Output: 2, Hashes: hashes, Remote: 208, Fetch: true})
	s := e.Step()
	if len(s.Fetches) != 1 || s.Fetches[0] != (Fetch{Request: r, Tokens: 207 - 64}) {
		t.Fatalf("fetches %+v: all but the last token and the 64 that are here", s.Fetches)
	}
	if e.Running() != 1 || e.Waiting() != 1 || e.Fetching() != 1 || e.UsedBlocks() != 13+2 || e.Match(hashes, 208) != 64 {
		t.Errorf("%d running, %d waiting, %d blocks held, %d tokens to be hit",
			e.Running(), e.Waiting(), e.UsedBlocks(), e.Match(hashes, 208))
	}
	for range 3 {
		if s = e.Step(); len(s.Outputs) != 1 || s.Outputs[0].Request != other || len(s.Fetches) != 0 {
			t.Fatalf("outputs %+v, fetches %+v while it comes", s.Outputs, s.Fetches)
		}
	}
	if !e.Fetched(r) || e.Fetched(r) {
		t.Error("a fetch ends once")
	}
	if s = e.Step(); len(s.Outputs) != 2 || s.Load.PrefillTokens != 1 || s.Load.Decodes != 1 {
		t.Errorf("outputs %+v of %+v once it is there", s.Outputs, s.Load)
	}
	drain(t, e)
	if e.Match(hashes, 209) != 208 || e.UsedBlocks() != 0 || r.CachedTokens() != 207 {
		t.Errorf("%d tokens to be hit, %d blocks held, %d tokens cached", e.Match(hashes, 209), e.UsedBlocks(), r.CachedTokens())
	}
}

// An engine with nothing to compute says what to fetch all the same.
func TestFetchWithNothingElseToDo(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []string{"", "fetching", "ready"} {
		e := newEngine(t, Config{})
		r := submit(t, e, &Request{Prompt: 100, Output: 1, Remote: 96, Fetch: true})
		if s := e.Step(); s.Scheduled != 0 || s.Duration != 0 || len(s.Fetches) != 1 || !e.Idle() {
			t.Fatalf("step %+v, idle %v", s, e.Idle())
		}
		if cancelled == "fetching" && (!e.Cancel(r) || e.Fetched(r)) {
			t.Error("a fetch can be cancelled, and then does not end")
		}
		e.Fetched(r)
		if cancelled == "ready" && !e.Cancel(r) {
			t.Error("what has come can be cancelled")
		}
		s := e.Step()
		if got := len(s.Outputs) == 1; got != (cancelled == "") {
			t.Errorf("cancelled %q: outputs %+v", cancelled, s.Outputs)
		}
		if e.UsedBlocks() != 0 || e.Fetching() != 0 || !e.Idle() {
			t.Errorf("cancelled %q: %d blocks held", cancelled, e.UsedBlocks())
		}
	}
}

// The blocks of a prompt that was computed for another engine are held until that
// has read them; requests that need them wait.
func TestKeep(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{Blocks: 10})
	first := submit(t, e, &Request{Prompt: 96, Output: 1, Hashes: hashesFor(1, 6), Keep: true})
	drain(t, e)
	if e.UsedBlocks() != 6 || e.Kept() != 1 || !e.Idle() || e.Reset() || e.Stats().Finished != 1 {
		t.Fatalf("%d blocks held, %d kept", e.UsedBlocks(), e.Kept())
	}
	second := submit(t, e, &Request{Prompt: 96, Output: 1, Hashes: hashesFor(2, 6)})
	if s := e.Step(); s.Scheduled != 0 || e.Waiting() != 1 {
		t.Errorf("%d scheduled in four blocks", s.Scheduled)
	}
	if e.Release(second) || !e.Release(first) || e.Release(first) {
		t.Error("blocks are given back once")
	}
	drain(t, e)
	if e.UsedBlocks() != 0 || second.Generated() != 1 {
		t.Errorf("%d blocks held, %d generated", e.UsedBlocks(), second.Generated())
	}
}
