package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomMatch makes conditions over few values, so that they often cover each other.
func randomMatch(r *rand.Rand) Match {
	var m Match
	some := func(list ...string) []string {
		return list[:1+r.IntN(len(list))]
	}
	for range 1 + r.IntN(3) {
		switch r.IntN(9) {
		case 0:
			m.Model = some("m1", "m2")
		case 1:
			m.Tenant = some("t1", "t2")
		case 2:
			m.Tag = some("x", "y")
			m.OnUnknown = OnUnknown(r.IntN(3))
		case 3:
			m.API = some("chat")
		case 4:
			yes := r.IntN(2) == 0
			m.Session = &yes
		case 5:
			m.PromptTokens = randomRange(r, 3, 1)
		case 6:
			m.HealthyWorkers = randomRange(r, 2, 1)
		case 7:
			m.KVCacheUsage = randomRange(r, 3, 4)
		case 8:
			h := HeaderMatch{Name: "x-h"}
			switch r.IntN(4) {
			case 0:
				h.Value = []string{"a", "ab"}[r.IntN(2)]
			case 1:
				h.Prefix = []string{"a", "ab"}[r.IntN(2)]
			case 2:
				h.Absent = true
			}
			m.Header = []HeaderMatch{h}
		}
	}
	return m
}

func randomRange(r *rand.Rand, most, parts int) Range {
	low := float64(r.IntN(most)) / float64(parts)
	high := low + float64(1+r.IntN(3))/float64(parts)
	switch r.IntN(3) {
	case 0:
		return GreaterThan(low)
	case 1:
		return LessThan(high)
	default:
		return Between(low, high)
	}
}

// situation is a request and the candidates of it.
type situation struct {
	req        Request
	candidates []Candidate
}

// situations has one for everything that randomMatch can tell apart.
func situations() []situation {
	var out []situation
	pools := [][]Candidate{nil}
	for workers := 1; workers <= 6; workers++ {
		for _, usage := range []float64{0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 0.8, 1} {
			var list []Candidate
			for w := range workers {
				list = append(list, Candidate{Name: fmt.Sprint(w), KVUsage: usage})
			}
			pools = append(pools, list)
		}
	}
	states := []TagState{TagUnknown, TagAbsent, TagPresent}
	for i := range 3 * 3 * 9 * 2 * 5 * 2 {
		digit := func(n int) int {
			d := i % n
			i /= n
			return d
		}
		s := situation{req: Request{Model: []string{"m1", "m2", "m3"}[digit(3)], Tenant: []string{"t1", "t2", ""}[digit(3)]}}
		tags := digit(9)
		s.req.Tags = []Tag{{"x", states[tags%3]}, {"y", states[tags/3]}}
		s.req.Session = digit(2) == 1
		if h := []string{"", "a", "ab", "abc", "z"}[digit(5)]; h != "" {
			s.req.Header = map[string][]string{"X-H": {h}}
		}
		s.req.API = []string{"chat", "messages"}[digit(2)]
		out = append(out, s)
	}
	// Lengths and pools are taken at random: their product with all of this is large.
	r := rand.New(rand.NewPCG(1, 2))
	for i := range out {
		out[i].req.PromptTokens = r.IntN(8)
		out[i].candidates = slices.Clone(pools[r.IntN(len(pools))])
		for c := range out[i].candidates {
			out[i].candidates[c].Model = out[i].req.Model
		}
	}
	return out
}

// A rule that is reported as never reached never decides, and an alternative that is
// reported never holds first; of others there usually is a request that they decide.
func TestUnreachableIsNeverReached(t *testing.T) {
	t.Parallel()
	all := situations()
	r := rand.New(rand.NewPCG(3, 4))
	reported, silent, unproven := 0, 0, 0
	for range 500 {
		s := &Spec{Name: "p"}
		for i := range 2 + r.IntN(4) {
			rule := Rule{Name: fmt.Sprint(i)}
			for range r.IntN(3) {
				rule.Matches = append(rule.Matches, randomMatch(r))
			}
			if i == 0 && len(rule.Matches) == 0 {
				continue
			}
			if r.IntN(5) == 0 {
				rule.Route.OnEmpty.Action = NextRule
			}
			s.Rules = append(s.Rules, rule)
		}
		dead := map[string]bool{}
		for _, f := range s.problems(checking{}) {
			if f.Code == CodeUnreachableRule || f.Code == CodeUnreachableMatch {
				dead[f.Path] = true
			}
		}
		reached := reachedBy(s, all)
		for i := range s.Rules {
			at := item("spec.rules", i)
			switch {
			case dead[at]:
				reported++
				require.False(t, reached[at], "%s is reached\n%s", at, show(s))
			case !reached[at]:
				unproven++
			default:
				silent++
			}
			for j := range s.Rules[i].Matches {
				here := item(at+".matches", j)
				require.False(t, dead[here] && reached[here], "%s decides\n%s", here, show(s))
			}
		}
	}
	require.Greater(t, reported, 70)
	require.Greater(t, silent, 500)
	require.Less(t, unproven, silent/10, "many rules are not reached, and nothing is said")
}

// reachedBy returns the paths of rules and alternatives that decide.
func reachedBy(s *Spec, all []situation) map[string]bool {
	reached := map[string]bool{}
	p := compileSpec(s, nil)
	for i := range all {
		sc := &scratch{pool: pool{req: &all[i].req, candidates: all[i].candidates}}
		for k := range p.rules {
			which, ok := p.rules[k].matched(sc)
			if !ok {
				continue
			}
			at := item("spec.rules", k)
			reached[at] = true
			if which >= 0 {
				reached[item(at+".matches", which)] = true
			}
			if p.rules[k].empty.Action != NextRule {
				break
			}
		}
	}
	return reached
}

func show(s *Spec) string {
	var b strings.Builder
	p := compileSpec(s, nil)
	for i := range p.rules {
		fmt.Fprintf(&b, "%d (next %v):", i, p.rules[i].empty.Action == NextRule)
		for j := range p.rules[i].matches {
			b.WriteString(" or " + p.rules[i].matches[j].text)
		}
		b.WriteString("\n")
	}
	return b.String()
}
