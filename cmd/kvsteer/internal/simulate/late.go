package simulate

// Late is Steer with a queue in the router: a call waits while the worker that
// it would go to has more than Hold seconds of prefill before it.
type Late struct {
	*Steer
	// Hold is in seconds of predicted wait.
	Hold float64
	// Age is the seconds of work that a second of waiting outweighs.
	Age float64
}

// Bind implements [Binder]: of the calls whose best worker is ready for them,
// the one with the least work, less its age.
func (l *Late) Bind(s *State, waiting []*Job) (job, worker int) {
	job, worker = -1, -1
	var best float64
	const most = 64
	for n, j := range waiting {
		if n == most {
			break
		}
		s.cluster.look(j)
		i := l.Pick(s)
		if i < 0 {
			continue
		}
		own := l.preds[i].Prefill.Seconds()
		wait := l.preds[i].TTFT.Seconds() - own
		if wait > l.Hold && s.Workers[i].Prefilling > 0 {
			continue
		}
		cost := own - l.Age*(s.Now-j.Arrived).Seconds()
		if job < 0 || cost < best {
			job, worker, best = n, i, cost
		}
	}
	if job >= 0 {
		s.cluster.look(waiting[job])
		l.evaluate(s)
	}
	return job, worker
}
