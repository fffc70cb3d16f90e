package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const barWidth = 30

// progress is where a run shows how far it is.
type progress struct {
	w io.Writer
	// live: a terminal, on which one line can be drawn again and again. Elsewhere,
	// in a log, a phase is one line.
	live bool
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p progress) phase(label string, total int) *progressBar {
	return &progressBar{progress: p, label: label, total: total, begun: time.Now()}
}

// progressBar follows one phase as its requests finish.
type progressBar struct {
	progress

	label string
	total int
	begun time.Time

	mu   sync.Mutex
	done int
}

func (b *progressBar) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	if !b.live {
		return
	}
	full := barWidth * b.done / max(b.total, 1)
	fmt.Fprintf(b.w, "\r  %-12s [%s%s] %d/%d", b.label,
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), b.done, b.total)
}

func (b *progressBar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live {
		fmt.Fprintln(b.w)
		return
	}
	fmt.Fprintf(b.w, "  %-12s %d/%d requests in %.1f s\n", b.label, b.done, b.total, time.Since(b.begun).Seconds())
}
