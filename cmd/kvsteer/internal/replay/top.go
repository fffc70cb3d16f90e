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

// ranking keeps, of each kind of change, the decisions that differ most: by how much
// the predicted TTFT differs, the earlier first.
type ranking struct {
	most  int
	file  string
	kinds map[change][]ranked
	seen  int
}

// change is a kind: from one rule to another, from or to nobody.
type change struct {
	move

	fromNobody, toNobody bool
}

type ranked struct {
	weight float64
	order  int
	what   Different
}

// before orders decisions of a kind, and kinds by their first.
func before(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.order, b.order))
}

func (r *ranking) add(v *verdict, line int) {
	if v.was == v.is || r.most <= 0 {
		return
	}
	r.seen++
	one := ranked{weight: math.Inf(1), order: r.seen, what: Different{Decision: v.d.ID, File: r.file, Line: line}}
	if v.was >= 0 && v.is >= 0 {
		one.what.DeltaMS = rounded(float64(v.delta())/millisecond, milli)
		one.weight = math.Abs(one.what.DeltaMS)
	}
	kind := change{move{rule{v.d.Policy, v.d.Rule}, rule{v.plan.Policy, v.plan.Rule}}, v.was < 0, v.is < 0}
	list := r.kinds[kind]
	if len(list) >= r.most && before(one, list[len(list)-1]) > 0 {
		return
	}
	one.what.Words = v.words()
	at, _ := slices.BinarySearchFunc(list, one, before)
	list = slices.Insert(list, at, one)
	if r.kinds == nil {
		r.kinds = map[change][]ranked{}
	}
	r.kinds[kind] = list[:min(len(list), r.most)]
}

// top lists the first of each kind, then the second of each, and so on.
func (r *ranking) top() []Different {
	out := []Different{}
	for depth := 0; len(out) < r.most; depth++ {
		var level []ranked
		for _, list := range r.kinds {
			if depth < len(list) {
				level = append(level, list[depth])
			}
		}
		if len(level) == 0 {
			break
		}
		slices.SortFunc(level, before)
		for _, one := range level[:min(len(level), r.most-len(out))] {
			out = append(out, one.what)
		}
	}
	return out
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
