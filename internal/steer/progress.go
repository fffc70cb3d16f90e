package steer

import "time"

// before is the work ahead on a candidate besides its amount: since when the rank
// is at it, and what waits in the router to come before.
type before struct {
	since time.Duration
	// requests is how many prompts the amount is of.
	requests int
	tokens   int
	pairs    int64
	// wanting is the other requests that wait for it, or for a prompt that goes there.
	wanting int
	// late is by how much more than its own time the oldest prompt is overdue.
	late time.Duration
}

// atWork reports whether the rank has begun with work ahead that f counts.
func (b *before) atWork(f *Features) bool { return b.since > 0 && f.AheadTokens > 0 }

// variety is the squared coefficient of variation of the time that prefills take:
// most find much of their prompt cached, some nothing. The Mooncake conversation
// trace has 3.2, the shared prefixes of the published benchmark 3.4.
const variety = 3

// oldest is the share of the work ahead that the oldest of so many prompts is
// expected to be. It is more than an equal one: what is found at work at any one
// time is a long one more often than its number says.
func oldest(requests int) float64 {
	return (1 + variety) / (float64(max(requests, 1)) + variety)
}

// progress takes off the work ahead of each candidate what must be done of it by
// now. Engines compute prompts one after the other, so that is a part of the oldest
// and nothing of those behind it, however long it takes.
func (r *Round) progress(p Predictor) {
	r.ahead = r.ahead[:0]
	for i := range r.Features {
		f := &r.Features[i]
		if b := &r.before[i]; b.atWork(f) {
			r.ahead = append(r.ahead, f.alone(oldest(b.requests)))
		}
	}
	if len(r.ahead) == 0 {
		return
	}
	r.predict(p, r.ahead)
	n := 0
	for i := range r.Features {
		f := &r.Features[i]
		if b := &r.before[i]; b.atWork(f) {
			var part float64
			part, b.late = done(b.since, r.Predictions[n].TTFT)
			f.advance(oldest(b.requests) * part)
			n++
		}
	}
}

// alone turns a share of the work ahead into one prompt with nothing ahead.
func (f *Features) alone(share float64) Features {
	own := *f
	tokens := share * float64(f.AheadTokens)
	own.Uncached = max(int(tokens), 1)
	own.Cached = int(max(share*f.AheadPairs-tokens*(tokens+1)/2, 0) / tokens)
	own.AheadTokens, own.AheadPairs = 0, 0
	return own
}

// done is the part of a prompt that is computed after spent, if its first token is
// expected after total. Once that is past nobody knows what is left, but that it is
// the more, the longer it takes: as much as the prompt is overdue. A worker that
// hangs must not look idle. What that is more than the whole prompt is late: it
// tells of the worker and not of the work, so the predictor is not to learn it.
func done(spent, total time.Duration) (part float64, late time.Duration) {
	switch {
	case total <= 0:
		return 0, 0
	case spent <= total:
		return spent.Seconds() / total.Seconds(), 0
	case spent-total <= total:
		return 1 - (spent-total).Seconds()/total.Seconds(), 0
	default:
		return 0, spent - total - total
	}
}

// advance takes a part off the work ahead, but never all: while no first token has
// come the engine is at work.
func (f *Features) advance(part float64) {
	left := max(1-part, 0)
	f.AheadTokens = max(int(left*float64(f.AheadTokens)), 1)
	f.AheadPairs *= left
}
