package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// experiment changes the product's objective to see what a change is worth. Each
// weight multiplies the time that computing the request's own uncached tokens
// takes.
type experiment struct {
	// externality is the cost to whoever comes behind; the product has 1.
	externality float64
	// evict counts what the prefill pushes out of a cache that is full.
	evict float64
	// spread counts the part that another worker has cached.
	spread float64
	// arrivals counts the calls that are expected to come before the first token.
	arrivals float64
	// queue counts the requests without a first token on the average worker: by
	// Little's law so many come while one waits.
	queue float64
	// decode counts the requests that decode there.
	decode float64
	// oracle, if positive, replaces the predictor by the truth.
	oracle float64
	// progress, if positive, takes off the prefill ahead what the time since it
	// began must have done.
	progress float64
	// hold is the predicted wait in seconds up to which a call is bound; above it
	// the call waits in the router. 0 binds at once, like the product. age is the
	// seconds of work that a second of waiting outweighs.
	hold, age float64

	gap  float64 // between arrivals, in seconds, decaying
	last time.Duration
}

func (x *experiment) parameters() map[string]*float64 {
	return map[string]*float64{
		"externality": &x.externality, "evict": &x.evict, "spread": &x.spread, "arrivals": &x.arrivals,
		"queue": &x.queue, "decode": &x.decode, "oracle": &x.oracle, "hold": &x.hold, "age": &x.age,
		"progress": &x.progress,
	}
}

// variant makes the product with parameters: name=value, separated by "+".
func variant(params string, seed uint64) (Rule, error) {
	r := NewSteer(seed)
	if params == "" {
		return r, nil
	}
	x := &experiment{externality: 1}
	known := x.parameters()
	for p := range strings.SplitSeq(params, "+") {
		name, value, _ := strings.Cut(p, "=")
		v, err := strconv.ParseFloat(value, 64)
		if known[name] == nil || err != nil || v < 0 {
			return nil, fmt.Errorf("kvsteer has no parameter %q; there are %s, each with a number",
				p, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		*known[name] = v
	}
	r.Predictor = kvsteer.NewPredictor(kvsteer.PredictorOptions{ExternalityWeight: 1})
	r.Adjust = x.adjust
	if x.progress > 0 {
		r.Refine = func(s *State, f *kvsteer.Features, v *View) { refine(r.Predictor, s, f, v) }
	}
	if x.hold > 0 {
		return newLate(r, x.hold, x.age), nil
	}
	return r, nil
}

const (
	// fullCache is the share of a cache from which on it counts as full.
	fullCache = 0.95
	// gapMemory is the weight of the newest gap between arrivals.
	gapMemory = 0.02
)

func (x *experiment) adjust(s *State, c *policy.Candidate, v *View) {
	own := c.Externality.Seconds() // the predictor's weight is 1
	weight := x.externality + x.decode*float64(v.Decoding)
	if x.oracle > 0 {
		c.PredictedTTFT = trueTTFT(s, v.index)
	}
	if x.evict > 0 && float64(s.Index.OwnerStats(v.Owner).Pairs) > fullCache*float64(v.CapacityBlocks) {
		weight += x.evict
	}
	if uncached := s.Call.Prompt - v.CachedTokens; x.spread > 0 && uncached > 0 {
		most := 0
		for i := range s.Workers {
			most = max(most, s.Workers[i].CachedTokens)
		}
		weight += x.spread * float64(most-v.CachedTokens) / float64(uncached)
	}
	if x.queue > 0 {
		waiting := 0
		for i := range s.Workers {
			waiting += s.Workers[i].Prefilling
		}
		weight += x.queue * float64(waiting) / float64(len(s.Workers))
	}
	if x.arrivals > 0 {
		if v.index == 0 {
			x.gap += gapMemory * ((s.Now - x.last).Seconds() - x.gap)
			x.last = s.Now
		}
		rate := 1 / max(x.gap, time.Millisecond.Seconds()) / float64(len(s.Workers))
		weight += x.arrivals * rate * c.PredictedTTFT.Seconds()
	}
	c.Externality = time.Duration(weight * own * float64(time.Second))
}

// lateFactor is how many times the predicted time a worker may take before it is
// not believed to make progress: one that hangs must not look idle.
const lateFactor = 2

// refine scales the work ahead down by the share of it that is done by now: the
// time since it began over the time that it takes at the pace at which the
// predictor expects the call's own prompt to be computed.
func refine(p kvsteer.Predictor, s *State, f *kvsteer.Features, v *View) {
	if f.AheadTokens == 0 {
		return
	}
	tokens := float64(f.AheadTokens)
	ahead := *f
	ahead.Uncached = f.AheadTokens
	ahead.Cached = int(max(f.AheadPairs-tokens*(tokens+1)/2, 0) / tokens)
	out := [1]kvsteer.Prediction{}
	p.Predict([]kvsteer.Features{ahead}, out[:])
	total := out[0].Prefill.Seconds()
	if total <= 0 {
		return
	}
	spent := (s.Now - v.PrefillSince).Seconds()
	if spent > lateFactor*total {
		return
	}
	left := 1 - min(spent/total, 1)
	f.AheadTokens = int(left * tokens)
	f.AheadPairs *= left
}
