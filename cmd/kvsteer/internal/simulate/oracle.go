package simulate

import "time"

// trueTTFT estimates when the first token would come if the call went to a
// worker now: the rest of the step under way, then the steps for all prompt
// tokens before it and its own, each with the decodes that go along. What it
// neglects: answers that end meanwhile, and evictions.
func trueTTFT(s *State, v *View) time.Duration {
	w := &s.cluster.workers[v.index]
	cfg := w.engine.Config()
	own := s.Call.Prompt - w.engine.Match(s.Call.Blocks, s.Call.Prompt)
	ahead := w.engine.Outstanding()
	for _, l := range w.prefilling {
		if l.req.CachedTokens() < 0 { // still in the queue
			ahead -= w.engine.Match(l.req.Hashes, l.req.Prompt)
		}
	}
	work := float64(pairs(own, s.Call.Prompt-own))
	if v.PrefillTokens > 0 {
		work += float64(v.PrefillPairs) * min(1, float64(ahead)/float64(v.PrefillTokens))
	}
	t := cfg.Timing
	tokens := ahead + own
	room := max(cfg.TokenBudget-v.Decoding, 1)
	steps := (tokens + room - 1) / room
	perStep := t.Base + t.DecodeSequence*float64(v.Decoding) + t.DecodeContext*float64(w.context)
	seconds := perStep*float64(steps) + t.PrefillToken*float64(tokens) + t.PrefillPair*work
	rest := time.Duration(0)
	if w.step != nil {
		rest = w.ends - s.Now
	}
	return rest + time.Duration(seconds*float64(time.Second))
}
