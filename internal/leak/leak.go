package leak

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	// patience bounds the wait for goroutines that are ending. Close has
	// returned by then, so an honest one needs microseconds; the rest is for a
	// race-instrumented test on a busy machine.
	patience = 30 * time.Second
	// firstPause doubles up to maxPause between two looks.
	firstPause = 100 * time.Microsecond
	maxPause   = 50 * time.Millisecond
)

// Check fails tb if, when it ends, a goroutine runs that did not run at the time
// of the call. Call it first in the test: cleanups run last to first, and those
// that close things must run before this one.
//
// It doesn't fit a test that runs in parallel with others, whose goroutines it
// can't tell from this test's own: use [Main] there.
func Check(tb testing.TB) {
	tb.Helper()
	check(tb, patience)
}

func check(tb testing.TB, patience time.Duration) {
	tb.Helper()
	before := ids(running())
	tb.Cleanup(func() {
		tb.Helper()
		if left := wait(before, patience); len(left) > 0 {
			tb.Errorf("%s", report(left))
		}
	})
}

// Main runs the tests of a package and ends the process, with status 1 if the
// tests passed but left goroutines. It is the whole body of a TestMain. Tests
// that failed are not checked: what they left is a consequence.
func Main(m *testing.M) {
	os.Exit(run(m.Run, os.Stderr, patience)) //nolint:forbidigo // TestMain is the program of a test binary
}

func run(tests func() int, out io.Writer, patience time.Duration) int {
	if code := tests(); code != 0 {
		return code
	}
	left := wait(nil, patience)
	if len(left) == 0 {
		return 0
	}
	// An error of writing to stderr has nowhere to go; the status tells.
	_, _ = fmt.Fprintln(out, report(left))
	return 1
}

// wait looks until no goroutine outside before is left, or patience is over.
func wait(before map[uint64]bool, patience time.Duration) []goroutine {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var left []goroutine
		for _, g := range running() {
			if !before[g.id] {
				left = append(left, g)
			}
		}
		if len(left) == 0 || !time.Now().Before(deadline) {
			return left
		}
		time.Sleep(pause) //nolint:forbidigo // nothing announces a goroutine's end, so it is polled, within the deadline
	}
}

func ids(of []goroutine) map[uint64]bool {
	set := make(map[uint64]bool, len(of))
	for _, g := range of {
		set[g.id] = true
	}
	return set
}

func report(left []goroutine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "leak: %d goroutine(s) still running; close what started them, and make Close wait:", len(left))
	for _, g := range left {
		b.WriteString("\n\n")
		b.WriteString(g.stack)
	}
	return b.String()
}
