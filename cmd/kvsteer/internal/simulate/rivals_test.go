package simulate

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// state makes a State of workers with blocks of 10 tokens for a call of prompt
// tokens.
func state(prompt int, views ...View) *State {
	index := kvcache.NewIndex(kvcache.Options{})
	call := &Call{Prompt: prompt, Output: 1, Blocks: extend(nil, 10, prompt, kindUnique, 1), Session: 7}
	for i := range views {
		v := &views[i]
		v.Name, v.BlockSize, v.CapacityBlocks, v.index = "worker-"+strconv.Itoa(i), 10, 100, i
		v.Owner = index.Join("w")
		index.SetTrust(v.Owner, kvcache.Exact)
		v.Hit.Blocks = int32(v.CachedBlocks)
		v.CachedTokens = kvcache.CachedTokens(v.CachedBlocks, v.BlockSize, prompt, false)
		if v.Live == nil {
			v.Live = map[uint64]int{}
		}
	}
	return &State{Call: call, Workers: views, Index: index}
}

// picks returns how often each worker is chosen by the rule in 200 picks.
func picks(r Rule, s *State) map[int]int {
	out := map[int]int{}
	for range 200 {
		out[r.Pick(s)]++
	}
	return out
}

func only(i int) map[int]int { return map[int]int{i: 200} }

func TestRivals(t *testing.T) {
	rng := stream(1, 1)
	held := func(s *State, i, blocks int) { // make worker i's tree so many blocks
		chainOf := extend(nil, 10, 10*blocks, kindShared, uint64(i))
		keys := kvcache.Hasher{BlockSize: indexBlock}.Keys(nil, tokensOf(nil, chainOf), kvcache.Scope{}, nil)
		s.Index.Book(s.Workers[i].Owner, keys, time.Hour)
	}
	live := func(blocks ...uint64) map[uint64]int {
		m := map[uint64]int{}
		for _, b := range blocks {
			m[b] = 1
		}
		return m
	}
	call := state(100).Call

	for name, c := range map[string]struct {
		rule  Rule
		state *State
		trees []int // blocks held in the index
		want  map[int]int
	}{
		"least requests": {
			&LeastRequests{rng}, state(100, View{InFlight: 2}, View{InFlight: 1}, View{InFlight: 3}), nil, only(1),
		},
		"power of two, of two": {&PowerOfTwo{rng}, state(100, View{InFlight: 2}, View{InFlight: 1}), nil, only(1)},
		"power of two, one":    {&PowerOfTwo{rng}, state(100, View{InFlight: 2}), nil, only(0)},

		// 80 of 100 tokens are on 0, and nobody is overloaded.
		"sglang: best match": {
			&SGLang{rng}, state(100, View{CachedBlocks: 8, InFlight: 60}, View{CachedBlocks: 2}), nil, only(0),
		},
		// 66 > 64 and 66 > 1.5 x 1.
		"sglang: unbalanced": {
			&SGLang{rng}, state(100, View{CachedBlocks: 8, InFlight: 66}, View{CachedBlocks: 2, InFlight: 1}), nil, only(1),
		},
		// 66 > 64 but 200 < 1.5 x 134: the match counts.
		"sglang: busy but balanced": {
			&SGLang{rng}, state(100, View{CachedBlocks: 8, InFlight: 200}, View{InFlight: 134}), nil, only(0),
		},
		// Half is not more than half: the smallest tree.
		"sglang: smallest tree": {
			&SGLang{rng}, state(100, View{CachedBlocks: 5}, View{}, View{}), []int{5, 3, 4}, only(1),
		},

		// 3*0.5+2*1+2*1 = 5.5 against 3*0+2*1+2*1 = 4.
		"llm-d: prefix": {&LLMD{rng}, state(100, View{CachedBlocks: 5}, View{}), nil, only(0)},
		// 3*0.5+2*0+2*1 = 3.5 against 4.
		"llm-d: queue": {&LLMD{rng}, state(100, View{CachedBlocks: 5, Waiting: 1}, View{}), nil, only(1)},
		// 3*1+2*0+2*1 = 5 against 4.
		"llm-d: whole prefix": {&LLMD{rng}, state(100, View{CachedBlocks: 10, Waiting: 9}, View{}), nil, only(0)},
		// 3*0.5+2*1+2*0.2 = 3.9 against 4.
		"llm-d: memory": {&LLMD{rng}, state(100, View{CachedBlocks: 5, KVUsage: 0.8}, View{}), nil, only(1)},

		// 0: (0+100)/10-5 + 0 + 10 = 15; 1: 10-0 + 10 = 20.
		"dynamo: overlap": {&Dynamo{rng}, state(100, View{CachedBlocks: 5}, View{}), nil, only(0)},
		// 0: (60+100)/10-5 + 10 = 21; 1: 20.
		"dynamo: prefill ahead": {&Dynamo{rng}, state(100, View{CachedBlocks: 5, PrefillTokens: 60}, View{}), nil, only(1)},
		// 0: 5 + 10 live of others + 10 = 25; 1: 20.
		"dynamo: live blocks": {
			&Dynamo{rng}, state(100, View{CachedBlocks: 5, Live: live(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}, View{}), nil, only(1),
		},
		// 0: 5 + 9 live + 1 tail + (10-8 not live) = 17; 1: 20.
		"dynamo: shared blocks once": {
			&Dynamo{rng}, state(100, View{CachedBlocks: 5, Live: live(append([]uint64{1}, call.Blocks[:8]...)...), Tails: 1}, View{}), nil, only(0),
		},
		// 0: 10.5-3 + 1 live + 11 = 19.5; 1: 10.5-1 + 11 = 20.5. A partly filled block
		// is never live.
		"dynamo: overlap outweighs live blocks": {
			&Dynamo{rng}, state(105, View{CachedBlocks: 3, Live: live(1)}, View{CachedBlocks: 1}), nil, only(0),
		},
		// As before with three live blocks: 21.5 against 20.5.
		"dynamo: live blocks outweigh overlap": {
			&Dynamo{rng}, state(105, View{CachedBlocks: 3, Live: live(1, 2, 3)}, View{CachedBlocks: 1}), nil, only(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, n := range c.trees {
				held(c.state, i, n)
			}
			require.Equal(t, c.want, picks(c.rule, c.state))
		})
	}
}

func TestTiesAreBrokenAtRandom(t *testing.T) {
	for name, r := range map[string]Rule{
		"random": &Random{stream(1, 1)}, "least-requests": &LeastRequests{stream(1, 2)},
		"power-of-two": &PowerOfTwo{stream(1, 3)}, "dynamo": &Dynamo{stream(1, 4)}, "llm-d": &LLMD{stream(1, 5)},
		"sglang": &SGLang{stream(1, 6)},
	} {
		got := picks(r, state(100, View{}, View{}, View{}, View{}))
		require.Len(t, got, 4, name)
		for i, n := range got {
			require.InDelta(t, 50, n, 25, "%s chose worker %d", name, i)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	require.Equal(t, map[int]int{0: 67, 1: 67, 2: 66}, picks(&RoundRobin{}, state(100, View{}, View{}, View{})))
}

func TestSessionHash(t *testing.T) {
	s := state(100, View{}, View{}, View{}, View{})
	home := SessionHash{}.Pick(s)
	require.Equal(t, only(home), picks(SessionHash{}, s), "a session has a home")

	// 1.25 x 5 / 4 = 1.6, so 2 is the bound: its home would have 3.
	s.Workers[home].InFlight = 2
	s.Workers[(home+1)%4].InFlight = 2
	second := SessionHash{}.Pick(s)
	require.NotEqual(t, home, second)
	require.Equal(t, 0, s.Workers[second].InFlight)

	seen := map[int]bool{}
	for session := range uint64(100) {
		s := state(100, View{}, View{}, View{}, View{})
		s.Call.Session = session
		seen[SessionHash{}.Pick(s)] = true
	}
	require.Len(t, seen, 4, "sessions spread")
}
