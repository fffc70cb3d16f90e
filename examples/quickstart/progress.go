package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

const barWidth = 30

// progressBar redraws one line as requests finish.
type progressBar struct {
	w     io.Writer
	label string
	total int

	mu   sync.Mutex
	done int
}

func (p *progressBar) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	full := barWidth * p.done / max(p.total, 1)
	fmt.Fprintf(p.w, "\r  %-12s [%s%s] %d/%d", p.label,
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), p.done, p.total)
}

func (p *progressBar) end() { fmt.Fprintln(p.w) }
