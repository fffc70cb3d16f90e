package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// ErrPlan is wrapped by the error for steps that can't be read. It is for whoever wrote
// -chaos.steps: the text says which step, and what is wrong with it.
var ErrPlan = errors.New("chaos: not a plan")

// Op is what a step does.
type Op string

// Step is one thing that happens in a world. What A and B mean depends on the Op, and
// every pair of numbers means something.
type Step struct {
	Op   Op
	A, B int
}

// String is the step as ParseSteps reads it.
func (s Step) String() string { return fmt.Sprintf("%s.%d.%d", s.Op, s.A, s.B) }

// Plan is what happens in one world. Seed decides how the world is built, Steps what
// happens in it; steps can be left out without changing what the others do.
type Plan struct {
	Seed  uint64
	Steps []Step
}

// DefaultSteps is how long plans are that Draw makes.
const DefaultSteps = 40

// ops are the steps that there are, by how often each is drawn.
func ops() []weighted {
	return []weighted{
		{"client", 30},
		{"select", 6},
		{"relic", 5},
		{"pause", 2},

		{"kill", 2},
		{"revive", 2},
		{"restart", 2},
		{"replace", 3},
		{"reuse", 2},
		{"hang", 2},
		{"stall", 1},
		{"slow", 1},
		{"refuse", 1},
		{"fail", 2},
		{"die", 3},
		{"sick", 1},
		{"nousage", 1},
		{"nometrics", 1},
		{"freeze", 1},
		{"mend", 4},

		{"lose", 3},
		{"burn", 1},
		{"corrupt", 1},
		{"delay", 1},
		{"repeat", 3},
		{"swap", 2},
		{"cut", 2},
		{"reset", 2},

		{"skew", 4},
		{"limits", 3},
		{"sink", 3},
		{"tokenizer", 3},
		{"policy", 5},
		{"provider", 3},
		{"discover", 4},
		{"drain", 2},
		{"snapshot", 2},

		// Of worlds with two gateways.
		{"bus", 4},
		{"noise", 2},
		{"gateway", 2},
	}
}

type weighted struct {
	op     Op
	weight int
}

// drawRange is what A and B are drawn below.
const drawRange = 1000

// Streams of a seed: what is drawn from one does not depend on the others.
const (
	streamSetup = iota + 1
	streamSteps
)

// Draw makes the plan of a seed, of n steps.
func Draw(seed uint64, n int) Plan {
	rng := rand.New(rand.NewPCG(seed, streamSteps)) //nolint:gosec // a seed is to give the same plan again
	list := ops()
	total := 0
	for _, w := range list {
		total += w.weight
	}
	p := Plan{Seed: seed}
	for range n {
		k := rng.IntN(total)
		i := 0
		for ; k >= list[i].weight; i++ {
			k -= list[i].weight
		}
		p.Steps = append(p.Steps, Step{Op: list[i].op, A: rng.IntN(drawRange), B: rng.IntN(drawRange)})
	}
	return p
}

// String is the steps as ParseSteps reads them.
func (p Plan) String() string {
	list := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		list[i] = s.String()
	}
	return strings.Join(list, " ")
}

// ParseSteps reads what Plan.String has written.
func ParseSteps(text string) ([]Step, error) {
	var steps []Step
	for i, word := range strings.Fields(text) {
		op, numbers, _ := strings.Cut(word, ".")
		a, b, _ := strings.Cut(numbers, ".")
		s := Step{Op: Op(op)}
		var errA, errB error
		s.A, errA = strconv.Atoi(a)
		s.B, errB = strconv.Atoi(b)
		if errA != nil || errB != nil || s.A < 0 || s.B < 0 {
			return nil, fmt.Errorf("%w: step %d is %q; write it as op.A.B with two numbers from 0", ErrPlan, i+1, word)
		}
		if !known(s.Op) {
			return nil, fmt.Errorf("%w: step %d: there is no %q", ErrPlan, i+1, op)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func known(op Op) bool {
	for _, w := range ops() {
		if w.op == op {
			return true
		}
	}
	return false
}

// setup is how a world is built.
type setup struct {
	engines int
	// shared: private requests must not go to this site; silent: it publishes no events.
	shared, silent int
	blocks         int // of each engine's cache
	queue          bool
	outside        bool // there is a provider
	hasty          bool // the gateway has little patience with silence
	gateways       int  // two tell each other of their work
	// blind: no engine has metrics that tell of its process, so that a restart shows in its events alone.
	blind bool
	ranks int // data-parallel, of each engine
	// split: some engines only compute prompts, and some go on from what those have computed.
	split bool
}

// setup is drawn from the seed alone.
func (p Plan) setup() setup {
	rng := rand.New(rand.NewPCG(p.Seed, streamSetup)) //nolint:gosec // as in Draw
	s := setup{engines: 3, shared: 1, silent: 2, blocks: 24 + rng.IntN(80)}
	s.queue, s.outside = rng.IntN(4) == 0, rng.IntN(2) == 0
	s.hasty = rng.IntN(8) == 0
	s.gateways = 1 + rng.IntN(2)
	s.blind = rng.IntN(6) == 0
	s.ranks = 1
	if rng.IntN(4) == 0 {
		s.ranks = 2
	}
	if s.split = rng.IntN(4) == 0; s.split {
		s.engines = len(roles())
	}
	return s
}
