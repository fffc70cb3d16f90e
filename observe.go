package kvsteer

import "github.com/kvsteer/kvsteer/internal/steer"

// observeDecode tells the predictor how an answer went on after its first token.
// Only answers whose end we saw count.
func (r *Router) observeDecode(a *attempt, u Usage) {
	d, ok := r.predictor.(DecodeObserver)
	if !ok || a.ttft == 0 || !u.Known || u.Output <= 0 {
		return
	}
	d.ObserveDecode(&a.features, steer.Pace(r.opts.now().Sub(a.started)-a.ttft, u.Output), u.Output)
}
