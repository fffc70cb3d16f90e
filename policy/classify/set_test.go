package classify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

func newSet(tb testing.TB, opts SetOptions) *Set {
	tb.Helper()
	s, err := NewSet(opts)
	require.NoError(tb, err)
	return s
}

func members(cs ...Classifier) SetOptions {
	var opts SetOptions
	for _, c := range cs {
		opts.Members = append(opts.Members, Member{Classifier: c})
	}
	return opts
}

func said(text string) *Input {
	var in Input
	in.AddText("user", text)
	return &in
}

// always says the same.
func always(tag string, state policy.TagState) Func {
	return Func{Produces: []string{tag}, Judge: func(_ context.Context, _ *Input, out *Result) error {
		out.Set(tag, state)
		return nil
	}}
}

// each judges messages: present if the text has the word. It counts what it is
// asked about.
type each struct {
	tag, word string
	asked     atomic.Int64
	fail      func(text string) error
}

func (e *each) Tags() []string { return []string{e.tag} }

func (e *each) Classify(ctx context.Context, in *Input, out *Result) error {
	return eachMessage(ctx, e, in, out)
}

func (e *each) ClassifyMessages(_ context.Context, messages []Input, out []Result) error {
	for i := range messages {
		text := string(messages[i].Parts[0].Text)
		e.asked.Add(1)
		if e.fail != nil {
			if err := e.fail(text); err != nil {
				return err
			}
		}
		out[i].Set(e.tag, policy.TagAbsent)
		if k := strings.Index(text, e.word); k >= 0 {
			out[i].Set(e.tag, policy.TagPresent)
			out[i].Find(e.tag, "word", Place{Offset: k})
		}
	}
	return nil
}

func TestStatesCombine(t *testing.T) {
	t.Parallel()
	const p, a, u = policy.TagPresent, policy.TagAbsent, policy.TagUnknown
	for _, tt := range [][3]policy.TagState{{p, p, p}, {p, a, p}, {a, p, p}, {p, u, p}, {u, p, p}, {a, a, a}, {a, u, u}, {u, a, u}, {u, u, u}} {
		s := newSet(t, members(always("x", tt[0]), always("x", tt[1])))
		var out Result
		require.NoError(t, s.Classify(t.Context(), said("text"), &out))
		require.Equal(t, []policy.Tag{{Name: "x", State: tt[2]}}, out.Tags)
	}
}

func TestGapsMakeUnknown(t *testing.T) {
	t.Parallel()
	blind := always("blind", policy.TagAbsent)
	blind.Ignore = GapMedia
	s := newSet(t, members(always("absent", policy.TagAbsent), always("present", policy.TagPresent), blind))
	in := said("text")
	for gaps, want := range map[Gap]policy.TagState{0: policy.TagAbsent, GapImage: policy.TagAbsent, GapImage | GapTokens: policy.TagUnknown, GapTruncated: policy.TagUnknown} {
		in.Gaps = gaps
		var out Result
		require.NoError(t, s.Classify(t.Context(), in, &out))
		require.Equal(t, gaps == 0, out.State("absent") == policy.TagAbsent)
		require.Equal(t, policy.TagPresent, out.State("present"))
		require.Equal(t, want, out.State("blind"), gaps.String())
	}
}

func TestFailuresMakeUnknown(t *testing.T) {
	t.Parallel()
	const canary = "canary-7718"
	boom := errors.New("boom")
	failing := Func{Produces: []string{"failing"}, Judge: func(_ context.Context, _ *Input, out *Result) error {
		out.Set("failing", policy.TagAbsent)
		return boom
	}}
	silent := Func{Produces: []string{"silent"}, Judge: func(context.Context, *Input, *Result) error { return nil }}
	panicking := Func{Produces: []string{"panicking"}, Judge: func(_ context.Context, in *Input, _ *Result) error { panic(string(in.Parts[0].Text)) }}
	bad := &each{tag: "each", fail: func(text string) error { panic(text) }}
	s := newSet(t, members(failing, silent, panicking, bad, always("fine", policy.TagAbsent)))
	var out Result
	err := s.Classify(t.Context(), said(canary), &out)
	for _, tag := range []string{"failing", "silent", "panicking", "each"} {
		require.Equal(t, policy.TagUnknown, out.State(tag), tag)
	}
	require.Equal(t, policy.TagAbsent, out.State("fine"))
	require.Len(t, out.Tags, 5)
	for _, want := range []error{boom, ErrSilent, ErrPanic} {
		require.ErrorIs(t, err, want)
	}
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "failing", e.Tag)
	require.NotContains(t, err.Error(), canary)
	require.NotContains(t, fmt.Sprintf("%+v %+v", out, err), canary)
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := Func{Produces: []string{"slow"}, Judge: func(ctx context.Context, _ *Input, _ *Result) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		later := Func{Produces: []string{"later"}, Judge: func(_ context.Context, _ *Input, out *Result) error {
			time.Sleep(2 * time.Second) // heedless of its context
			out.Set("later", policy.TagAbsent)
			return nil
		}}
		s := newSet(t, SetOptions{Members: []Member{
			{Classifier: slow, Timeout: time.Second}, {Classifier: later, Timeout: 100 * time.Millisecond}, {Classifier: always("fine", policy.TagPresent)},
		}})
		var out Result
		began := time.Now()
		err := s.Classify(t.Context(), said("text"), &out)
		require.Equal(t, time.Second, time.Since(began), "the longest deadline")
		require.ErrorIs(t, err, ErrDeadline)
		require.Equal(t, []policy.Tag{{Name: "slow"}, {Name: "later"}, {Name: "fine", State: policy.TagPresent}}, out.Tags)

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began = time.Now()
		require.ErrorIs(t, s.Classify(ctx, said("text"), &out), ErrDeadline)
		require.Equal(t, 10*time.Millisecond, time.Since(began), "the caller's own deadline")
		time.Sleep(3 * time.Second) // until the heedless ones are over: synctest fails if any stays
	})
}

// A classifier that ignores its context holds a bounded number of goroutines, and
// none of the request's memory.
func TestHeedlessClassifiersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	release := make(chan struct{})
	var running sync.WaitGroup
	var calls, right atomic.Int64
	stuck := Func{Produces: []string{"stuck"}, Judge: func(_ context.Context, in *Input, out *Result) error {
		calls.Add(1)
		defer running.Done()
		<-release
		if len(in.Parts) == 1 && string(in.Parts[0].Text) == "mine" && in.Parts[0].Role == "user" {
			right.Add(1)
		}
		out.Set("stuck", policy.TagPresent)
		return nil
	}}
	s := newSet(t, SetOptions{Members: []Member{{Classifier: stuck, Timeout: time.Millisecond, MaxInFlight: most}}})
	running.Add(most)
	in := said("mine")
	var out Result
	busy := 0
	for range 10 {
		err := s.Classify(t.Context(), in, &out)
		if errors.Is(err, ErrBusy) {
			busy++
		} else {
			require.ErrorIs(t, err, ErrDeadline)
		}
		require.Equal(t, policy.TagUnknown, out.State("stuck"))
	}
	require.Equal(t, 10-most, busy)
	in.Parts[0].Text[0] = 'X' // as when a caller uses its buffer again
	in.Reset()
	close(release)
	running.Wait()
	require.Equal(t, int64(most), calls.Load())
	require.Equal(t, int64(most), right.Load())
	require.Eventually(t, func() bool { return s.members[0].underWay.Load() == 0 }, 30*time.Second, time.Millisecond)
}

func TestAHistoryIsClassifiedOnce(t *testing.T) {
	t.Parallel()
	c := &each{tag: "x", word: "needle"}
	s := newSet(t, members(c))
	var in Input
	var out Result
	for turn := range 20 {
		text := fmt.Sprintf("turn %d", turn)
		if turn == 12 {
			text += " has a needle"
		}
		in.AddText("user", text)
		require.NoError(t, s.Classify(t.Context(), &in, &out))
		require.Equal(t, int64(turn+1), c.asked.Load(), "only what is new is asked about")
		want := policy.TagAbsent
		if turn >= 12 {
			want = policy.TagPresent
			require.Equal(t, []Finding{{"x", "word", 1, []Place{{12, 14}}}}, out.Findings, "places are those in this request")
		}
		require.Equal(t, want, out.State("x"))
	}
	// The same text by another, or parted otherwise, is another message.
	one := Input{Parts: []Part{{Role: "assistant", Text: []byte("turn 0")}}}
	require.NoError(t, s.Classify(t.Context(), &one, &out))
	require.Equal(t, int64(21), c.asked.Load())
	two := Input{Parts: []Part{{Role: "user", Text: []byte("turn")}, {Role: "user", Text: []byte(" 0")}}}
	require.NoError(t, s.Classify(t.Context(), &two, &out))
	require.Equal(t, int64(22), c.asked.Load())
	require.Equal(t, policy.TagAbsent, out.State("x"))
}

func TestEachClassifierHasItsOwnMemory(t *testing.T) {
	t.Parallel()
	a, b := &each{tag: "a", word: "one"}, &each{tag: "b", word: "two"}
	s := newSet(t, members(a, b))
	var out Result
	for range 3 {
		require.NoError(t, s.Classify(t.Context(), said("one"), &out))
		require.Equal(t, policy.TagPresent, out.State("a"))
		require.Equal(t, policy.TagAbsent, out.State("b"))
	}
	require.NoError(t, s.ClassifyTags(t.Context(), []string{"b"}, said("two"), &out))
	require.Equal(t, []policy.Tag{{Name: "b", State: policy.TagPresent}}, out.Tags, "only those that are wanted are asked")
	require.Equal(t, int64(1), a.asked.Load())
	require.Equal(t, int64(2), b.asked.Load())
}

// What a classifier said before it failed is kept, and the rest asked again.
func TestProgressIsKept(t *testing.T) {
	t.Parallel()
	fails := true
	c := &each{tag: "x", word: "needle", fail: func(text string) error {
		if fails && text == "two" {
			return errors.New("failed")
		}
		return nil
	}}
	s := newSet(t, members(c))
	var in Input
	in.AddText("user", "one")
	in.AddText("user", "two")
	in.AddText("user", "needle")
	var out Result
	require.Error(t, s.Classify(t.Context(), &in, &out))
	require.Equal(t, policy.TagUnknown, out.State("x"))
	require.Equal(t, int64(2), c.asked.Load())
	fails = false
	require.NoError(t, s.Classify(t.Context(), &in, &out))
	require.Equal(t, policy.TagPresent, out.State("x"))
	require.Equal(t, int64(4), c.asked.Load())
}

// Of one that panicked nothing is kept: it may have been halfway through a message.
func TestNothingIsKeptOfAPanic(t *testing.T) {
	t.Parallel()
	fails := true
	c := &each{tag: "x", word: "needle", fail: func(text string) error {
		if fails && text == "two" {
			panic("failed")
		}
		return nil
	}}
	s := newSet(t, members(c))
	in := conversation("one needle", "two")
	var out Result
	require.ErrorIs(t, s.Classify(t.Context(), in, &out), ErrPanic)
	require.Equal(t, policy.TagUnknown, out.State("x"))
	fails = false
	require.NoError(t, s.Classify(t.Context(), in, &out))
	require.Equal(t, policy.TagPresent, out.State("x"))
	require.Equal(t, int64(4), c.asked.Load())
}

// An answer that comes too late serves the next request.
func TestALateAnswerIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &each{tag: "x", word: "needle", fail: func(string) error { time.Sleep(time.Second); return nil }}
		s := newSet(t, SetOptions{Members: []Member{{Classifier: c, Timeout: 100 * time.Millisecond}}})
		var out Result
		require.ErrorIs(t, s.Classify(t.Context(), said("needle"), &out), ErrDeadline)
		time.Sleep(2 * time.Second)
		require.NoError(t, s.Classify(t.Context(), said("needle"), &out))
		require.Equal(t, policy.TagPresent, out.State("x"))
		require.Equal(t, int64(1), c.asked.Load())
	})
}

func TestNewSetRefuses(t *testing.T) {
	t.Parallel()
	for _, opts := range []SetOptions{
		members(nil), members(Func{}), members(Func{Produces: []string{""}}), members(Func{Produces: []string{"a", "a"}}),
	} {
		_, err := NewSet(opts)
		require.Error(t, err)
	}
	s := newSet(t, SetOptions{})
	var out Result
	require.NoError(t, s.Classify(t.Context(), said("x"), &out))
	require.Empty(t, out.Tags)
}

// A Set, nested in another, from many goroutines, says what its members say alone.
func TestSetIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	pii := scanner(t, ScannerOptions{})
	inner := newSet(t, members(pii))
	s := newSet(t, SetOptions{CacheBytes: 4096, Members: []Member{{Classifier: inner, Timeout: time.Minute}, {Classifier: new(LengthHeuristic)}}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				var in Input
				for m := range 1 + i%5 {
					in.AddText("user", fmt.Sprintf("message %d of %d: %s", m, i%7, []string{"clean", "a@b.example", "4111111111111111"}[(i+m+g)%3]))
				}
				var got, want Result
				if err := s.Classify(context.Background(), &in, &got); err != nil {
					t.Errorf("set: %v", err)
				}
				if err := pii.Classify(context.Background(), &in, &want); err != nil {
					t.Errorf("scanner: %v", err)
				}
				if got.State(TagPII) != want.State(TagPII) || fmt.Sprint(got.Findings) != fmt.Sprint(want.Findings) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestAKnownHistoryTakesNoMemory(t *testing.T) {
	if raced {
		t.Skip("pools forget at random")
	}
	s := newSet(t, members(scanner(t, ScannerOptions{}), new(LengthHeuristic)))
	var in Input
	for i := range 40 {
		in.AddText("user", fmt.Sprintf("message %d", i))
	}
	var out Result
	require.NoError(t, s.Classify(t.Context(), &in, &out))
	require.LessOrEqual(t, testing.AllocsPerRun(50, func() {
		if err := s.Classify(t.Context(), &in, &out); err != nil {
			t.Fatal(err)
		}
	}), 3.0)
}
