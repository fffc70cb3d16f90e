package policytest

import (
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// Worker is a local worker as a policy sees it: it serves the model, is idle, and is
// expected to answer in 100 ms. Each change is made to it.
func Worker(name, model string, change ...func(*policy.Candidate)) policy.Candidate {
	c := policy.Candidate{
		Name: name, Instance: name + "@1", Type: policy.Local, Model: model,
		PredictedTTFT: 100 * time.Millisecond, PredictedE2E: time.Second, Trust: kvcache.Exact,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// Provider is an external provider likewise: it is expected to answer in 500 ms, for
// a cent, and has its whole quota left.
func Provider(name, model string, change ...func(*policy.Candidate)) policy.Candidate {
	c := policy.Candidate{
		Name: name, Instance: name, Type: policy.Provider, Model: model,
		PredictedTTFT: 500 * time.Millisecond, PredictedE2E: 2 * time.Second,
		Price: 0.01, PriceKnown: true, RemainingQuota: 1, QuotaKnown: true,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// Queued lets n prompts wait at a candidate.
func Queued(n int) func(*policy.Candidate) {
	return func(c *policy.Candidate) { c.Queued = n }
}

// TTFT makes a candidate answer after d.
func TTFT(d time.Duration) func(*policy.Candidate) {
	return func(c *policy.Candidate) { c.PredictedTTFT = d }
}

// KVUsage is the share of a candidate's KV cache that is in use, 0 to 1.
func KVUsage(share float64) func(*policy.Candidate) {
	return func(c *policy.Candidate) { c.KVUsage = share }
}

// Label gives a candidate a label.
func Label(name, value string) func(*policy.Candidate) {
	return func(c *policy.Candidate) {
		labels := map[string]string{name: value}
		for k, v := range c.Labels { // it may be shared
			if k != name {
				labels[k] = v
			}
		}
		c.Labels = labels
	}
}

// Present, Absent and Unknown make the tags of a request.
func Present(tag string) policy.Tag { return policy.Tag{Name: tag, State: policy.TagPresent} }

// Absent: see [Present].
func Absent(tag string) policy.Tag { return policy.Tag{Name: tag, State: policy.TagAbsent} }

// Unknown: see [Present].
func Unknown(tag string) policy.Tag { return policy.Tag{Name: tag, State: policy.TagUnknown} }
