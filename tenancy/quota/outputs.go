package quota

import (
	"maps"
	"slices"
	"sync"
)

// Outputs learns how long answers are, by tenant and model, so that what is reserved
// for one is neither a guess nor the client's limit. The zero value is ready. Safe for
// concurrent use.
type Outputs struct {
	// Unknown is taken for an answer's length where nothing is known yet, in tokens. 0
	// means 512. It must not be changed after the first use.
	Unknown int64

	mu    sync.Mutex
	pairs map[outputsOf]*lengths
	gone  int // pairs that were forgotten since the map was made
}

type outputsOf struct{ tenant, model string }

const (
	defaultUnknown = 512
	// remembered is of how many answers the 95th percentile is taken.
	remembered = 64
	// enough is from how many answers on it says more than the model's other tenants do.
	enough = 8
	// maxPairs bounds the memory, to some 5 MB.
	maxPairs = 8192
)

// lengths are those of the last answers.
type lengths struct {
	last   [remembered]uint32
	n      int // all that there were
	sorted [remembered]uint32
}

// p95 is such that one in twenty of the remembered answers is longer.
func (l *lengths) p95() int64 {
	n := min(l.n, remembered)
	return int64(l.sorted[(n-1)*95/100]) //nolint:mnd // percent
}

func (l *lengths) add(tokens uint32) {
	n := min(l.n, remembered)
	sorted := l.sorted[:n]
	if l.n >= remembered {
		at, _ := slices.BinarySearch(sorted, l.last[l.n%remembered])
		sorted = slices.Delete(sorted, at, at+1)
	}
	at, _ := slices.BinarySearch(sorted, tokens)
	_ = slices.Insert(sorted, at, tokens) // in place: the array has room
	l.last[l.n%remembered] = tokens
	l.n++
}

// Estimate is how many tokens to reserve for the answers to a request of n answers of
// at most limit tokens each (0 or less means no limit): the 95th percentile of what the
// tenant's answers from the model were lately, or else the model's, never more than the
// limit.
func (o *Outputs) Estimate(tenant, model string, limit int64, n int) int64 {
	one := o.length(tenant, model)
	if limit > 0 {
		one = min(one, limit)
	}
	return clamp(one) * int64(min(max(n, 1), maxChoices))
}

// maxChoices bounds n, as OpenAI's API does.
const maxChoices = 128

func (o *Outputs) length(tenant, model string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.pairs[outputsOf{tenant, model}]; l != nil && l.n >= enough {
		return l.p95()
	}
	if l := o.pairs[outputsOf{"", model}]; l != nil && l.n >= enough {
		return l.p95()
	}
	if o.Unknown > 0 {
		return o.Unknown
	}
	return defaultUnknown
}

// Learn takes in how long an answer was. Answers that were broken off say nothing and
// must not be given.
func (o *Outputs) Learn(tenant, model string, tokens int64) {
	n := uint32(clamp(min(tokens, 1<<31)))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(outputsOf{"", model}).add(n) // first: it is what a new tenant goes by
	if tenant != "" {
		o.of(outputsOf{tenant, model}).add(n)
	}
}

func (o *Outputs) of(p outputsOf) *lengths {
	l := o.pairs[p]
	if l != nil {
		return l
	}
	if o.pairs == nil {
		o.pairs = map[outputsOf]*lengths{}
	}
	for k := range o.pairs {
		if len(o.pairs) < maxPairs {
			break
		}
		delete(o.pairs, k) // any: it is learned again
		o.gone++
	}
	if o.gone >= maxPairs {
		// A map grows though what is in it is only exchanged, by a third with a hundred times as many.
		fresh := make(map[outputsOf]*lengths, maxPairs)
		maps.Copy(fresh, o.pairs)
		o.pairs, o.gone = fresh, 0
	}
	l = &lengths{}
	o.pairs[p] = l
	return l
}
