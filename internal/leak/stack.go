package leak

import (
	"runtime"
	"strconv"
	"strings"
)

// goroutine is one entry of the runtime's dump.
type goroutine struct {
	id    uint64
	stack string // as dumped, header line included
}

// harness marks goroutines that belong to the test binary, not to a test: the
// ones that wait for tests, run fuzzing, deliver signals or write profiles.
// Each is a function at which such a goroutine was started or is parked.
var harness = []string{ //nolint:gochecknoglobals // an immutable table
	"testing.(*M).",
	"testing.(*T).Run(",
	"testing.(*T).Parallel(",
	"testing.(*F).Fuzz",
	"testing.runFuzz",
	"testing.runTests(",
	"testing.tRunner(",
	"internal/fuzz.",
	"os/signal.signal_recv(",
	"os/signal.loop(",
	"runtime.ensureSigM",
	"runtime/pprof.profileWriter(",
	"runtime.ReadTrace(",
	"runtime/trace.",
}

// initialDump fits a few dozen stacks; a larger dump doubles it.
const initialDump = 64 << 10

// running returns the goroutines other than the caller's and the harness's.
func running() []goroutine {
	buf := make([]byte, initialDump)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			return parse(string(buf[:n]))
		}
		buf = make([]byte, 2*len(buf))
	}
}

// parse reads a dump, whose first entry is the goroutine that asked for it.
func parse(dump string) []goroutine {
	entries := strings.Split(strings.TrimSpace(dump), "\n\n")
	var out []goroutine
	for _, e := range entries[1:] {
		id, ok := idOf(e)
		if ok && !isHarness(e) {
			out = append(out, goroutine{id: id, stack: e})
		}
	}
	return out
}

// idOf reads the number in "goroutine 7 [select]:".
func idOf(entry string) (uint64, bool) {
	rest, ok := strings.CutPrefix(entry, "goroutine ")
	if !ok {
		return 0, false
	}
	number, _, ok := strings.Cut(rest, " ")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(number, 10, 64)
	return id, err == nil
}

func isHarness(entry string) bool {
	for line := range strings.Lines(entry) {
		// "created by" names the starter: a goroutine that a test started is
		// created by the test's own function, which tRunner only called.
		if strings.HasPrefix(line, "created by ") || strings.HasPrefix(line, "\t") {
			continue
		}
		for _, h := range harness {
			if strings.HasPrefix(line, h) {
				return true
			}
		}
	}
	return false
}
