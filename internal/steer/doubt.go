package steer

import (
	"fmt"
	"strings"
)

// Cause is the likeliest reason why an engine reports other cached tokens than were
// expected, as far as the numbers show one.
type Cause uint8

// The causes.
const (
	CauseUnclear Cause = iota
	CauseTokens
	CauseTemplate
	CauseTokenizer
	CauseNoReuse
	CauseNoneFound
	CauseBlockSize
	CauseSpeculative
	CauseEvictions
	CauseUnknownBlocks
	CauseMore
)

// String is a fixed phrase.
func (c Cause) String() string {
	switch c {
	case CauseTokens:
		return "looks like another tokenizer or chat template"
	case CauseTemplate:
		return "looks like another chat template"
	case CauseTokenizer:
		return "looks like another tokenizer"
	case CauseNoReuse:
		return "looks like prefix caching is off, or like prompts that begin otherwise there (cache salt, template)"
	case CauseNoneFound:
		return "looks like evictions that were not heard of (lost events), or like prompts that begin otherwise there (cache salt)"
	case CauseBlockSize:
		return "looks like another block size"
	case CauseSpeculative:
		return "looks like speculative decoding that the worker's description does not have right"
	case CauseEvictions:
		return "looks like evictions that were not heard of (lost events)"
	case CauseUnknownBlocks:
		return "looks like events that were lost or are another worker's, or like other token ids (tokenizer, template)"
	case CauseMore:
		return "looks like events that were lost or are another worker's"
	default:
		return "no pattern that tells why"
	}
}

const (
	// doubtsKept is how many of the latest disagreements are looked at.
	doubtsKept = 16
	// mostOf: a pattern is one if it is in nine of ten of them; there are honest
	// disagreements among them.
	mostOf = 0.9
	// fewReports are too few different ones to say that all are multiples of a number.
	fewReports = 3
)

// Doubts is what comparisons have shown, to tell why they disagree. The zero value is
// ready; it is not safe for concurrent use.
type Doubts struct {
	last         [doubtsKept]Comparison // disagreements
	off          int                    // of them, since the beginning
	total, found int                    // comparisons; of them, those with anything reported
}

func (d *Doubts) add(c *Comparison, wrong bool) {
	d.total++
	if c.Reported > 0 {
		d.found++
	}
	if wrong {
		d.last[d.off%doubtsKept] = *c
		d.off++
	}
}

// seen are the disagreements that are looked at.
func (d *Doubts) seen() []Comparison { return d.last[:min(d.off, doubtsKept)] }

// count is how many of the disagreements are so.
func (d *Doubts) count(so func(c *Comparison) bool) int {
	n, seen := 0, d.seen()
	for i := range seen {
		if so(&seen[i]) {
			n++
		}
	}
	return n
}

// most reports whether n is a pattern in of.
func most(n, of int) bool { return of > 0 && float64(n) >= mostOf*float64(of) }

// Engine is what is known of an engine besides.
type Engine struct {
	// BlockSize is in tokens, as the engine itself states it, 0 if it doesn't.
	BlockSize int
	// Announces: there were events that said what it has cached.
	Announces bool
}

// Cause names the likeliest reason, with the numbers that show it. It claims no more
// than these show: several reasons may look alike.
func (d *Doubts) Cause(e Engine) (c Cause, numbers string) {
	of := len(d.seen())
	if of == 0 {
		return CauseUnclear, ""
	}
	if c, numbers = d.tokens(of); c != CauseUnclear {
		return c, numbers
	}
	// What it says of prompts rules the first out, if it says it.
	counts := ""
	if n := d.count(func(c *Comparison) bool { return c.Counted > 0 }); most(n, of) {
		counts = "; the prompts' token counts agree"
	}
	if d.found == 0 {
		if c = CauseNoReuse; e.Announces {
			c = CauseNoneFound
		}
		return c, fmt.Sprintf("0 tokens reported in all of %d requests that were expected to find some, the last %s%s",
			d.total, d.latest(), counts)
	}
	if size := d.blockSize(e.BlockSize); size > 0 {
		stated := ""
		if size == e.BlockSize {
			stated = ", which is the block size that the engine states"
		}
		return CauseBlockSize, fmt.Sprintf("what is reported is in multiples of %d tokens%s, what is expected of %d; the last %s%s",
			size, stated, d.newest().Block, d.latest(), counts)
	}
	oneLess := d.count(func(c *Comparison) bool { return c.Expected-c.Reported == c.Block })
	oneMore := d.count(func(c *Comparison) bool { return c.Reported-c.Expected == c.Block })
	if n := max(oneLess, oneMore); most(n, of) {
		way := "more"
		if n == oneLess {
			way = "less"
		}
		return CauseSpeculative, fmt.Sprintf("one block %s than expected in %d of %d disagreements, the last %s%s",
			way, n, of, d.latest(), counts)
	}
	less := d.count(func(c *Comparison) bool { return c.Reported < c.Expected })
	unknown := d.count(func(c *Comparison) bool { return c.Reported > 0 && c.Expected == 0 })
	switch more := of - less; {
	case most(less, of):
		return CauseEvictions, fmt.Sprintf("less reported than expected in %d of %d disagreements, the last %s%s", less, of, d.latest(), counts)
	case most(unknown, of):
		return CauseUnknownBlocks, fmt.Sprintf("tokens reported where none were expected in %d of %d disagreements, the last %s%s",
			unknown, of, d.latest(), counts)
	case most(more, of):
		return CauseMore, fmt.Sprintf("more reported than expected in %d of %d disagreements, the last %s%s", more, of, d.latest(), counts)
	default:
		return CauseUnclear, fmt.Sprintf("less reported than expected in %d of %d disagreements, more in %d, the last %s%s",
			less, of, more, d.latest(), counts)
	}
}

func (d *Doubts) newest() *Comparison { return &d.last[(d.off-1)%doubtsKept] }

// latest is the latest disagreement in words.
func (d *Doubts) latest() string {
	c := d.newest()
	return fmt.Sprintf("%d for %d expected, of %d", c.Reported, c.Expected, c.Prompt)
}

// tokens says whether the engine's prompts are not those that were expected. A template
// adds as many tokens to every prompt; with another tokenizer that depends on the text.
func (d *Doubts) tokens(of int) (c Cause, numbers string) {
	known, differ, least, greatest, shortest, longest := 0, 0, 0, 0, 0, 0
	for _, c := range d.seen() {
		if c.Counted <= 0 {
			continue
		}
		known++
		diff := c.Counted - c.Prompt
		if diff == 0 {
			continue
		}
		if differ == 0 {
			least, greatest, shortest, longest = diff, diff, c.Prompt, c.Prompt
		}
		differ++
		least, greatest = min(least, diff), max(greatest, diff)
		shortest, longest = min(shortest, c.Prompt), max(longest, c.Prompt)
	}
	if !most(differ, known) || 2*known < of {
		return CauseUnclear, ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the engine counts %+d", least)
	switch {
	case least != greatest:
		c = CauseTokenizer
		fmt.Fprintf(&b, " to %+d", greatest)
	case longest > shortest:
		c = CauseTemplate
	default: // one prompt again and again
		c = CauseTokens
	}
	fmt.Fprintf(&b, " prompt tokens against ours in %d of %d disagreements, in prompts of %d", differ, of, shortest)
	if longest > shortest {
		fmt.Fprintf(&b, " to %d", longest)
	}
	return c, b.String()
}

// blockSize is the block size by which the engine seems to count, if it is not the one
// that was expected; else 0. Either what it reports is no multiple of ours, or it is
// what was expected rounded down to a multiple of its own.
func (d *Doubts) blockSize(stated int) int {
	seen := d.seen()
	size, different, before := 0, 0, map[int]bool{}
	for i := range seen {
		if r := seen[i].Reported; r > 0 {
			if size = gcd(size, r); !before[r] {
				before[r] = true
				different++
			}
		}
	}
	if stated > 0 && size%stated == 0 {
		size = stated
	} else if different < fewReports {
		return 0
	}
	block := d.newest().Block
	if size <= 1 || size == block {
		return 0
	}
	rounded := d.count(func(c *Comparison) bool { return c.Reported == c.Expected-c.Expected%size })
	broken := d.count(func(c *Comparison) bool { return c.Reported%max(c.Block, 1) != 0 })
	if most(rounded, len(seen)) || most(broken, len(seen)) {
		return size
	}
	return 0
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
