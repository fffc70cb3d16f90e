package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// Different is a decision that would have been another, in words.
type Different struct {
	Decision uint64 `json:"decision"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	// DeltaMS is the change of the predicted TTFT; 0 where nobody was chosen, or would
	// be.
	DeltaMS float64 `json:"ttft_delta_ms"`
	Words   string  `json:"words"`
}

// ranking keeps the decisions that differ most: those with nobody on one side first,
// then by how much the predicted TTFT differs, then the earlier.
type ranking struct {
	most int
	file string
	list []ranked
	seen int
}

type ranked struct {
	weight float64
	order  int
	what   Different
}

func (r *ranking) add(v *verdict, line int) {
	if v.was == v.is || r.most <= 0 {
		return
	}
	r.seen++
	one := ranked{weight: math.Inf(1), order: r.seen, what: Different{Decision: v.d.ID, File: r.file, Line: line}}
	if v.was >= 0 && v.is >= 0 {
		one.what.DeltaMS = float64(v.delta()) / millisecond
		one.weight = math.Abs(one.what.DeltaMS)
	}
	before := func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.order, b.order))
	}
	if len(r.list) >= r.most && before(one, r.list[len(r.list)-1]) > 0 {
		return
	}
	one.what.Words = v.words()
	at, _ := slices.BinarySearchFunc(r.list, one, before)
	r.list = slices.Insert(r.list, at, one)
	r.list = r.list[:min(len(r.list), r.most)]
}

// words tells a verdict.
func (v *verdict) words() string {
	d := v.d
	var b strings.Builder
	fmt.Fprintf(&b, "%s for model %q, %d prompt tokens", d.API, clip(d.Model), d.PromptTokens)
	if d.Request.Tenant != "" {
		fmt.Fprintf(&b, ", tenant %q", clip(d.Request.Tenant))
	}
	if d.Attempt > 1 {
		fmt.Fprintf(&b, ", attempt %d", d.Attempt)
	}
	fmt.Fprintf(&b, "\n  was %s [%s]", v.place(v.was), ruleName(rule{d.Policy, d.Rule}))
	fmt.Fprintf(&b, "\n  now %s [%s]", v.place(v.is), ruleName(rule{v.plan.Policy, v.plan.Rule}))
	if v.is < 0 {
		b.WriteString(empty(&v.plan.Empty))
	}
	if v.was >= 0 {
		if why := v.dropped(v.was); why != "" {
			fmt.Fprintf(&b, "\n  %s would be dropped: %s", label(&v.candidates[v.was]), why)
		}
	}
	if v.is >= 0 {
		if why := d.Candidates[v.is].DroppedBy; why != "" {
			fmt.Fprintf(&b, "\n  %s was dropped: %s", label(&v.candidates[v.is]), why)
		}
	}
	return b.String()
}

// place describes a candidate, or that it is none.
func (v *verdict) place(i int) string {
	if i < 0 {
		return "nobody"
	}
	c := &v.candidates[i]
	name := label(c)
	if c.Model != v.d.Model {
		name += fmt.Sprintf(" as %q", clip(c.Model))
	}
	if c.PrefillOn != "" {
		name += " with the prompt computed on " + c.PrefillOn
	}
	return fmt.Sprintf("%s: %d tokens cached, %d in flight with %d tokens ahead, predicted TTFT %s + %s to others",
		name, c.CachedTokens, c.InFlight, c.PrefillAhead, round(c.PredictedTTFT), round(c.Externality))
}

func (v *verdict) dropped(i int) string {
	for _, drop := range v.plan.Dropped {
		if drop.Index == i {
			return drop.Rule + ": " + drop.Condition
		}
	}
	return ""
}

func label(c *policy.Candidate) string {
	if c.Rank > 0 {
		return fmt.Sprintf("%s/rank %d", c.Name, c.Rank)
	}
	return c.Name
}

func ruleName(r rule) string {
	switch {
	case r.name == "":
		return "no rule"
	case r.policy == "":
		return r.name
	default:
		return r.policy + ", rule " + r.name
	}
}

func empty(e *policy.OnEmpty) string {
	if e.Action == policy.Wait {
		return fmt.Sprintf(", which waits for up to %s", e.UpTo)
	}
	return ""
}

func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}
