package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

// A case is a line "#> REQUEST | CANDIDATES => OUTCOME". docs/policy.md says how it is
// written.
type oneCase struct {
	line       string
	request    policy.Request
	candidates []policy.Candidate
	want       outcome
}

// outcome is what is expected, or what came.
type outcome struct {
	order, model, rule, shadow string
}

// casesOf reads the cases among the lines of a text.
func casesOf(text string) (list []oneCase, err error) {
	for line := range strings.SplitSeq(text, "\n") {
		said, ok := strings.CutPrefix(strings.TrimSpace(line), "#>")
		if !ok {
			continue
		}
		c, err := caseOf(said)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		c.line = strings.TrimSpace(said)
		list = append(list, c)
	}
	return list, nil
}

func caseOf(text string) (c oneCase, err error) {
	asked, want, ok := strings.Cut(text, "=>")
	request, candidates, ok2 := strings.Cut(asked, "|")
	if !ok || !ok2 {
		return c, fmt.Errorf("want REQUEST | CANDIDATES => OUTCOME")
	}
	c.request = policy.Request{Model: "atlas", API: "chat", PromptTokens: 1000, Attempt: 1}
	for word := range strings.FieldsSeq(request) {
		if err := say(&c.request, word); err != nil {
			return c, err
		}
	}
	for one := range strings.SplitSeq(candidates, ",") {
		words := strings.Fields(one)
		if len(words) == 0 {
			continue
		}
		made := policytest.Worker(words[0], c.request.Model)
		if strings.Contains(words[0], "cloud") {
			made = policytest.Provider(words[0], c.request.Model)
		}
		for _, word := range words[1:] {
			if err := give(&made, word); err != nil {
				return c, err
			}
		}
		c.candidates = append(c.candidates, made)
	}
	// The router knows that a name is nobody's; here it is one if no candidate has it.
	c.request.Alias = len(c.candidates) > 0 && !slices.ContainsFunc(c.candidates,
		func(one policy.Candidate) bool { return one.Model == c.request.Model })
	return c, c.want.read(want)
}

// say tells a request one thing.
func say(r *policy.Request, word string) error {
	tag := func(state policy.TagState) { r.Tags = append(r.Tags, policy.Tag{Name: word[1:], State: state}) }
	switch word[0] {
	case '+':
		tag(policy.TagPresent)
		return nil
	case '-':
		tag(policy.TagAbsent)
		return nil
	case '?':
		tag(policy.TagUnknown)
		return nil
	}
	name, value, _ := strings.Cut(word, "=")
	var err error
	switch name {
	case "model":
		r.Model = value
	case "tenant":
		r.Tenant = value
	case "qos":
		r.QoS = value
	case "api":
		r.API = value
	case "pool":
		r.Pool = value
	case "session":
		r.Session = true
	case "tokens":
		r.PromptTokens, err = strconv.Atoi(value)
	case "draw":
		r.Draw, err = strconv.ParseUint(value, 10, 64)
	default:
		if !strings.HasPrefix(name, "X-") {
			return fmt.Errorf("%q is nothing that a request has", word)
		}
		if r.Header == nil {
			r.Header = map[string][]string{}
		}
		r.Header[name] = []string{value}
	}
	return err
}

// give makes a candidate have one thing: a number, or a label.
func give(c *policy.Candidate, word string) (err error) {
	name, value, ok := strings.Cut(word, "=")
	if !ok {
		return fmt.Errorf("%q is nothing that a candidate has", word)
	}
	known := value != "unknown"
	switch name {
	case "model":
		c.Model = value
	case "queued":
		c.Queued, err = strconv.Atoi(value)
	case "running":
		c.Running, err = strconv.Atoi(value)
	case "cached":
		c.CachedTokens, err = strconv.Atoi(value)
	case "kv":
		c.KVUsage, err = share(value)
	case "ttft":
		c.PredictedTTFT, err = time.ParseDuration(value)
	case "e2e":
		c.PredictedE2E, err = time.ParseDuration(value)
	case "price":
		if c.Price, c.PriceKnown = 0, known; known {
			c.Price, err = strconv.ParseFloat(value, 64)
		}
	case "quota":
		if c.RemainingQuota, c.QuotaKnown = 0, known; known {
			c.RemainingQuota, err = share(value)
		}
	case "trust":
		for t := kvcache.Blind; t <= kvcache.Exact; t++ {
			if t.String() == value {
				c.Trust = t
				return nil
			}
		}
		err = fmt.Errorf("there is no state of trust %q", value)
	default:
		policytest.Label(name, value)(c)
	}
	return err
}

func share(text string) (float64, error) {
	const percents = 100
	x, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	return x / percents, err
}

// read takes what stands behind the arrow.
func (o *outcome) read(text string) error {
	for i, part := range strings.Split(text, ";") {
		part = strings.Join(strings.Fields(part), " ")
		what, rest, _ := strings.Cut(part, " ")
		switch {
		case i == 0:
			o.order = part
		case what == "model":
			o.model = rest
		case what == "rule":
			o.rule = rest
		case what == "shadow":
			o.shadow = rest
		default:
			return fmt.Errorf("%q is nothing to expect", part)
		}
	}
	if o.order == "" {
		return fmt.Errorf("nothing is expected")
	}
	return nil
}

// came is what an evaluation came to, as far as want asks.
func came(got *policytest.Outcome, want *outcome) outcome {
	var o outcome
	plan := &got.Plan
	o.order = strings.Join(got.Order(), " > ")
	if len(plan.Order) == 0 {
		o.order = empty(&plan.Empty)
	}
	if first := got.First(); want.model != "" && first != nil {
		o.model = first.Model
	}
	if o.rule = plan.Rule; o.rule == policy.NoMatchRule {
		o.rule = "default"
	}
	if want.rule == "" {
		o.rule = ""
	}
	if want.shadow != "" && len(plan.Shadows) > 0 {
		switch sh := &plan.Shadows[0]; {
		case !sh.Differs:
			o.shadow = "same"
		case sh.First < 0:
			o.shadow = empty(&sh.Empty)
		default:
			o.shadow = got.Candidates[sh.First].Name
		}
	}
	return o
}

func empty(e *policy.OnEmpty) string {
	switch {
	case e.Action == policy.Wait:
		return "wait " + e.UpTo.String()
	case e.Status != 0:
		return fmt.Sprintf("reject %d", e.Status)
	default:
		return "reject"
	}
}

// wrong runs the cases and says what came otherwise than expected.
func wrong(kit *policytest.Kit, cases []oneCase) (list []string) {
	for i := range cases {
		c := &cases[i]
		got := kit.Evaluate(c.request, c.candidates...)
		if o := came(got, &c.want); o != c.want {
			list = append(list, fmt.Sprintf("%s\n  but it is: %+v\n%s", c.line, o, got))
		}
	}
	return list
}
