package debug

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// past writes into st what the Recorder knows that has changed since.
func (r *Recorder) past(st *state, since uint64) {
	// What is kept is not changed any more but for its end; so it is taken out under the
	// lock, and put into words after it: hooks of requests are waiting.
	type chosen struct {
		kept

		end ending
		has bool
	}
	var (
		decisions  []chosen
		rejections []*refusal
		notes      []*note
	)
	now, most := r.clock(), keptMoments
	if since > 0 {
		most = 2 // the one before may have got something since the last frame
	}
	r.mu.Lock()
	st.recorded, st.Sums = r.change, r.sums
	st.History = r.history.state(now, most)
	for k, n := range r.rules.by {
		st.Rules = append(st.Rules, ruleCount{Policy: short(k.policy), Rule: short(k.rule), Count: n, Refused: r.refused.by[k]})
	}
	for k, n := range r.refused.by {
		if r.rules.by[k] == 0 {
			st.Rules = append(st.Rules, ruleCount{Policy: short(k.policy), Rule: short(k.rule), Refused: n})
		}
	}
	if r.rules.other > 0 {
		st.Rules = append(st.Rules, ruleCount{Rule: "(others)", Count: r.rules.other})
	}
	for k, n := range r.shadows.by {
		st.Shadows = append(st.Shadows, shadowCount{Policy: short(k), Asked: n, Differs: r.differs.by[k]})
	}
	for k, n := range r.codes.by {
		st.Codes = append(st.Codes, codeCount{Code: k, Count: n})
	}
	r.decisions.newest(func(k *kept) bool {
		if k.change > since {
			c := chosen{kept: *k, has: k.end != nil}
			if c.has {
				c.end = *k.end
			}
			decisions = append(decisions, c)
		}
		return true
	})
	changed := false
	r.rejections.newest(func(f *refusal) bool {
		changed = changed || f.change > since
		rejections = append(rejections, f)
		return changed
	})
	if !changed {
		rejections = nil
	}
	changed = false
	r.notes.newest(func(n *note) bool {
		changed = changed || n.change > since
		notes = append(notes, n)
		return changed
	})
	if !changed {
		notes = nil
	}
	r.mu.Unlock()

	slices.SortFunc(st.Rules, func(a, b ruleCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Rule, b.Rule))
	})
	slices.SortFunc(st.Shadows, func(a, b shadowCount) int { return cmp.Compare(a.Policy, b.Policy) })
	slices.SortFunc(st.Codes, func(a, b codeCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
	for i := range decisions {
		c := &decisions[i]
		d := decisionOf(c.d, c.omitted, c.at)
		if c.has {
			d.End = endOf(&c.end)
		}
		st.Decisions = append(st.Decisions, d)
	}
	for _, f := range rejections {
		st.Rejections = append(st.Rejections, refusalOf(f))
	}
	for _, n := range notes {
		st.Notes = append(st.Notes, noteState{At: n.at.UnixMilli(), Worker: n.worker, Text: n.text, Kind: n.kind})
	}
}

// uses counts in how many of the decisions that are kept a provider's model was a
// candidate, and in how many it was chosen.
func (r *Recorder) uses() map[offered][2]int {
	out := map[offered][2]int{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions.newest(func(k *kept) bool {
		for i := range k.d.Candidates {
			if c := &k.d.Candidates[i]; c.Type == policy.Provider {
				key := offered{c.Name, c.Model}
				n := out[key]
				n[0]++
				if i == k.d.Chosen {
					n[1]++
				}
				out[key] = n
			}
		}
		return true
	})
	return out
}

type offered struct{ provider, model string }

func decisionOf(d *kvsteer.Decision, omitted int, at time.Time) decisionState {
	out := decisionState{
		ID: d.ID, At: at.UnixMilli(), API: short(d.API), Model: short(d.Model), Attempt: d.Attempt,
		Tenant: short(d.Request.Tenant), QoS: short(d.Request.QoS), Pool: short(d.Request.Pool),
		Rule: short(d.Rule), Policy: short(d.Policy), PolicyVersion: short(d.PolicyVersion),
		TokenSource: d.TokenSource, PromptTokens: d.PromptTokens, Chosen: d.Chosen, Omitted: omitted,
		TookMS: milliseconds(d.Took), WaitedMS: milliseconds(d.Waited), Waiting: d.Waiting,
		Explanation: cut(d.String(), 16*longText),
	}
	for _, t := range d.Request.Tags {
		out.Tags = append(out.Tags, tagState{Name: short(t.Name), State: t.State.String()})
	}
	for _, s := range d.Degradations {
		out.Degradations = append(out.Degradations, cut(s, longText))
	}
	out.Candidates = make([]candidateState, len(d.Candidates))
	for i := range d.Candidates {
		c := &d.Candidates[i]
		out.Candidates[i] = candidateState{
			Name: short(c.Name), Rank: c.Rank, Type: c.Type.String(), Model: short(c.Model), CachedTokens: c.CachedTokens,
			Trust: c.TrustState, InFlight: c.InFlight, AheadTokens: c.PrefillAhead, TTFTMS: milliseconds(c.PredictedTTFT),
			OthersMS: milliseconds(c.Externality), Place: c.Place, DroppedBy: cut(c.DroppedBy, longText),
		}
	}
	for i := range d.Shadows {
		s := &d.Shadows[i]
		w := shadowState{Policy: short(s.Policy), Rule: short(s.Rule), Differ: s.Differs}
		if s.Chosen >= 0 && s.Chosen < len(d.Candidates) {
			c := &d.Candidates[s.Chosen]
			w.Would = rankName(short(c.Name), c.Rank)
		}
		out.Shadows = append(out.Shadows, w)
	}
	for i := range d.Unready {
		u := &d.Unready[i]
		out.Unready = append(out.Unready, cut(u.Name+" as "+u.Model+": "+u.Reason, longText))
	}
	if w := d.Winner(); w != nil {
		out.PrefillOn = short(w.PrefillOn)
	}
	if d.Targets != nil {
		out.Targets = d.Targets.Missed
	}
	return out
}

func endOf(e *ending) *endState {
	out := &endState{
		Failure: e.failure, Moved: e.moved, TTFTMS: milliseconds(e.ttft), TookMS: milliseconds(e.took), Cached: -1,
		Output: e.usage.Output, Next: e.next,
	}
	if e.usage.CachedKnown {
		out.Cached = e.usage.CacheRead
	}
	return out
}

func refusalOf(f *refusal) refusalState {
	out := refusalState{
		At: f.at.UnixMilli(), Code: f.code, Model: short(f.d.Model), Tenant: short(f.d.Request.Tenant), Rule: f.rule,
		Message: f.message, RetryAfterMS: milliseconds(f.retryAfter), Candidates: len(f.d.Candidates),
	}
	for i := range f.d.Candidates {
		if by := f.d.Candidates[i].DroppedBy; by != "" {
			out.Dropped = cut(by, longText)
			break
		}
	}
	return out
}
