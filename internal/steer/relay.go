package steer

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// Relay is a worker that could compute a prompt for another to go on from.
type Relay struct {
	// By is the candidate, as it was predicted and chosen in a Round of its own.
	By *policy.Candidate
	// Pace is the tokens per second that are handed over; 0 takes no time.
	Pace float64
	// Wide is what [Joint] has learned of both together; 0 is nothing.
	Wide float64
}

// wide is by how much both together are late at most, in nine of ten cases.
func (l *Relay) wide(first, second time.Duration) time.Duration {
	d := both(first, second)
	if l.Wide > 0 {
		d = times(d, l.Wide)
	}
	return d
}

// over is the time that handing over takes.
func (l *Relay) over(tokens int) time.Duration {
	if l.Pace <= 0 {
		return 0
	}
	return time.Duration(float64(tokens) / l.Pace * float64(time.Second))
}

// What ends the class of hardware where a request is served by two workers. Who only
// computes prompts is not held up by answers, and who fetches one computes next to
// nothing: each is learned apart.
const (
	computing = " (prefill)"
	relayed   = " (relayed)"
)

// class is what times are learned of together, on a class of hardware.
func (q *Prompt) class(hardware string) string {
	if q.Prefill {
		return hardware + computing
	}
	return hardware
}

// few observations say less of a leg than all that its hardware has done.
const few = 20

// untried predicts what was hardly observed yet by what is known of the hardware: who
// looks slow would never be tried.
func (r *Round) untried(p Predictor, features []Features) {
	if !r.computes && len(r.ways) == 0 {
		return
	}
	again := false
	r.whole = append(r.whole[:0], features...)
	for i := range r.whole {
		f := &r.whole[i]
		hardware := strings.TrimSuffix(strings.TrimSuffix(f.Class, computing), relayed)
		if hardware != f.Class && r.Predictions[i].Observations < few {
			f.Class, again = hardware, true
		}
	}
	if again {
		clear(r.Predictions)
		p.Predict(r.whole, r.Predictions)
	}
}

// beside is a rank that could compute the prompt itself, and answer.
type beside struct{ queued, running, wanting int }

// Beside takes in such a rank, in a round of those that compute the prompt for another.
func (r *Round) Beside(p *Place) {
	r.beside = append(r.beside, beside{
		queued: p.Prefilling + p.OtherWaiting, running: p.Decoding + p.OtherRunning, wanting: p.Wanting + p.Coming,
	})
}

// instead is the least that a second of computing the prompt would cost others beside the
// candidates. Theirs costs no more: who comes while they are at it can go there.
func (r *Round) instead(o *Objective) float64 {
	least := math.Inf(1)
	if len(r.beside) == 0 {
		return least
	}
	fewest := slices.MinFunc(r.beside, func(a, b beside) int { return a.queued - b.queued }).queued
	for _, b := range r.beside {
		least = min(least, o.others(b.running, b.wanting, float64(max(fewest, 0))))
	}
	return least
}

// way is another way to serve a prompt with a candidate: it goes on from what Relay
// has computed.
type way struct {
	of    int // index of the candidate
	ready int // tokens that need not be computed then
}

// follows notes that the candidate that was just added could go the other way: all
// but the last block's tokens come from the other worker.
func (r *Round) follows(q *Prompt, p *Place) {
	if p.Follows && r.Relay != nil {
		r.ways = append(r.ways, way{
			of:    len(r.Candidates) - 1,
			ready: kvcache.CachedTokens(q.Tokens, p.BlockSize, q.Tokens, p.Speculative),
		})
	}
}

// addWays puts what is known of the other ways behind what is known of candidates.
func (r *Round) addWays() {
	for _, w := range r.ways {
		f := r.Features[w.of]
		total := f.Cached + f.Uncached
		f.Cached = max(w.ready, f.Cached)
		f.Uncached = max(total-f.Cached, 0)
		f.Class += relayed
		r.Features = append(r.Features, f)
	}
}

// takeWays lets each candidate go the faster of its two ways. fill writes a
// prediction into what stands for the i-th candidate.
func (r *Round) takeWays(fill func(i int, c *policy.Candidate, expected *Prediction)) {
	n := len(r.Candidates)
	r.fetching = slices.Grow(r.fetching[:0], n)[:n]
	clear(r.fetching)
	for k, w := range r.ways {
		c := &r.Candidates[w.of]
		other, by := *c, r.Relay.By
		fill(w.of, &other, &r.Predictions[n+k])
		// Tokens that are here already are not fetched.
		over := r.Relay.over(r.Features[n+k].Cached - r.Features[w.of].Cached)
		before := plus(by.PredictedTTFT, over)
		other.PrefillOn = by.Name
		other.PredictedTTFT = plus(other.PredictedTTFT, before)
		other.Externality = plus(other.Externality, by.Externality)
		if other.PredictedP90 > 0 {
			own := other.PredictedP90 - (other.PredictedTTFT - before)
			other.PredictedP90 = plus(other.PredictedTTFT, r.Relay.wide(own, by.PredictedP90-by.PredictedTTFT))
		}
		if other.PredictedE2E > 0 {
			other.PredictedE2E = plus(other.PredictedE2E, before)
		}
		if other.Objective() < c.Objective() {
			*c, r.fetching[w.of] = other, over
			r.Features[w.of], r.Predictions[w.of] = r.Features[n+k], r.Predictions[n+k]
		}
	}
	r.Features, r.Predictions = r.Features[:n], r.Predictions[:n]
}

// Fetching is how long candidate i is expected to fetch what another worker has
// computed; 0 if it computes the prompt itself.
func (r *Round) Fetching(i int) time.Duration {
	if i < len(r.fetching) {
		return r.fetching[i]
	}
	return 0
}

// Fetched is how long a candidate took for what it did itself, if it took so long and was
// expected to fetch for so long of it. The prediction adds the time of fetching, so the
// predictor is not to learn it.
func Fetched(took, fetching time.Duration) time.Duration {
	if fetching <= 0 {
		return max(took, 1)
	}
	return max(took-fetching, time.Millisecond)
}

// both is by how much two things together are late at most, in nine of ten cases, of
// which each is that late: rarely both at a time.
func both(a, b time.Duration) time.Duration {
	return time.Duration(math.Hypot(float64(max(a, 0)), float64(max(b, 0))))
}

// plus adds times without overflow.
func plus(a, b time.Duration) time.Duration {
	if sum := a + b; a <= 0 || b <= 0 || sum > 0 {
		return sum
	}
	return math.MaxInt64
}
