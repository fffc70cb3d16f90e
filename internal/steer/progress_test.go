package steer_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

func TestWorkAheadIsDoneByAndBy(t *testing.T) {
	t.Parallel()
	const ahead = 1000
	ms := time.Millisecond
	for name, c := range map[string]struct {
		requests int
		since    time.Duration
		left     int
	}{
		"just begun":                         {1, 0, ahead},
		"a quarter":                          {1, 250 * ms, 750},
		"should be done: some of it is left": {1, 1000 * ms, 1},
		"late":                               {1, 1400 * ms, 400},
		"so late that it may hang":           {1, 2001 * ms, ahead},
		"no less than it was, ever":          {1, time.Hour, ahead},
		"a quarter of the first of two":      {2, 200 * ms, 800},
		"only the first can be done":         {2, 800 * ms, 200},
		"the first of two is late":           {2, 1200 * ms, 600},
		"the first of nine":                  {9, 1000 * ms / 3, 667},
		"nothing of the other eight":         {9, 2000 * ms / 3, ahead},
	} {
		var r steer.Round
		place := steer.Place{
			Prefilling: c.requests, PrefillTokens: ahead, PrefillPairs: ahead * (ahead + 1) / 2, PrefillFor: c.since,
		}
		choose(&r, 0, place, steer.Place{})
		f := r.Features[0]
		require.InDelta(t, c.left, f.AheadTokens, 1, name)
		require.Positive(t, f.AheadTokens, name)
		require.InDelta(t, float64(c.left)/ahead*float64(place.PrefillPairs), f.AheadPairs, ahead, name)
		require.Equal(t, ahead, r.Candidates[0].PrefillAhead, "what was booked")
		require.Zero(t, r.Features[1].AheadTokens)

		place.PromisedTokens, place.PromisedPairs = 70, 7
		choose(&r, 0, place)
		require.InDelta(t, c.left+70, r.Features[0].AheadTokens, 1, "%s: what waits in the router makes no progress", name)

		r.Objective = &steer.Objective{NoProgress: true}
		choose(&r, 0, place)
		require.Equal(t, ahead+70, r.Features[0].AheadTokens, name)
	}
}

// A worker that hangs is expected to go on hanging. The predictor does not learn
// that from the work.
func TestLate(t *testing.T) {
	t.Parallel()
	var r steer.Round
	q := steer.Prompt{Tokens: 10}
	for _, since := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 200*time.Millisecond + time.Minute} {
		r.Add(&q, &steer.Place{BlockSize: 10, Prefilling: 1, PrefillTokens: 100, PrefillPairs: 5050, PrefillFor: since})
	}
	r.Predict(whole{})
	for i, want := range []struct {
		ahead int
		late  time.Duration
	}{{1, 0}, {100, 0}, {100, time.Minute}} {
		require.Equal(t, want.ahead, r.Features[i].AheadTokens)
		ttft := time.Duration(10+want.ahead)*time.Millisecond + want.late
		c := r.Candidates[i]
		require.Equal(t, []time.Duration{ttft, ttft + time.Second, ttft + time.Hour}, []time.Duration{c.PredictedTTFT, c.PredictedP90, c.PredictedE2E})
	}

	r.Reset() // never is never, however late
	r.Add(&q, &steer.Place{BlockSize: 10, Prefilling: 1, PrefillTokens: 100, PrefillFor: math.MaxInt64})
	r.Predict(whole{})
	c := r.Candidates[0]
	require.Greater(t, min(c.PredictedTTFT, c.PredictedP90, c.PredictedE2E), time.Duration(math.MaxInt64/2))
}

// whole predicts a millisecond for each token, and the rest.
type whole struct{}

func (whole) Predict(in []steer.Features, out []steer.Prediction) {
	prefills{}.Predict(in, out)
	for i := range out {
		out[i].P90, out[i].E2E = out[i].TTFT+time.Second, out[i].TTFT+time.Hour
	}
}

// What was computed behind cached tokens takes longer, and is expected to.
func TestProgressKnowsTheContext(t *testing.T) {
	t.Parallel()
	seen := -1
	var r steer.Round
	q := steer.Prompt{Tokens: 10}
	r.Add(&q, &steer.Place{
		BlockSize: 10, Prefilling: 1, PrefillTokens: 100, PrefillPairs: 100*400 + 100*101/2, PrefillFor: time.Millisecond,
	})
	r.Predict(spy(func(in []steer.Features) {
		if seen < 0 {
			seen = in[0].Cached
		}
	}))
	require.Equal(t, 400, seen)
}

type spy func([]steer.Features)

func (s spy) Predict(in []steer.Features, _ []steer.Prediction) { s(in) }

// Workers that aren't as fast as they are predicted must not be believed to be:
// one that looks idle for the time that it has lost is sent more, and the more
// work that time is counted for, the longer it goes on.
func TestLostTimeIsNoProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every  time.Duration // between two prompts, in the mean
		cached int           // tokens of a thousand, on one of three
		first  lane          // of them
		of     int           // in a hundred wait less
		// than these; at least by the rule before, at most by the one that is
		before, now time.Duration
	}{
		"one stalls for ten seconds": {
			150 * time.Millisecond, 900,
			lane{slower: 1, stalls: 20 * time.Second, until: 30 * time.Second},
			99, 6 * time.Second, 2500 * time.Millisecond,
		},
		"one is at a third of its pace": {
			600 * time.Millisecond, 0,
			lane{slower: 3},
			90, 6500 * time.Millisecond, 5 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(old bool) time.Duration {
				lanes := []*lane{{}, {slower: 1}, {slower: 1}}
				*lanes[0] = c.first
				took := flow(lanes, c.cached, c.every, old)
				slices.Sort(took)
				return took[len(took)*c.of/100]
			}
			require.Greater(t, run(true), c.before)
			require.Less(t, run(false), c.now)
		})
	}
}

// lane is a worker that computes prompts one after the other.
type lane struct {
	slower        int           // times as slow as is predicted
	stalls, until time.Duration // it computes nothing meanwhile
	queue         []queued      // without a first token, the oldest first
	since         time.Duration // the oldest is the oldest
}

type queued struct {
	tokens int
	ends   time.Duration
}

// flow sends prompts of a second each, a tenth of that where most of it is cached,
// to workers that are predicted to take a millisecond a token, and returns how
// long their first tokens took. old lets the rule decide that there was before.
func flow(lanes []*lane, cached int, every time.Duration, old bool) []time.Duration {
	const prompt, block, requests = 1000, 10, 1000
	random := rand.New(rand.NewPCG(1, 1))
	var r steer.Round
	if old {
		o := steer.DefaultObjective()
		o.NoProgress = true
		r.Objective = &o
	}
	var took []time.Duration
	now := time.Duration(0)
	for range requests {
		now += time.Duration(random.ExpFloat64() * float64(every))
		home := random.IntN(len(lanes))
		r.Reset()
		q := steer.Prompt{Tokens: prompt}
		for i, l := range lanes {
			p := l.place(now)
			p.BlockSize, p.Trust, p.Tie = block, kvcache.Exact, random.Uint32()
			if i == home {
				p.Hit = hit(int32(cached / block))
			}
			if old {
				p.PrefillTokens = unbounded(p.PrefillTokens, p.PrefillFor)
			}
			r.Add(&q, &p)
		}
		r.Predict(prefills{})
		r.Choose(&q, policy.Default{})
		i := r.Plan.Order[0]
		took = append(took, lanes[i].take(now, r.Features[i].Uncached)-now)
	}
	return took
}

// unbounded is what the rule that was there before left of work ahead: the time
// spent on the oldest counted for all of it.
func unbounded(tokens int, spent time.Duration) int {
	total := time.Duration(tokens) * time.Millisecond
	if total == 0 || spent > 2*total {
		return tokens
	}
	return max(int((total-spent)/time.Millisecond), 1)
}

// place is what the router sees of l.
func (l *lane) place(now time.Duration) steer.Place {
	for len(l.queue) > 0 && l.queue[0].ends <= now {
		l.since = l.queue[0].ends
		l.queue = l.queue[1:]
	}
	p := steer.Place{Prefilling: len(l.queue)}
	for _, q := range l.queue {
		p.PrefillTokens += q.tokens
		p.PrefillFor = now - l.since
	}
	return p
}

// take queues a prompt and returns when its first token comes.
func (l *lane) take(now time.Duration, tokens int) time.Duration {
	begins := now
	if n := len(l.queue); n > 0 {
		begins = l.queue[n-1].ends
	} else {
		l.since = now
	}
	ends := begins + time.Duration(tokens*l.slower)*time.Millisecond
	if begins < l.until && ends > l.stalls {
		ends += l.until - max(begins, l.stalls)
	}
	l.queue = append(l.queue, queued{tokens, ends})
	return ends
}
