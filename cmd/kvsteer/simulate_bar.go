package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// bar shows on a terminal how far simulations are.
type bar struct {
	w      io.Writer // nil shows nothing
	total  int
	length time.Duration // of one, in virtual time

	mu    sync.Mutex
	ready int
	under map[*time.Duration]bool // how far those are that are under way
	shown int
	ended bool
}

// newBar returns a bar for so many simulations, each of so much virtual time. It stays
// silent unless w is a terminal.
func newBar(w io.Writer, total int, length time.Duration) *bar {
	b := &bar{total: total, length: max(length, 1), under: map[*time.Duration]bool{}, shown: -1}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.w = w
		}
	}
	b.show()
	return b
}

const (
	barWidth  = 40
	barAround = 35 // what stands beside it
)

// run begins a simulation: progress is told its virtual time now and then, done that
// it has ended.
func (b *bar) run() (progress func(time.Duration), done func()) {
	at := new(time.Duration)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.under[at] = true
	return func(now time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			*at = min(now, b.length)
			b.show()
		}, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.under, at)
			b.ready++
			b.show()
		}
}

// show draws the bar if it has changed.
func (b *bar) show() {
	if b.w == nil || b.ended {
		return
	}
	share := float64(b.ready)
	for at := range b.under {
		share += at.Seconds() / b.length.Seconds()
	}
	const percent = 100
	done := int(percent * share / float64(max(b.total, 1)))
	now := b.ready*(percent+1) + done
	if now == b.shown {
		return
	}
	b.shown = now
	full := barWidth * done / percent
	fmt.Fprintf(b.w, "\r[%s%s] %3d%%, %d of %d runs", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), done, b.ready, b.total)
}

// done clears the bar.
func (b *bar) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil && !b.ended {
		fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", barWidth+barAround))
	}
	b.ended = true
}
