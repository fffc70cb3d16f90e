package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// runs tells the goroutines of one world from those of others, by a label.
var runs atomic.Uint64 //nolint:gochecknoglobals // as goroutines are the process's

const label = "chaos"

// Options are how Run goes about it. The zero value is fine.
type Options struct {
	// Patience bounds every wait for what must happen; what takes longer is a violation. 0
	// means two minutes, enough for a busy machine. What is known to fail may fail sooner.
	Patience time.Duration
	// Tally, if it is set, counts what has come about.
	Tally *Tally
}

func (o Options) patience() time.Duration {
	if o.Patience <= 0 {
		return patience
	}
	return o.Patience
}

// Run builds the world of a plan, takes its steps and checks the invariants after each, and
// at the end those that hold when nothing happens. It returns the first that did not, nil if
// all did. The error is about the world itself: nothing is known then. Several worlds may run
// at a time.
func Run(ctx context.Context, p Plan, o Options) (found *Violation, err error) {
	dir, err := os.MkdirTemp("", "kvsteer-chaos-")
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	run := strconv.FormatUint(runs.Add(1), 10)
	pprof.Do(ctx, pprof.Labels(label, run), func(ctx context.Context) {
		found, err = live(ctx, p, o, dir)
	})
	if found == nil && err == nil {
		found = leaves(run, 2*o.patience())
	}
	return found, err
}

// live is Run without the look at what is left.
func live(ctx context.Context, p Plan, o Options, dir string) (found *Violation, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := build(p, o, dir)
	defer func() {
		cancel()
		w.stopPulse()
		w.senders.Wait()
		if failed := w.closeInTime(); failed != nil && found == nil {
			found = failed
		}
		if found != nil {
			found.Journal = w.journal.text()
		}
	}()
	if err != nil {
		return nil, err
	}
	if sick := w.heals(ctx); sick != nil {
		return sick, nil
	}
	for i, s := range p.Steps {
		if err = w.take(ctx, s); err != nil {
			return nil, fmt.Errorf("chaos: step %d, %s: %w", i+1, s, err)
		}
		if found = w.always(ctx); found != nil {
			found.Step = i + 1
			return found, nil
		}
	}
	found, err = w.settle(ctx)
	if err != nil {
		return nil, fmt.Errorf("chaos: the end: %w", err)
	}
	return found, nil
}

// closeInTime closes the world; what does not close is a violation.
func (w *world) closeInTime() *Violation {
	done := make(chan error, 1)
	go func() { done <- w.close() }()
	timer := time.NewTimer(2 * w.patience)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			return violation(Ends, "closing fails: %v", err)
		}
		return nil
	case <-timer.C:
		return violation(Ends, "closing does not end:\n%s", goroutines(""))
	}
}

// leaves says which goroutines a run has left.
func leaves(run string, patience time.Duration) *Violation {
	mark := strconv.Quote(label) + ":" + strconv.Quote(run)
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		left := goroutines(mark)
		if left == "" {
			return nil
		}
		if !time.Now().Before(deadline) {
			return violation(Ends, "everything is closed, and there are still\n%s", left)
		}
		<-time.After(pause)
	}
}

// goroutines shows those that have a mark among their labels.
func goroutines(mark string) string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a buffer takes everything
	var left []string
	for part := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(part, mark) {
			left = append(left, part)
		}
	}
	return strings.Join(left, "\n\n")
}
