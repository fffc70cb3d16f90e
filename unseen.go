package kvsteer

import "time"

// Nobody sees the first token of some answers. Without a guess their prefill would weigh
// on the worker until the whole answer is there.

// Unseen says that nobody is going to see the first token of a streamed answer, so that
// [Selection.FirstToken] will not be called: its prefill is taken to end at twice the
// predicted time, as that of an answer that does not stream. An [Answer] that can't look
// into the body calls it by itself. Further calls do nothing.
func (s *Selection) Unseen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unseen {
		return
	}
	s.unseen = true
	if a := &s.attempt; !s.ended && a.assumed == nil && a.ttft == 0 {
		s.assume(a, s.foretold(a))
	}
}

// assume has the attempt's prefill end at twice the predicted time if nobody sees its
// first token. The caller holds s.mu, or is the only one that has s.
func (s *Selection) assume(a *attempt, first time.Duration) {
	if s.parsed.stream && !s.unseen || a.offer != nil {
		return
	}
	booking, r := a.booking, s.router
	a.assumed = time.AfterFunc(twice(first), func() {
		booking.FirstToken()
		r.freed()
	})
}

// foretold is the time to first token that the decision predicts for the attempt's worker.
// One that it did not look at is taken for as fast as its choice. The caller holds s.mu.
func (s *Selection) foretold(a *attempt) time.Duration {
	for i := range s.decision.Candidates {
		if c := &s.decision.Candidates[i]; c.Instance == a.target.Instance && c.Candidate.Rank == a.target.Rank {
			return c.PredictedTTFT
		}
	}
	return s.decision.Winner().PredictedTTFT
}
