package policytest

import (
	"errors"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// Fuzz lets go test -fuzz look for a request and up to eight candidates for which the
// property fails: beside what [Kit.Invariant] tries, numbers far from any threshold and
// more candidates at once. Under plain go test its seeds are run.
func (k *Kit) Fuzz(f *testing.F, holds Property) {
	f.Helper()
	for _, seed := range []string{"", "\x01", "\x00\x01\x02\x03\x04\x05\x06\x07", "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5\xf4\xf3\xf2"} {
		f.Add([]byte(seed))
	}
	decode := k.Decoder()
	f.Fuzz(func(t *testing.T, data []byte) {
		req, candidates := decode(data)
		o := evaluate(k.set, req, candidates)
		if err := holds(o); err != nil && !errors.Is(err, ErrUnconcerned) {
			t.Errorf("policytest: %v\n%s", err, o)
		}
	})
}

// Decoder makes requests and candidates of bytes, for fuzz tests of your own: of what
// the policy mentions, of what it does not, and of any numbers. The same bytes always
// make the same.
func (k *Kit) Decoder() func(data []byte) (policy.Request, []policy.Candidate) {
	m := k.set.Mentions()
	requests, variants := axesOf(m), variantsOf(m)
	worker, provider := unmentioned("worker", m.Names), unmentioned("provider", m.Names)
	return func(data []byte) (policy.Request, []policy.Candidate) {
		d := bytesLeft(data)
		req := policy.Request{
			Model: unmentioned(otherModel, m.Models), API: "chat", PromptTokens: int(d.number()), Attempt: 1 + d.below(3), Draw: d.number(),
		}
		for _, axis := range requests {
			if c := axis[d.below(len(axis))]; c.apply != nil {
				c.apply(&req)
			}
		}
		models := k.set.Models(&req, nil)
		var list []policy.Candidate
		const most = 8
		for n := d.below(most + 1); n > 0 && len(models) > 0; n-- {
			list = append(list, d.candidate(worker, provider, models, variants))
		}
		return req, list
	}
}

// bytesLeft are what is left to make something of; behind the end there are zeros.
type bytesLeft []byte

func (d *bytesLeft) byte() byte {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return b
}

// below is a number from 0 to n-1.
func (d *bytesLeft) below(n int) int { return int(d.byte()) % max(n, 1) }

// number is of any size, small ones more often.
func (d *bytesLeft) number() uint64 {
	const size, bits = 4, 8
	var n uint64
	for range d.below(size) {
		n = n<<bits | uint64(d.byte())
	}
	return n
}

func (d *bytesLeft) candidate(worker, provider string, models []string, variants [][]variant) policy.Candidate {
	const whole = 255
	model := models[d.below(len(models))]
	c := Worker(worker, model)
	if d.below(2) == 1 {
		c = Provider(provider, model)
	}
	c.Queued, c.Running, c.CachedTokens = int(d.number()), int(d.number()), int(d.number())
	c.KVUsage, c.RemainingQuota = float64(d.byte())/whole, float64(d.byte())/whole
	c.PredictedTTFT, c.PredictedE2E = time.Duration(d.number())*time.Microsecond, time.Duration(d.number())*time.Microsecond
	c.Externality = time.Duration(d.number()) * time.Microsecond
	c.Trust = kvcache.Trust(d.below(int(kvcache.Exact) + 1))
	c.Tie = uint32(d.number())
	for _, axis := range variants {
		if v := axis[d.below(len(axis))]; v.apply != nil {
			v.apply(&c)
		}
	}
	return c
}
