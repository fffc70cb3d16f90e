package policy

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
)

// stage is compiled from a [Stage].
type stage struct {
	kind   BackendKind
	metric Metric
	order  []string
	shares []share
	lead   *lead
	text   string
}

// share is compiled from a [Share].
type share struct {
	model, name string
	labels      []label
	weight      uint64
}

func (s *share) takes(c *Candidate) bool {
	return (s.model == "" || c.Model == s.model) && (s.name == "" || c.Name == s.name) && haveAll(c.Labels, s.labels)
}

// lead is compiled from a [Margin].
type lead struct {
	by      time.Duration
	percent float64
}

// met reports whether x is faster than best by the margin. Than a time that nobody
// knows nothing is.
func (m *lead) met(x, best float64) bool {
	const whole = 100
	return !math.IsInf(best, 1) && x <= best-float64(m.by) && x <= best*(1-m.percent/whole)
}

// sortKey is what a candidate is sorted by first, within a stage; it is small because
// sorting moves it about. What else counts is looked up.
type sortKey struct {
	// rank is the most important: see below.
	rank  uint32
	index int32
	// value grows with what is minimised.
	value uint64
}

// A rank is, from its highest bits: whether switchOnlyIf holds the candidate back,
// whether its share was drawn, the place of its name in a preference list.
const (
	shiftBack  = 31
	shiftShare = 29

	shareMask    = 3
	shareDrawn   = 0
	shareOther   = 1
	shareWithout = 2 // with no weight
)

// place reports whether the stage takes a candidate, as which place of the order and
// which share.
func (s *stage) place(c *Candidate) (place, shareOf int, ok bool) {
	if !s.kind.takes(c.Type) {
		return 0, 0, false
	}
	if len(s.order) > 0 {
		if place = slices.Index(s.order, c.Name); place < 0 {
			return 0, 0, false
		}
	}
	if len(s.shares) > 0 {
		if shareOf = s.share(c); shareOf < 0 {
			return 0, 0, false
		}
	}
	return place, shareOf, true
}

// share is the first share that takes c, -1 if none does.
func (s *stage) share(c *Candidate) int {
	for i := range s.shares {
		if s.shares[i].takes(c) {
			return i
		}
	}
	return -1
}

// of is the metric of a candidate, infinite where nobody knows it.
func (m Metric) of(c *Candidate) float64 {
	switch m {
	case PredictedE2E:
		if c.PredictedE2E <= 0 {
			return math.Inf(1)
		}
		return float64(c.PredictedE2E)
	case QueuedPrompts:
		return float64(c.Queued)
	case KVCacheUsage:
		return c.KVUsage
	case Cost:
		if !c.PriceKnown {
			return math.Inf(1)
		}
		return c.Price
	case PredictedTTFT:
		return float64(c.Objective())
	default:
		return 0
	}
}

const signBit = 1 << 63

// value grows with the metric of a candidate.
func (m Metric) value(c *Candidate) uint64 {
	if m == PredictedTTFT { // exactly
		return uint64(c.Objective()) ^ signBit
	}
	x := m.of(c) + 0   // there is one zero
	if math.IsNaN(x) { // as what nobody knows, whatever its sign
		x = math.Inf(1)
	}
	bits := math.Float64bits(x)
	if bits&signBit != 0 {
		return ^bits
	}
	return bits | signBit
}

// keyOf is the key of a candidate by the metric alone.
func keyOf(m Metric, c *Candidate, i int) sortKey {
	return sortKey{index: int32(i), value: m.value(c)}
}

// sortKeys sorts by the keys, then by predicted TTFT, and equal ones as [Default] does.
func sortKeys(keys []sortKey, candidates []Candidate) {
	slices.SortFunc(keys, func(a, b sortKey) int {
		if a.rank != b.rank {
			return cmp.Compare(a.rank, b.rank)
		}
		if a.value != b.value {
			return cmp.Compare(a.value, b.value)
		}
		x, y := &candidates[a.index], &candidates[b.index]
		return cmp.Or(
			cmp.Compare(x.Objective(), y.Objective()),
			cmp.Compare(x.InFlight, y.InFlight),
			cmp.Compare(x.Tie, y.Tie),
			cmp.Compare(a.index, b.index),
		)
	})
}

// rank completes the keys of a stage with what the metric does not say.
func (s *stage) rank(req *Request, candidates []Candidate, sc *scratch) {
	if len(s.shares) > 0 {
		s.split(req.Draw, sc)
	}
	if s.lead != nil {
		s.holdBack(req, candidates, sc.keys)
	}
}

// split draws a share. One without candidates is not drawn: the others take over its
// part by their weights, and those that another share was drawn for keep theirs.
func (s *stage) split(draw uint64, sc *scratch) {
	sc.weights = sc.weights[:0]
	for i := range s.shares {
		sc.weights = append(sc.weights, s.shares[i].weight)
	}
	drawn := -1
	for state := draw; drawn < 0; {
		var total uint64
		for _, w := range sc.weights {
			total += w
		}
		if total == 0 {
			break
		}
		state += golden
		at, _ := bits.Mul64(mix(state), total)
		k := 0
		for at >= sc.weights[k] {
			at -= sc.weights[k]
			k++
		}
		if slices.Contains(sc.members, k) {
			drawn = k
		}
		sc.weights[k] = 0
	}
	for i := range sc.keys {
		which := uint32(shareOther)
		switch k := sc.members[i]; {
		case k == drawn:
			which = shareDrawn
		case s.shares[k].weight == 0:
			which = shareWithout
		}
		sc.keys[i].rank |= which << shiftShare
	}
}

// golden and mix are SplitMix64: numbers in a row give numbers that look like drawn.
const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// holdBack puts candidates of other models that are not faster than the best of the
// requested one by the margin behind all others.
func (s *stage) holdBack(req *Request, candidates []Candidate, keys []sortKey) {
	best, found := math.Inf(1), false
	for i := range keys {
		if c := &candidates[keys[i].index]; c.Model == req.Model {
			best, found = min(best, s.time(c)), true
		}
	}
	if !found {
		return
	}
	for i := range keys {
		if c := &candidates[keys[i].index]; c.Model != req.Model && !s.lead.met(s.time(c), best) {
			keys[i].rank |= 1 << shiftBack
		}
	}
}

// time is what the margin is about: predicted TTFT, or E2E if that is minimised.
func (s *stage) time(c *Candidate) float64 {
	if s.metric == PredictedE2E {
		return s.metric.of(c)
	}
	return float64(c.PredictedTTFT)
}
