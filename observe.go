package kvsteer

import "time"

// shortAnswer is the number of tokens below which the time between them says
// little: engines and proxies send the first few together.
const shortAnswer = 8

// observeDecode tells the predictor how an answer went on after its first token.
// Only answers whose end we saw count.
func (r *Router) observeDecode(a *attempt, u Usage) {
	d, ok := r.predictor.(DecodeObserver)
	if !ok || a.ttft == 0 || !u.Known || u.Output <= 0 {
		return
	}
	var itl time.Duration
	if u.Output >= shortAnswer {
		itl = (r.opts.now().Sub(a.began) - a.ttft) / time.Duration(u.Output-1)
	}
	d.ObserveDecode(&a.features, max(itl, 0), u.Output)
}
