package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// title is the candidate's name, with its rank where that is not the first, and the
// model.
func (c *Candidate) title() string {
	s := c.Name
	if c.Rank > 0 {
		s += " rank " + strconv.Itoa(c.Rank)
	}
	return s + " (" + c.Type.String() + ", model " + strconv.Quote(c.Model) + ")"
}

// numbers are the candidate's, as far as they say something.
func (c *Candidate) numbers() string {
	const percent = 100
	var w words
	w.add("predicted TTFT " + short(c.PredictedTTFT))
	if c.Externality != 0 {
		w.add("costs others " + short(c.Externality))
	}
	if c.Affinity != 0 {
		w.add("session gains " + short(c.Affinity))
	}
	if c.Near != 0 {
		w.add("counts as equal to the best, as other routers choose as well")
	}
	if c.PredictedE2E > 0 {
		w.add("predicted E2E " + short(c.PredictedE2E))
	}
	if c.Type == Local {
		w.add(fmt.Sprintf("%d tokens cached (%s)", c.CachedTokens, c.Trust))
		w.add(fmt.Sprintf("queued %d, running %d", c.Queued, c.Running))
		w.add(fmt.Sprintf("KV in use %.0f%%", c.KVUsage*percent))
	}
	if c.PriceKnown {
		w.add("price " + plain(c.Price) + " USD")
	}
	if c.QuotaKnown {
		w.add(fmt.Sprintf("quota left %.0f%%", c.RemainingQuota*percent))
	}
	if c.PrefillOn != "" {
		w.add("prefill on " + c.PrefillOn)
	}
	if c.Misses != "" {
		w.add("misses " + c.Misses)
	}
	return w.String()
}

// short is a duration as exact as predictions are.
func short(d time.Duration) string {
	switch {
	case d > time.Hour || d < -time.Hour:
		return d.Round(time.Second).String()
	case d > time.Second || d < -time.Second:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// String explains in words, in several lines: the same for the same plan.
func (e *Explanation) String() string {
	var b strings.Builder
	e.writeRule(&b)
	e.writeRequest(&b)
	for _, p := range e.Passed {
		fmt.Fprintf(&b, "passed: rule %s%s: %s\n", p.Rule, ofPolicy(p.Policy), p.Why)
	}
	for i := range e.Stages {
		e.writeStage(&b, i)
	}
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Dropped != "" {
			fmt.Fprintf(&b, "  -  %s: %s; dropped: %s\n", c.title(), c.numbers(), c.Dropped)
			continue
		}
		fmt.Fprintf(&b, "  %d. %s: %s", c.Place, c.title(), c.numbers())
		if c.Note != "" {
			b.WriteString("; " + c.Note)
		}
		b.WriteByte('\n')
	}
	e.writeOutcome(&b)
	for _, sh := range e.Shadows {
		verb := "would do the same"
		if sh.Differs {
			verb = "would differ"
		}
		fmt.Fprintf(&b, "shadow: rule %s%s %s: %s\n", sh.Rule, ofPolicy(sh.Policy), verb, sh.Would)
	}
	return b.String()
}

func ofPolicy(name string) string {
	if name == "" {
		return ""
	}
	return " of policy " + name
}

func (e *Explanation) writeRule(b *strings.Builder) {
	fmt.Fprintf(b, "rule %s%s", e.Rule, ofPolicy(e.Policy))
	if e.Matched != "" {
		fmt.Fprintf(b, ", by matches[%d]: %s", e.Match, e.Matched)
	}
	if e.Version != "" {
		fmt.Fprintf(b, " (version %s)", e.Version)
	}
	b.WriteByte('\n')
}

func (e *Explanation) writeRequest(b *strings.Builder) {
	var w words
	w.add("model " + strconv.Quote(e.Model))
	if e.API != "" {
		w.add(e.API)
	}
	w.add(strconv.Itoa(e.PromptTokens) + " prompt tokens")
	if e.Tenant != "" {
		w.add("tenant " + strconv.Quote(e.Tenant))
	}
	if e.Pool != "" {
		w.add("pool " + strconv.Quote(e.Pool))
	}
	for _, t := range e.Tags {
		w.add("tag " + t.Name + " " + t.State.String())
	}
	if e.Attempt > 1 {
		w.add("attempt " + strconv.Itoa(e.Attempt))
	}
	fmt.Fprintf(b, "request: %s\n", w.String())
}

func (e *Explanation) writeStage(b *strings.Builder, i int) {
	st := &e.Stages[i]
	fmt.Fprintf(b, "select[%d] (%s): ", i, st.Stage)
	switch {
	case st.Candidates == 0:
		fmt.Fprintf(b, "empty: %s\n", st.Empty)
	case st.Decided:
		fmt.Fprintf(b, "decides, with %d\n", st.Candidates)
	default:
		fmt.Fprintf(b, "comes after, with %d\n", st.Candidates)
	}
}

func (e *Explanation) writeOutcome(b *strings.Builder) {
	if len(e.Candidates) == 0 || e.Candidates[0].Place == 0 {
		fmt.Fprintf(b, "nothing is left: %s\n", e.OnEmpty)
		return
	}
	fmt.Fprintf(b, "chosen: %s", e.Candidates[0].title())
	if e.Rewrite != nil {
		fmt.Fprintf(b, ", the request's model is rewritten from %q to %q", e.Rewrite.From, e.Rewrite.To)
	}
	fmt.Fprintf(b, "; if nothing were left: %s\n", e.OnEmpty)
}
