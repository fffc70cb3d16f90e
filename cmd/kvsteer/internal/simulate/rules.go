package simulate

import (
	"fmt"
	"strings"
)

// ruleNames lists the rules in the order of their tables.
var ruleNames = [...]string{
	"random", "round-robin", "least-requests", "power-of-two", "session-hash",
	"sglang", "llm-d", "dynamo", "lowest-ttft", "bound", "kvsteer",
}

// RuleNames returns the names of all rules, in the order of their tables.
func RuleNames() []string { return append([]string(nil), ruleNames[:]...) }

// moreRules are those that tables have only when asked for.
var moreRules = [...]string{"bound-fifo", "kvsteer-queue", "kvsteer:NAME=VALUE+..."}

// Replicates reports whether a rule can be that of several routers: others see what no
// router sees, or are none.
func Replicates(r Rule) bool {
	switch r := r.(type) {
	case *Bound, *LowestTTFT:
		return false
	case *Steer:
		return !r.Truth
	case *Late:
		return !r.Truth
	case *Together:
		return !r.Truth
	default:
		return true
	}
}

// NewRule makes a rule by its name.
func NewRule(name string, seed uint64) (Rule, error) { return newRule(name, seed, streamRule) }

func newRule(name string, seed, which uint64) (Rule, error) {
	rng := stream(seed, which)
	base, params, _ := strings.Cut(name, ":")
	if params != "" && base != "kvsteer" {
		return nil, fmt.Errorf("the rule %q takes no parameters", base)
	}
	switch base {
	case "random":
		return &Random{Rng: rng}, nil
	case "round-robin":
		return &RoundRobin{}, nil
	case "least-requests":
		return &LeastRequests{Rng: rng}, nil
	case "power-of-two":
		return &PowerOfTwo{Rng: rng}, nil
	case "session-hash":
		return SessionHash{}, nil
	case "sglang":
		return &SGLang{Rng: rng}, nil
	case "llm-d":
		return &LLMD{Rng: rng}, nil
	case "dynamo":
		return &Dynamo{Rng: rng}, nil
	case "lowest-ttft":
		return &LowestTTFT{Rng: rng}, nil
	case "bound":
		return &Bound{}, nil
	case "bound-fifo":
		return &Bound{FIFO: true}, nil
	case "kvsteer":
		return variant(params, seed)
	case "kvsteer-queue":
		return newLate(NewSteer(seed), 0, defaultGather, defaultAging), nil
	default:
		return nil, fmt.Errorf("no rule %q; there are %s, %s",
			name, strings.Join(ruleNames[:], ", "), strings.Join(moreRules[:], ", "))
	}
}
