package kvsteer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// Decision says why a request went where it did. It is a record: plain data,
// safe to keep, free of prompt text, and JSON-encodable.
type Decision struct {
	// ID numbers the router's decisions from 1.
	ID    uint64 `json:"id"`
	API   string `json:"api"`
	Model string `json:"model"`
	// Attempt counts from 1. Each attempt has a Decision of its own, made without
	// the workers that were tried before.
	Attempt int `json:"attempt"`
	// Previous is the ID of the attempt before, which has failed; 0 for the first. Only the
	// Decision of the last attempt has an Outcome.
	Previous uint64 `json:"previous,omitempty"`
	// Rule is the policy rule that decided, Policy the policy that it belongs to, by
	// namespace and name, PolicyVersion that of all policies in force together. The
	// latter are "" for a policy that has none.
	Rule          string `json:"rule"`
	Policy        string `json:"policy,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"`
	// TokenSource says where the prompt's tokens came from; PromptTokens is exact
	// unless TokenSource is "bytes", or "prefix": the ids up to the first image or the
	// like.
	TokenSource  string `json:"token_source"`
	PromptTokens int    `json:"prompt_tokens"`
	// Assets identifies the model's files that token ids were computed from in the
	// router, Proof says whether they are known to be the engine's: "proven", or "not
	// proven" where no engine could be asked. Both are "" for ids from elsewhere.
	Assets string `json:"assets,omitempty"`
	Proof  string `json:"proof,omitempty"`
	// Degradations names everything that is less than exact about this decision,
	// and why.
	Degradations []string `json:"degradations,omitempty"`
	// Targets is nil for a request without any.
	Targets *Targets `json:"targets,omitempty"`
	// Request is what the policy was told about the request, its headers left out. Of
	// a request that waited PromptTokens and the like are as when it was chosen for.
	Request policy.Request `json:"request"`
	// VerifiedBy says how it was verified whose request it is, as [tenancy.Identity] has
	// it; "" for one that nobody has verified. The tenant is in Request.
	VerifiedBy string `json:"verified_by,omitempty"`
	// TenantLabel is what the tenant is called in metrics, "" unless [TenancyOptions] has
	// Labels: of few values, however many tenants there are.
	TenantLabel string `json:"tenant_label,omitempty"`
	// Findings are what classifiers found: kinds, counts and offsets, never text.
	Findings []classify.Finding `json:"findings,omitempty"`
	// Shadows are what policies in shadow mode would have done.
	Shadows []ShadowDecision `json:"shadows,omitempty"`
	// Chosen is the index of the chosen candidate in Candidates, -1 if none was. Its
	// Model is what the request is served with, which a policy may have changed.
	Chosen     int                 `json:"chosen"`
	Candidates []DecisionCandidate `json:"candidates"`
	// Unready are external providers that serve the model, and that the policy was not
	// asked about because they can't take the request now.
	Unready []Unready `json:"unready,omitempty"`
	// Features are what the predictor was asked about, one for each of Candidates that is a
	// worker: they come first. They are nil unless a hook is a [HookFeatures].
	Features []Features `json:"features,omitempty"`
	// Prefill is who would compute the prompt for candidates that can go on from
	// there; nil where nobody does. Whether the chosen one lets it do so is in its
	// PrefillOn.
	Prefill *PrefillDecision `json:"prefill,omitempty"`
	// Waiting is how many other requests waited in the router for a worker.
	Waiting int `json:"waiting,omitempty"`
	// Took is the time that this decision itself took, in nanoseconds: for the
	// first attempt waiting for an engine's tokenizer included, for later ones the
	// attempts before excluded.
	Took time.Duration `json:"took_ns"`
	// Waited is how long the request waited for a worker to be free, in nanoseconds;
	// Took does not include it. Saturated, in a dry run: it would have to wait.
	Waited    time.Duration `json:"waited_ns,omitempty"`
	Saturated bool          `json:"saturated,omitempty"`
}

// ShadowDecision is what a policy in shadow mode would have done.
type ShadowDecision struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	// Chosen is the index of the candidate that it would have chosen, -1 for none.
	Chosen int `json:"chosen"`
	// Differs: that is another one than was chosen.
	Differs bool `json:"differs"`
}

// PrefillDecision is the choice among workers that only compute prompts.
type PrefillDecision struct {
	Rule       string              `json:"rule"`
	Chosen     int                 `json:"chosen"`
	Candidates []DecisionCandidate `json:"candidates"`
}

// Targets are the times that a request should meet.
type Targets struct {
	// TTFT and ITL are 0 where there is no target.
	TTFT time.Duration `json:"ttft_ns"`
	ITL  time.Duration `json:"itl_ns"`
	// Missed names those that no candidate was expected to meet: "ttft", "itl" or
	// "ttft, itl"; "" if the chosen one is expected to meet all.
	Missed string `json:"missed"`
}

// DecisionCandidate is one candidate of a Decision.
type DecisionCandidate struct {
	policy.Candidate
	// Late is by how much the oldest prompt that is computed there is overdue beyond its
	// own time: the predictions are more by that than the predictor's. Wanting is how
	// many other requests wait in the router for this very candidate.
	Late    time.Duration `json:"late_ns,omitempty"`
	Wanting int           `json:"wanting,omitempty"`
	// TrustState is the candidate's [kvcache.Trust] by name.
	TrustState string `json:"trust"`
	// TrustReason says why that is less than it could be, "" where it isn't.
	TrustReason string `json:"trust_reason,omitempty"`
	// Place is the candidate's rank in the plan from 1; 0 if it was dropped. Stage is
	// the stage of the rule that has it there, from 1.
	Place int `json:"place"`
	Stage int `json:"stage,omitempty"`
	// DroppedBy is the rule and condition that dropped it.
	DroppedBy string `json:"dropped_by,omitempty"`
}

// Winner returns the chosen candidate, nil if there is none.
func (d *Decision) Winner() *DecisionCandidate {
	if d.Chosen < 0 || d.Chosen >= len(d.Candidates) {
		return nil
	}
	return &d.Candidates[d.Chosen]
}

// String explains the decision in words, one line a candidate, the chosen first.
func (d *Decision) String() string {
	var b strings.Builder
	if d.ID == 0 {
		b.WriteString("dry run: ")
	} else {
		fmt.Fprintf(&b, "decision %d: ", d.ID)
	}
	fmt.Fprintf(&b, "%s for model %q, %d prompt tokens (%s)",
		d.API, clip(d.Model), d.PromptTokens, d.TokenSource)
	if d.Attempt > 1 {
		fmt.Fprintf(&b, ", attempt %d", d.Attempt)
	}
	if d.Waited > 0 {
		fmt.Fprintf(&b, ", waited %s", round(d.Waited))
	}
	if d.Saturated {
		b.WriteString(", would wait")
	}
	if w := d.Winner(); w != nil {
		fmt.Fprintf(&b, "\n  -> %s: %s", w.labelFor(d.Model), w.reason(d.PromptTokens))
		if p := d.Prefill; p != nil && w.PrefillOn != "" {
			c := &p.Candidates[p.Chosen]
			fmt.Fprintf(&b, "\n     prompt on %s: %s [%s]", c.label(), c.reason(d.PromptTokens), p.Rule)
		}
	} else {
		b.WriteString("\n  -> nobody")
	}
	b.WriteString(" [")
	if d.Policy != "" {
		fmt.Fprintf(&b, "%s, rule ", d.Policy)
	}
	fmt.Fprintf(&b, "%s]", d.Rule)
	for _, i := range d.byPlace() {
		if c := &d.Candidates[i]; i != d.Chosen {
			fmt.Fprintf(&b, "\n     %s: %s", c.labelFor(d.Model), c.reason(d.PromptTokens))
		}
	}
	for _, u := range d.Unready {
		fmt.Fprintf(&b, "\n     %s as %q: not now: %s", u.Name, clip(u.Model), u.Reason)
		if u.RetryAfter > 0 {
			fmt.Fprintf(&b, ", again in %s", round(u.RetryAfter))
		}
	}
	d.describePolicy(&b)
	for _, g := range d.Degradations {
		fmt.Fprintf(&b, "\n  ! %s", g)
	}
	if d.Targets != nil && d.Targets.Missed != "" {
		fmt.Fprintf(&b, "\n  ! nobody is expected to meet the target of %s", d.Targets.Missed)
	}
	return b.String()
}

// byPlace lists candidates in the order of the plan, dropped ones last.
func (d *Decision) byPlace() []int {
	order := make([]int, len(d.Candidates))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		pa, pb := d.Candidates[a].Place, d.Candidates[b].Place
		switch {
		case pa == pb:
			return 0
		case pa == 0:
			return 1
		case pb == 0:
			return -1
		default:
			return pa - pb
		}
	})
	return order
}

func (c *DecisionCandidate) label() string {
	if c.Candidate.Rank > 0 {
		return fmt.Sprintf("%s/rank %d", c.Name, c.Candidate.Rank)
	}
	return c.Name
}

// labelFor names the candidate, and its model if that is another one than was asked
// for.
func (c *DecisionCandidate) labelFor(model string) string {
	if c.Model == model {
		return c.label()
	}
	return fmt.Sprintf("%s as %q", c.label(), clip(c.Model))
}

// describePolicy says what the policy was told, and what others would have done.
func (d *Decision) describePolicy(b *strings.Builder) {
	for i, tag := range d.Request.Tags {
		sep := ", "
		if i == 0 {
			sep = "\n  tags: "
		}
		fmt.Fprintf(b, "%s%s %s", sep, tag.Name, tag.State)
	}
	for _, s := range d.Shadows {
		would := "reject the request"
		if s.Chosen >= 0 && s.Chosen < len(d.Candidates) {
			would = "choose " + d.Candidates[s.Chosen].labelFor(d.Model)
		}
		if !s.Differs {
			would = "do the same"
		}
		fmt.Fprintf(b, "\n  shadow %s, rule %s: would %s", s.Policy, s.Rule, would)
	}
}

func (c *DecisionCandidate) reason(promptTokens int) string {
	if c.DroppedBy != "" {
		return "dropped: " + c.DroppedBy
	}
	if c.Type == policy.Provider {
		return c.outside()
	}
	share := 0.0
	if promptTokens > 0 {
		share = math.Floor(100 * float64(c.CachedTokens) / float64(promptTokens))
	}
	worth := ""
	if c.CachedWorth != c.CachedTokens {
		worth = fmt.Sprintf(", worth %d as they lie", c.CachedWorth)
	}
	rest := ""
	if c.Late > 0 {
		rest = fmt.Sprintf(", overdue by %s", round(c.Late))
	}
	if c.Affinity > 0 {
		rest += fmt.Sprintf(" - %s as the session's", round(c.Affinity))
	}
	if c.Near > 0 {
		rest += ", counts as equal to the best, as other routers choose as well"
	}
	if c.Misses != "" {
		rest += ", misses the target of " + c.Misses
	}
	return fmt.Sprintf("%d tokens cached (%.0f%%, %s%s), %d in flight with %d tokens ahead, predicted TTFT %s + %s to others%s",
		c.CachedTokens, share, c.TrustState, worth, c.InFlight, c.PrefillAhead,
		round(c.PredictedTTFT), round(c.Externality), rest)
}

// outside says what is known of a provider.
func (c *DecisionCandidate) outside() string {
	text := fmt.Sprintf("provider, %d in flight, predicted TTFT %s", c.InFlight, round(c.PredictedTTFT))
	if c.PriceKnown {
		text += fmt.Sprintf(", %.6g for the request", c.Price)
	}
	if c.QuotaKnown {
		text += fmt.Sprintf(", %.0f%% of its quota left", 100*c.RemainingQuota)
	}
	if c.Misses != "" {
		text += ", misses the target of " + c.Misses
	}
	return text
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

func degradations(enc *prompt.Encoding) []string {
	if len(enc.Degraded) == 0 {
		return nil
	}
	out := make([]string, 0, len(enc.Degraded))
	for _, g := range enc.Degraded {
		if enc.Source.Exact() && g.Reason == prompt.ReasonAbsent {
			continue // an endpoint that this engine never had is no loss when another is as exact
		}
		not := "not "
		if g.Source == enc.Source {
			not = "" // they are, and yet something is to be said
		}
		out = append(out, fmt.Sprintf("token ids %sfrom %s: %s", not, g.Source, g.Reason))
	}
	return out
}
