package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// variant makes the product with parameters, name=value separated by "+", to
// try out objectives:
//
//	externality   weight of the request's own prefill as a cost to others
//	evict         weight of what the prefill pushes out of a full cache, as a share
//	              of recomputing it
//	spread        weight of computing what another worker has cached
//	arrivals      weight of the delay to those expected to come meanwhile
func variant(params string, seed uint64) (Rule, error) {
	r := NewSteer(seed)
	if params == "" {
		return r, nil
	}
	w := map[string]float64{"externality": 1, "evict": 0, "spread": 0, "arrivals": 0, "oracle": 0, "decode": 0, "hold": 0, "age": 0.1}
	for p := range strings.SplitSeq(params, "+") {
		name, value, _ := strings.Cut(p, "=")
		v, err := strconv.ParseFloat(value, 64)
		if _, ok := w[name]; !ok || err != nil {
			return nil, fmt.Errorf("no parameter %q of kvsteer", p)
		}
		w[name] = v
	}
	r.Predictor = kvsteer.NewPredictor(kvsteer.PredictorOptions{ExternalityWeight: 1})
	gap := 1.0 // seconds between arrivals, decaying
	var last time.Duration
	const memory = 0.02
	r.Adjust = func(s *State, c *policy.Candidate, v *View) {
		own := c.Externality.Seconds() // weight 1: the prefill itself
		cost := w["externality"] * own
		if w["oracle"] > 0 {
			c.PredictedTTFT = trueTTFT(s, v.index)
		}
		if w["evict"] > 0 && float64(s.Index.OwnerStats(v.Owner).Pairs) > 0.95*float64(v.CapacityBlocks) {
			cost += w["evict"] * own
		}
		if w["spread"] > 0 {
			most := 0
			for i := range s.Workers {
				most = max(most, s.Workers[i].CachedTokens)
			}
			if n := s.Call.Prompt - v.CachedTokens; n > 0 {
				cost += w["spread"] * own * float64(most-v.CachedTokens) / float64(n)
			}
		}
		if w["arrivals"] > 0 {
			if v.index == 0 {
				gap += memory * ((s.Now - last).Seconds() - gap)
				last = s.Now
			}
			rate := 1 / max(gap, 1e-3) / float64(len(s.Workers))
			cost += w["arrivals"] * own * rate * c.PredictedTTFT.Seconds()
		}
		if w["decode"] > 0 {
			cost += w["decode"] * own * float64(v.Decoding)
		}
		c.Externality = time.Duration(cost * float64(time.Second))
	}
	if w["hold"] > 0 {
		return &Late{Steer: r, Hold: w["hold"], Age: w["age"]}, nil
	}
	return r, nil
}
