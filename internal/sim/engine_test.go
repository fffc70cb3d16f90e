package sim

import (
	"errors"
	"math"
	"testing"
	"time"
)

func newEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// hashesFor returns a chain of n hashes that no other seed shares.
func hashesFor(seed uint64, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = seed<<32 | uint64(i+1)
	}
	return hashes
}

func submit(t testing.TB, e *Engine, r *Request) *Request {
	t.Helper()
	if err := e.Submit(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// drain steps until the engine is idle and returns the virtual time at which
// each request got its first and its last token.
func drain(t testing.TB, e *Engine) (first, last map[*Request]time.Duration) {
	t.Helper()
	first, last = map[*Request]time.Duration{}, map[*Request]time.Duration{}
	var now time.Duration
	for limit := 0; !e.Idle(); limit++ {
		if limit > 1_000_000 {
			t.Fatal("the engine makes no progress")
		}
		s := e.Step()
		now += s.Duration
		for _, o := range s.Outputs {
			if o.Index == 0 {
				first[o.Request] = now
			}
			if o.Finished {
				last[o.Request] = now
			}
		}
	}
	return first, last
}

// The published figures that the default coefficients were fitted on.
func TestDefaultTimingReproducesTheControlWorkload(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{NoEvents: true})
	r := submit(t, e, &Request{Prompt: 16256, Output: 256})
	first, last := drain(t, e)
	if got := first[r].Seconds(); got < 6.7 || got > 6.95 {
		t.Errorf("TTFT of 16,256 uncached tokens is %.2f s, want about 6.8", got)
	}
	if itl := (last[r] - first[r]).Seconds() / 255 * 1e3; itl < 36 || itl > 44 {
		t.Errorf("ITL alone is %.1f ms, want somewhat below 42", itl)
	}
	load := Load{}
	for range 4 {
		load.decode(16256)
	}
	if itl := DefaultTiming().Duration(load).Seconds() * 1e3; itl < 40 || itl > 44 {
		t.Errorf("ITL of four is %.1f ms, want about 42", itl)
	}
}

func TestACachedPrefixIsNotComputedAgain(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{})
	hashes := hashesFor(1, 1016)
	cold := submit(t, e, &Request{Prompt: 16256, Output: 1, Hashes: hashes})
	coldFirst, _ := drain(t, e)
	warm := submit(t, e, &Request{Prompt: 16256, Output: 1, Hashes: hashes})
	warmFirst, _ := drain(t, e)
	if cold.CachedTokens() != 0 || warm.CachedTokens() != 16240 {
		t.Errorf("cached %d then %d tokens, want 0 then 16240", cold.CachedTokens(), warm.CachedTokens())
	}
	if coldFirst[cold] < 50*warmFirst[warm] {
		t.Errorf("TTFT %v cold, %v warm", coldFirst[cold], warmFirst[warm])
	}
	// The recomputed last block is announced a second time, as vLLM does.
	stores := 0
	for _, event := range e.TakeEvents() {
		if event.Kind == BlockStored {
			stores += len(event.Hashes)
		}
	}
	if stores != 1017 || e.CachedBlocks() != 1016 {
		t.Errorf("announced %d blocks, hold %d, want 1017 and 1016", stores, e.CachedBlocks())
	}
}

func TestChunkedPrefillLetsDecodesGoOn(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{TokenBudget: 64})
	decoding := submit(t, e, &Request{Prompt: 10, Output: 100})
	e.Step()
	long := submit(t, e, &Request{Prompt: 200, Output: 1, Hashes: hashesFor(2, 12)})
	for chunk, want := range []int{63, 63, 63, 11} {
		s := e.Step()
		if s.Load.PrefillTokens != want || s.Load.Decodes != 1 {
			t.Errorf("chunk %d: %+v, want %d prompt tokens beside one decode", chunk, s.Load, want)
		}
		if got := len(s.Outputs); (chunk < 3 && got != 1) || (chunk == 3 && got != 2) {
			t.Errorf("chunk %d: %d outputs", chunk, got)
		}
	}
	if decoding.Generated() != 5 || long.Generated() != 1 {
		t.Errorf("generated %d and %d tokens, want 5 and 1", decoding.Generated(), long.Generated())
	}
	// One announcement a chunk, chained.
	next := 0
	for _, event := range e.TakeEvents() {
		if event.First != next || event.HasParent != (next > 0) {
			t.Errorf("announced from block %d with parent %v, want %d", event.First, event.HasParent, next)
		}
		if event.HasParent && event.Parent != long.Hashes[next-1] {
			t.Errorf("wrong parent of block %d", next)
		}
		next += len(event.Hashes)
	}
	if next != 12 {
		t.Errorf("announced %d blocks, want 12", next)
	}
}

// vLLM's sharers hit what another request is still computing; SGLang's don't.
func TestSharersOfAPrefillInFlight(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		after bool
		want  int
	}{{after: false, want: 512}, {after: true, want: 0}} {
		e := newEngine(t, Config{InsertAfterPrefill: test.after})
		hashes := hashesFor(3, 32)
		first := submit(t, e, &Request{Prompt: 520, Output: 2, Hashes: hashes})
		second := submit(t, e, &Request{Prompt: 530, Output: 2, Hashes: hashes})
		if first.CachedTokens() != -1 {
			t.Errorf("cached tokens known before the request was scheduled")
		}
		e.Step()
		if first.CachedTokens() != 0 || second.CachedTokens() != test.want {
			t.Errorf("insert after prefill %v: hits %d and %d, want 0 and %d",
				test.after, first.CachedTokens(), second.CachedTokens(), test.want)
		}
		drain(t, e)
		copies := 0
		e.Cached(func(_ uint64, n int) bool { copies += n; return true })
		if copies != 32 || e.UsedBlocks() != 0 {
			t.Errorf("insert after prefill %v: %d copies of 32 blocks, %d still held", test.after, copies, e.UsedBlocks())
		}
	}
}

func TestOutputBlocksAreCachedForTheNextTurn(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		e := newEngine(t, Config{InsertAfterPrefill: after})
		hashes := hashesFor(4, 10)
		// 80 prompt + 33 output tokens: the last is never fed back, so 112 are in the
		// cache: seven blocks.
		submit(t, e, &Request{Prompt: 80, Output: 33, Hashes: hashes})
		drain(t, e)
		next := submit(t, e, &Request{Prompt: 160, Output: 1, Hashes: hashes})
		drain(t, e)
		if got := next.CachedTokens(); got != 112 {
			t.Errorf("insert after prefill %v: next turn hit %d tokens, want 112", after, got)
		}
	}
}

func TestPreemptionUnderPressure(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{Blocks: 20})
	// Each ends at 13 blocks: both fit when admitted, not when they have grown.
	a := submit(t, e, &Request{Prompt: 100, Output: 101, Hashes: hashesFor(5, 13)})
	b := submit(t, e, &Request{Prompt: 100, Output: 101, Hashes: hashesFor(6, 13)})
	first, last := drain(t, e)
	if a.Preemptions() != 0 || b.Preemptions() == 0 {
		t.Errorf("preempted %d and %d times, want the younger only", a.Preemptions(), b.Preemptions())
	}
	if len(first) != 2 || len(last) != 2 || a.Generated() != 101 || b.Generated() != 101 {
		t.Error("a request got too few tokens, or its first token twice")
	}
	if b.CachedTokens() != 0 {
		t.Errorf("recomputation counts as a hit of %d tokens", b.CachedTokens())
	}
	if e.Stats().Preempted == 0 || e.UsedBlocks() != 0 {
		t.Errorf("stats %+v, %d blocks held at the end", e.Stats(), e.UsedBlocks())
	}
}

// A hit on a free block takes it off the free list: it must be counted as well as
// the blocks that are new.
func TestAdmissionCountsHitsOnFreeBlocks(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{Blocks: 10})
	submit(t, e, &Request{Prompt: 96, Output: 1, Hashes: hashesFor(1, 6)})
	drain(t, e)
	holder := submit(t, e, &Request{Prompt: 40, Output: 100})
	e.Step()
	waits := submit(t, e, &Request{Prompt: 140, Output: 1, Hashes: hashesFor(1, 8)})
	e.Step()
	if e.Running() != 1 || e.Waiting() != 1 {
		t.Errorf("%d running, %d waiting: nine blocks were given out of seven", e.Running(), e.Waiting())
	}
	e.Cancel(holder)
	e.Step()
	if waits.CachedTokens() != 96 || waits.Generated() != 1 {
		t.Errorf("hit %d tokens, generated %d, once there was room", waits.CachedTokens(), waits.Generated())
	}
}

func TestRemotePrefill(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ remote, wantPrefill int }{{0, 200}, {192, 8}, {200, 1}, {10_000, 1}} {
		e := newEngine(t, Config{})
		hashes := hashesFor(1, 12)
		r := submit(t, e, &Request{Prompt: 200, Output: 2, Hashes: hashes, Remote: test.remote})
		s := e.Step()
		if s.Load.PrefillTokens != test.wantPrefill || r.CachedTokens() != 200-test.wantPrefill {
			t.Errorf("%d tokens sent: computed %d, cached %d", test.remote, s.Load.PrefillTokens, r.CachedTokens())
		}
		drain(t, e)
		if got := e.Match(hashes, 200); got != 192 || e.UsedBlocks() != 0 {
			t.Errorf("%d tokens sent: %d can be reused, %d blocks held", test.remote, got, e.UsedBlocks())
		}
		if st := e.Stats(); st.HitTokens != 0 || int(st.RemoteTokens) != 200-test.wantPrefill {
			t.Errorf("%d tokens sent: %+v", test.remote, st)
		}
	}
}

func TestOutstanding(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{Blocks: 20, TokenBudget: 64})
	expect := func(when string, want int) {
		t.Helper()
		if got := e.Outstanding(); got != want {
			t.Errorf("%s: %d prompt tokens outstanding, want %d", when, got, want)
		}
	}
	expect("idle", 0)
	submit(t, e, &Request{Prompt: 100, Output: 200})
	younger := submit(t, e, &Request{Prompt: 100, Output: 200})
	expect("queued", 200)
	e.Step()
	expect("after a chunk", 136)
	for range 4 {
		e.Step()
	}
	expect("decoding", 0)
	for e.Waiting() == 0 {
		e.Step()
	}
	// The younger lost its blocks and has to compute its output again too.
	expect("preempted", 100+younger.Generated())
	drain(t, e)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{MaxRunning: 1})
	a := submit(t, e, &Request{Prompt: 40, Output: 10, Hashes: hashesFor(7, 2)})
	b := submit(t, e, &Request{Prompt: 40, Output: 10})
	e.Step()
	if e.Running() != 1 || e.Waiting() != 1 {
		t.Fatalf("%d running, %d waiting, want one each", e.Running(), e.Waiting())
	}
	if !e.Cancel(b) || e.Cancel(b) || !e.Cancel(a) || e.Cancel(a) {
		t.Error("each request can be cancelled exactly once")
	}
	if !e.Idle() || e.UsedBlocks() != 0 || e.CachedBlocks() != 2 || e.Stats().Cancelled != 2 {
		t.Errorf("idle %v, %d blocks held, %d cached, %+v", e.Idle(), e.UsedBlocks(), e.CachedBlocks(), e.Stats())
	}
	if s := e.Step(); s.Duration != 0 || s.Scheduled != 0 {
		t.Errorf("a step of an idle engine took %v", s.Duration)
	}
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	e := newEngine(t, Config{Blocks: 4})
	for _, test := range []struct {
		name string
		r    *Request
		want error
	}{
		{"no prompt", &Request{Output: 1}, ErrRequest},
		{"no output", &Request{Prompt: 1}, ErrRequest},
		{"longer than the cache", &Request{Prompt: 60, Output: 6}, ErrTooLong},
		{"exactly the cache", &Request{Prompt: 60, Output: 5}, nil},
		{"absurd", &Request{Prompt: math.MaxInt, Output: 5}, ErrTooLong},
	} {
		if err := e.Submit(test.r); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	again := submit(t, e, &Request{Prompt: 1, Output: 1})
	if err := e.Submit(again); !errors.Is(err, ErrRequest) {
		t.Errorf("second Submit of a request: %v", err)
	}
	if _, err := New(Config{Blocks: -1}); !errors.Is(err, ErrConfig) {
		t.Errorf("negative capacity: %v", err)
	}
}
