package kvsteer

import (
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
)

// learn tells the predictor how long the prompt booked as b took, whose worker was chosen
// by f.
func (r *Router) learn(b booking, f *Features, took time.Duration) {
	if of, ok := b.(*fleet.Booking); ok && (*steer.Features)(f).Surprised(of.Unheard(steer.Rushed)) {
		if c, crowd := r.predictor.(CrowdObserver); crowd {
			c.ObserveCrowded(f, took)
		}
		return
	}
	r.predictor.Observe(f, took)
}

// observeDecode tells the predictor how an answer went on after its first token.
// Only answers whose end we saw count.
func (r *Router) observeDecode(a *attempt, u Usage) {
	d, ok := r.predictor.(DecodeObserver)
	if !ok || a.ttft == 0 || !u.Known || u.Output <= 0 {
		return
	}
	d.ObserveDecode(&a.features, steer.Pace(r.opts.now().Sub(a.started)-a.ttft, u.Output), u.Output)
}
