package leak

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// impatient bounds the wait in tests whose goroutine won't go.
const impatient = 10 * time.Millisecond

// recorder stands in for the test that is being checked.
type recorder struct {
	testing.TB

	cleanups []func()
	failures []string
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for _, fn := range r.cleanups {
		fn()
	}
}

// lingerer is named so that the report can be searched for it.
func lingerer(started chan<- struct{}, release <-chan struct{}) {
	close(started)
	<-release
}

func startLingerer(t *testing.T) (release func()) {
	t.Helper()
	started, hold := make(chan struct{}), make(chan struct{})
	go lingerer(started, hold)
	<-started
	return func() { close(hold) }
}

func TestCheckReportsTheStackOfALeak(t *testing.T) {
	r := new(recorder)
	check(r, impatient)
	release := startLingerer(t)
	r.end()
	release()
	if len(r.failures) != 1 {
		t.Fatalf("failures = %q, want one", r.failures)
	}
	for _, want := range []string{"1 goroutine(s)", "leak.lingerer(", "created by"} {
		if !strings.Contains(r.failures[0], want) {
			t.Errorf("the report lacks %q:\n%s", want, r.failures[0])
		}
	}
}

func TestCheckAcceptsWhatEnds(t *testing.T) {
	r := new(recorder)
	check(r, patience)
	release := startLingerer(t)
	release() // it may still be on its way out when the check looks
	r.end()
	if len(r.failures) != 0 {
		t.Errorf("failures = %q, want none", r.failures)
	}
}

func TestCheckIgnoresWhatWasThereBefore(t *testing.T) {
	release := startLingerer(t)
	defer release()
	r := new(recorder)
	check(r, impatient)
	r.end()
	if len(r.failures) != 0 {
		t.Errorf("failures = %q, want none", r.failures)
	}
}

func TestRun(t *testing.T) {
	const failed = 3
	tests := []struct {
		name  string
		leaks bool
		code  int
		want  int
		says  string
		// for how long a goroutine may be on its way out, such as one of the test before
		patience time.Duration
	}{
		{name: "clean", want: 0, patience: patience},
		{name: "leaks", leaks: true, want: 1, says: "leak.lingerer(", patience: impatient},
		{name: "failed tests keep their status", leaks: true, code: failed, want: failed, patience: impatient},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			release := func() {}
			got := run(func() int {
				if tt.leaks {
					release = startLingerer(t)
				}
				return tt.code
			}, &out, tt.patience)
			release()
			if got != tt.want {
				t.Errorf("status = %d, want %d", got, tt.want)
			}
			if !strings.Contains(out.String(), tt.says) || (tt.says == "" && out.Len() > 0) {
				t.Errorf("output = %q, want it to say %q", out.String(), tt.says)
			}
		})
	}
}

func TestParse(t *testing.T) {
	const dump = `goroutine 34 [running]:
example.com/a.caller()
	/src/a.go:1 +0x1

goroutine 1 [chan receive]:
testing.(*T).Run(0xc000003a40, {0x5a2b0f?, 0x0?}, 0x5b0a48)
	/go/src/testing/testing.go:1751 +0x3ab
main.main()
	_testmain.go:49 +0x9b

goroutine 7 [select, 2 minutes, locked to thread]:
example.com/a.loop(...)
	/src/testing.tRunner(/a.go:9
created by testing.(*T).Run in goroutine 34
	/src/a.go:5 +0x1

goroutine 8 [chan receive, synctest bubble 1]:
os/signal.loop()
	/go/src/os/signal/signal_unix.go:23 +0x13

not a goroutine at all

goroutine x [select]:
example.com/a.odd()
`
	got := parse(dump)
	if len(got) != 1 || got[0].id != 7 {
		t.Fatalf("parse = %+v, want goroutine 7 alone", got)
	}
	if !strings.HasPrefix(got[0].stack, "goroutine 7 [select") {
		t.Errorf("stack = %q, want the entry as dumped", got[0].stack)
	}
	if got := parse("goroutine 1 [running]:\nmain.main()\n"); len(got) != 0 {
		t.Errorf("parse of the caller alone = %+v, want none", got)
	}
}

func TestRunningGrowsItsBuffer(t *testing.T) {
	// Enough stacks to overflow the first buffer; counted, so that a cut-off
	// dump shows.
	const many = 400
	before := ids(running())
	release := make(chan struct{})
	for range many {
		started := make(chan struct{})
		go lingerer(started, release)
		<-started
	}
	got := wait(before, impatient)
	close(release)
	if len(got) != many {
		t.Errorf("running sees %d new goroutines, want %d", len(got), many)
	}
}
