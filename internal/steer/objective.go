package steer

import (
	"math"
	"time"
)

// Objective says what a request's own prefill costs others. Each second of it is
// counted as often as
//
//	Constant + min(Running * answers under way there, MostRunning)
//	         + Wanting * min(those that wait in the router for it, MostWanting) + Waiting * w²
//
// where w is the requests that wait for their first token on the candidate with
// the fewest of them. While that is nobody, a second by which the request's own
// answer takes longer than where it would take least counts as much as one by which
// its prefill delays another's. docs/routing.md says why, and what the numbers rest on.
type Objective struct {
	// Constant counts always.
	Constant float64
	// Running is per answer under way on the candidate: its next tokens come later
	// by as much as the prefill takes. MostRunning bounds it.
	Running, MostRunning float64
	// Waiting is for those that are going to come while all are busy.
	Waiting float64
	// Wanting is per request that waits in the router for this very candidate, or
	// comes to it once another worker has computed its prompt: it is delayed by just
	// as much. MostWanting bounds how many count: those far back in a line of hundreds
	// will take whoever is free then. Were all of them counted, whoever has a long prompt
	// would hardly ever find a worker that is cheap enough.
	Wanting, MostWanting float64
	// NoProgress counts work ahead as a whole until it is done.
	NoProgress bool
	// NoAnswer leaves out how long the request's own answer takes.
	NoAnswer bool
}

// The default objective: ten answers under way weigh as much as a request that
// waits for its first token, at most twice that.
const (
	defaultRunning     = 0.1
	defaultMostRunning = 2
	defaultWaiting     = 2
	defaultWanting     = 1
	defaultMostWanting = 64
	// perAnswer is what a second late in an answer weighs, whosever it is.
	perAnswer = defaultRunning
)

// DefaultObjective is what the router minimises.
func DefaultObjective() Objective {
	return Objective{
		Running: defaultRunning, MostRunning: defaultMostRunning, Waiting: defaultWaiting,
		Wanting: defaultWanting, MostWanting: defaultMostWanting,
	}
}

// others is how often a candidate's prefill counts as a cost to others; fewest
// comes from [Round.fewest].
func (o *Objective) others(running, wanting int, fewest float64) float64 {
	return o.Constant + min(o.Running*float64(running), o.MostRunning) +
		o.Wanting*min(float64(wanting), o.MostWanting) + o.Waiting*fewest*fewest
}

// fewest is the least number of requests without a first token on any candidate,
// and if none is free also those that wait in the router, shared by all. That a
// hot prefix crowds one worker while others are free must not make computing it
// there look dear.
func (r *Round) fewest() float64 {
	if len(r.Candidates) == 0 {
		return 0
	}
	least := r.Candidates[0].Queued
	for i := range r.Candidates {
		least = min(least, r.Candidates[i].Queued)
	}
	if least <= 0 {
		return 0
	}
	return float64(least) + float64(max(r.Waiting, 0))/float64(len(r.Candidates))
}

// quickest is the least time that the answer is expected to take after its first
// token on any candidate.
func (r *Round) quickest() time.Duration {
	least := time.Duration(math.MaxInt64)
	for i := range r.Candidates {
		least = min(least, r.Predictions[i].answer())
	}
	return least
}

// answer is the time from the first token to the last, 0 if nobody says.
func (p *Prediction) answer() time.Duration { return max(p.E2E-p.TTFT, 0) }

// times scales a cost without overflow.
func times(d time.Duration, by float64) time.Duration {
	cost := float64(d) * by
	if !(cost < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(cost)
}
