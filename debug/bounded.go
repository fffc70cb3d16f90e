package debug

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// Names come from clients too, and may be of any length.
const (
	shortText = 200
	longText  = 600
	// keptCandidates is how many candidates of a decision are kept.
	keptCandidates = 64
	// keptTags bounds tags and degradations of one decision.
	keptTags = 16
)

// ring keeps the last of what is pushed. Its zero value is empty.
type ring[T any] struct {
	items []T
	next  int // when it is full
}

// push adds v, and returns what had to go for it.
func (r *ring[T]) push(v T, most int) (old T, full bool) {
	if len(r.items) < most {
		r.items = append(r.items, v)
		return old, false
	}
	old = r.items[r.next]
	r.items[r.next] = v
	r.next = (r.next + 1) % most
	return old, true
}

// newest calls fn from the newest item on until it returns false.
func (r *ring[T]) newest(fn func(T) bool) {
	n := len(r.items)
	for i := range n {
		if !fn(r.items[(r.next+n-1-i)%n]) {
			return
		}
	}
}

// counts has a number for each of a few names.
type counts[K comparable] struct {
	by    map[K]int64
	other int64 // of names for which there was no room
}

func (c *counts[K]) add(k K) {
	if c.by == nil {
		c.by = map[K]int64{}
	}
	if n, ok := c.by[k]; ok || len(c.by) < keptNames {
		c.by[k] = n + 1
		return
	}
	c.other++
}

// lean returns a decision that takes bounded memory, the same one if it does already, and
// how many candidates were left out.
func lean(d *kvsteer.Decision) (small *kvsteer.Decision, omitted int) {
	if isLean(d) {
		return d, 0
	}
	c := *d
	c.API, c.Model, c.Rule, c.Policy = short(d.API), short(d.Model), short(d.Rule), short(d.Policy)
	c.Request = policy.Request{
		Pool: short(d.Request.Pool), QoS: short(d.Request.QoS), Tenant: short(d.Request.Tenant),
		Priority: d.Request.Priority, Session: d.Request.Session, Tags: d.Request.Tags[:min(len(d.Request.Tags), keptTags)],
	}
	c.Request.Tags = slices.Clone(c.Request.Tags)
	for i := range c.Request.Tags {
		c.Request.Tags[i].Name = short(c.Request.Tags[i].Name)
	}
	c.Degradations = slices.Clone(d.Degradations[:min(len(d.Degradations), keptTags)])
	for i := range c.Degradations {
		c.Degradations[i] = cut(c.Degradations[i], longText)
	}
	c.Shadows = slices.Clone(d.Shadows[:min(len(d.Shadows), keptTags)])
	c.Unready = slices.Clone(d.Unready[:min(len(d.Unready), keptTags)])
	c.Findings, c.Features = nil, nil
	if d.Prefill != nil && len(d.Prefill.Candidates) > keptCandidates {
		c.Prefill = nil
	}
	if len(d.Candidates) > keptCandidates {
		c.Candidates = best(d.Candidates, d.Chosen)
		omitted = len(d.Candidates) - len(c.Candidates)
		if c.Chosen >= 0 {
			c.Chosen = 0
		}
		c.Shadows = nil // they name candidates by their place
		c.Prefill = nil
	}
	return &c, omitted
}

func isLean(d *kvsteer.Decision) bool {
	text := len(d.API) + len(d.Model) + len(d.Rule) + len(d.Policy) + len(d.Request.Pool) + len(d.Request.QoS) + len(d.Request.Tenant)
	for _, s := range d.Degradations {
		text += len(s)
	}
	for i := range d.Request.Tags {
		text += len(d.Request.Tags[i].Name)
	}
	lists := max(len(d.Request.Tags), len(d.Degradations), len(d.Shadows), len(d.Findings), len(d.Unready))
	return text <= 4*longText && lists <= keptTags && len(d.Candidates) <= keptCandidates && d.Features == nil &&
		d.Request.Header == nil && (d.Prefill == nil || len(d.Prefill.Candidates) <= keptCandidates)
}

// best returns the candidates that come first in the plan, the chosen one before all.
func best(list []kvsteer.DecisionCandidate, chosen int) []kvsteer.DecisionCandidate {
	places := make([]int, len(list))
	for i := range places {
		places[i] = i
	}
	rank := func(i int) int {
		switch p := list[i].Place; {
		case i == chosen:
			return 0
		case p > 0:
			return p
		default:
			return len(list) + 1
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return rank(a) - rank(b) })
	out := make([]kvsteer.DecisionCandidate, 0, keptCandidates)
	for _, i := range places[:keptCandidates] {
		out = append(out, list[i])
	}
	return out
}

// short makes a name fit to be shown.
func short(s string) string { return cut(s, shortText) }

// cut returns at most n bytes of a text, at the border of a rune, in memory of its own if
// it is cut, with what is no UTF-8 replaced.
func cut(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func number[N uint64 | int](n N) string { return fmt.Sprint(n) }

// rankName names one rank of a worker.
func rankName(worker string, rank int) string {
	if rank == 0 {
		return worker
	}
	return worker + " rank " + number(rank)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// finite makes a number fit for JSON: engines and plugins may report anything.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
