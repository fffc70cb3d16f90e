package simulate

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Call is one request of a workload. It is immutable once made, so that runs can
// share it.
type Call struct {
	// At is when a trace says that the call came; zero in other workloads.
	At time.Duration
	// Prompt and Output are in tokens, at least 1.
	Prompt, Output int
	// Blocks identifies the full blocks in order, each together with all before
	// it. Those beyond the prompt name what the answer fills, where a later call
	// can reuse it.
	Blocks []uint64
	// Session identifies the conversation, or what stands for it.
	Session uint64
	// Tenant is whose call it is, for the rules that let tenants share.
	Tenant string
}

// Workload yields conversations: calls of which each is made when the one before
// it has been answered. It is not safe for concurrent use.
type Workload struct {
	Name string
	// SLO is the time to first token within which a request counts as good.
	SLO time.Duration
	// Trace: At of the calls is meaningful, and Session yields them in its order.
	Trace bool
	// Last is when a trace's last call comes.
	Last time.Duration
	// Turns is the calls of a session, to turn a rate of calls into one of sessions.
	Turns int
	rng   *rand.Rand
	// Session returns the next conversation, nil at the end. Without Trace it
	// never ends.
	Session func() []*Call
}

// Reseed makes what the workload draws at random a function of seed.
func (w *Workload) Reseed(seed uint64) { w.rng = stream(seed, streamWorkload) }

// chain identifies a block with all before it.
func chain(parent, id uint64) uint64 {
	h := parent ^ (id+1)*0x9e3779b97f4a7c15
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// Kinds of block, so that equal numbers of different kinds differ.
const (
	kindShared uint64 = iota + 1
	kindUnique
	kindTrace
)

// extend appends the chain of the blocks that lie within n tokens. Blocks before
// shared tokens are all of kind and id, those after it of the caller's own id.
func extend(chainSoFar []uint64, blockSize, n int, kind, id uint64) []uint64 {
	parent := uint64(0)
	if k := len(chainSoFar); k > 0 {
		parent = chainSoFar[k-1]
	}
	for i := len(chainSoFar); (i+1)*blockSize <= n; i++ {
		parent = chain(parent, chain(chain(kind, id), uint64(i)))
		chainSoFar = append(chainSoFar, parent)
	}
	return chainSoFar
}

// The published benchmark's sizes, in tokens.
const (
	prefixes     = 24
	prefixTokens = 16_000
	uniqueTokens = 256
	answerTokens = 256
	firstTurn    = 8_000
	perTurn      = 400
	turns        = 8

	hotTokens     = 500
	systemTokens  = 4_096
	taskTokens    = 2_048
	leastSteps    = 3
	mostSteps     = 20
	mostStep      = 3_072
	mostAnswer    = 400
	shortestStep  = 512
	shortestReply = 20
	leastLong     = 4_096
	mostLong      = 28_672
	leastReport   = 128
	mostReport    = 512

	sloShared = 8 * time.Second
	sloTurns  = 4 * time.Second
)

// SharedPrefix is one of 24 prefixes of 16,000 tokens, each as likely, and 256
// tokens of the request's own; 256 tokens are generated.
func SharedPrefix(blockSize int, rng *rand.Rand) *Workload {
	next := uint64(0)
	w := &Workload{Name: "shared-prefix", SLO: sloShared, Turns: 1, rng: rng}
	w.Session = func() []*Call {
		next++
		which := w.rng.Uint64N(prefixes)
		blocks := extend(nil, blockSize, prefixTokens, kindShared, which)
		blocks = extend(blocks, blockSize, prefixTokens+uniqueTokens, kindUnique, next)
		return []*Call{{
			Prompt: prefixTokens + uniqueTokens, Output: answerTokens, Blocks: blocks, Session: chain(kindShared, which),
		}}
	}
	return w
}

// MultiTurn is conversations of 8 turns that start with 8,000 tokens and grow by
// 400 a turn, of which 256 are the answer before.
func MultiTurn(blockSize int, _ *rand.Rand) *Workload {
	next := uint64(0)
	return &Workload{Name: "multi-turn", SLO: sloTurns, Turns: turns, Session: func() []*Call {
		next++
		calls := make([]*Call, turns)
		whole := extend(nil, blockSize, firstTurn+turns*perTurn, kindUnique, next)
		for i := range calls {
			prompt := firstTurn + i*perTurn
			calls[i] = &Call{
				Prompt: prompt, Output: answerTokens, Blocks: whole[:(prompt+answerTokens)/blockSize],
				Session: chain(kindUnique, next),
			}
		}
		return calls
	}}
}

// HotPrefix is the same 16,000 tokens in all requests and 500 of each one's own:
// more of it than one worker can do must spread, and soon.
func HotPrefix(blockSize int, _ *rand.Rand) *Workload {
	next := uint64(0)
	prefix := extend(nil, blockSize, prefixTokens, kindShared, 0)
	return &Workload{Name: "hot-prefix", SLO: sloTurns, Turns: 1, Session: func() []*Call {
		next++
		n := prefixTokens + hotTokens
		return []*Call{{
			Prompt: n, Output: answerTokens, Session: chain(kindShared, 0),
			Blocks: extend(slices.Clone(prefix), blockSize, n, kindUnique, next),
		}}
	}}
}

// Agents are sessions of 3 to 20 calls, each made as soon as the one before has been
// answered: a system prompt of 4,096 tokens that all share, 2,048 of the task, and
// 512 to 3,072 more with every call.
func Agents(blockSize int, rng *rand.Rand) *Workload {
	next := uint64(0)
	w := &Workload{Name: "agents", SLO: sloTurns, Turns: (leastSteps + mostSteps) / 2, rng: rng}
	system := extend(nil, blockSize, systemTokens, kindShared, 0)
	w.Session = func() []*Call {
		next++
		calls := make([]*Call, leastSteps+w.rng.IntN(mostSteps-leastSteps+1))
		prompt := systemTokens + taskTokens
		for i := range calls {
			calls[i] = &Call{Prompt: prompt, Output: shortestReply + w.rng.IntN(mostAnswer-shortestReply), Session: chain(kindUnique, next)}
			prompt += calls[i].Output + shortestStep + w.rng.IntN(mostStep-shortestStep)
		}
		whole := extend(slices.Clone(system), blockSize, prompt, kindUnique, next)
		for _, c := range calls {
			c.Blocks = whole[:(c.Prompt+c.Output)/blockSize]
		}
		return calls
	}
	return w
}

// LongPrompts is 4,096 to 28,672 tokens, of which all requests share the first 500, and
// answers of 128 to 512: documents that are asked about once.
func LongPrompts(blockSize int, rng *rand.Rand) *Workload {
	next := uint64(0)
	w := &Workload{Name: "long-prompts", SLO: sloShared, Turns: 1, rng: rng}
	prefix := extend(nil, blockSize, hotTokens, kindShared, 0)
	w.Session = func() []*Call {
		next++
		n := leastLong + w.rng.IntN(mostLong-leastLong+1)
		return []*Call{{
			Prompt: n, Output: leastReport + w.rng.IntN(mostReport-leastReport+1), Session: chain(kindUnique, next),
			Blocks: extend(slices.Clone(prefix), blockSize, n, kindUnique, next),
		}}
	}
	return w
}

// Control is 16,256 tokens that no other request shares.
func Control(blockSize int, _ *rand.Rand) *Workload {
	next := uint64(0)
	return &Workload{Name: "control", SLO: sloShared, Turns: 1, Session: func() []*Call {
		next++
		n := prefixTokens + uniqueTokens
		return []*Call{{
			Prompt: n, Output: answerTokens, Session: chain(kindUnique, next),
			Blocks: extend(nil, blockSize, n, kindUnique, next),
		}}
	}}
}
