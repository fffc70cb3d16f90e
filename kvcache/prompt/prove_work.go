package prompt

import (
	"slices"
	"time"
)

// wake has an engine asked if there is anything to ask. p.mu is held.
func (p *Prover) wake(e *provenEngine) {
	e.wakes++
	select {
	case e.kick <- struct{}{}: // there may be something that need not wait
	default:
	}
	if e.busy || p.closed {
		return
	}
	e.busy = true
	p.running.Add(1)
	go p.work(e)
}

// due reports whether an engine must be asked about a model. p.mu is held.
func (e *provenEngine) due(model, assets string) bool {
	known := e.proofs[model]
	return assets != "" && (known == nil || known.report.Assets != assets || known.retry || known.again)
}

// work asks one engine until there is nothing left to ask, and ends.
func (p *Prover) work(e *provenEngine) {
	defer p.running.Done()
	var down outage
	for {
		j, ok := p.next(e)
		if !ok {
			return
		}
		if j.wait > 0 {
			pause(e, j.wait)
			continue
		}
		known := p.prove(e, j, &down)
		if e.ctx.Err() == nil {
			p.learn(e, known)
		}
	}
}

// pause waits, until it is worthwhile to look again.
func pause(e *provenEngine, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.kick:
	case <-e.ctx.Done():
	}
}

// job is a model that an engine must be asked about, now or after waiting.
type job struct {
	model, assets string
	failures      int // of the same question before
	wait          time.Duration
}

// next returns what the engine must be asked soonest. If there is nothing, or the
// engine left, it rests.
func (p *Prover) next(e *provenEngine) (job, bool) {
	for {
		p.mu.Lock()
		models, wakes := e.models, e.wakes
		p.mu.Unlock()
		hashes := make([]string, len(models))
		for i, m := range models {
			hashes[i] = p.local.Assets(m) // not under the lock: it isn't our code
		}
		p.mu.Lock()
		best, found := e.soonest(models, hashes)
		if e.ctx.Err() != nil || !found && e.wakes == wakes {
			e.busy = false
			p.mu.Unlock()
			return job{}, false
		}
		p.mu.Unlock()
		if found {
			return best, true
		}
	}
}

// soonest returns of all that is due what has to wait least. Prover.mu is held.
func (e *provenEngine) soonest(models, hashes []string) (best job, found bool) {
	now := time.Now() // timers don't run on any other clock
	for i, m := range models {
		if !e.due(m, hashes[i]) {
			continue
		}
		j := job{model: m, assets: hashes[i]}
		if known := e.proofs[m]; known != nil && known.retry && known.report.Assets == j.assets {
			j.failures, j.wait = known.failures, max(known.after.Sub(now), 0)
		}
		if !found || j.wait < best.wait {
			best, found = j, true
		}
	}
	return best, found
}

// backoff is how long to wait after so many failures.
func backoff(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, maxDoublings+1), maxRetry)
}

// outage is of an engine that could not be asked anything.
type outage struct {
	why      ReasonError
	failures int
	until    time.Time
}

// prove asks an engine about a model. What is down is not asked about each of its
// models in turn.
func (p *Prover) prove(e *provenEngine, j job, down *outage) *proof {
	if known := p.alike(e, j.model, j.assets); known != nil {
		return known
	}
	known := &proof{report: ProofReport{Engine: e.engine.id(), Model: j.model, Assets: j.assets}}
	if time.Now().Before(down.until) {
		known.fail(down.why, j.failures+1, down.until)
	} else {
		select {
		case p.slots <- struct{}{}:
		case <-e.ctx.Done():
			return known
		}
		why, failed := p.compareAll(e, known)
		<-p.slots
		switch {
		case failed:
			down.failures++
			down.why, down.until = why, time.Now().Add(backoff(down.failures))
			known.fail(why, j.failures+1, down.until)
		case known.retry:
			known.fail(ReasonError(known.report.Reason), j.failures+1, time.Now().Add(backoff(j.failures+1)))
			*down = outage{}
		default:
			*down = outage{}
		}
	}
	known.report.At = p.opts.Now()
	return known
}

// fail says that the question must be asked again, and when.
func (known *proof) fail(why ReasonError, failures int, after time.Time) {
	known.retry, known.failures, known.after = true, failures, after
	known.report.Reason = string(why)
	if failures >= patientAttempts {
		known.report.State = ProofImpossible
	}
}

// alike takes over what is proven about another name of the same assets: engines
// have one tokenizer and one template for a model and its adapters, of which there
// may be many.
func (p *Prover) alike(e *provenEngine, model, assets string) *proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := e.proofs[model]; known != nil && known.again {
		return nil
	}
	for _, m := range e.models {
		if known := e.proofs[m]; m != model && known != nil && known.report.Assets == assets && !known.retry && !known.again {
			twin := *known
			twin.report.Model = model
			return &twin
		}
	}
	return nil
}

// learn takes in how a proof went, and tells if that is news.
func (p *Prover) learn(e *provenEngine, known *proof) {
	model := known.report.Model
	p.mu.Lock()
	if p.engines[e.engine.id()] != e || !slices.Contains(e.models, model) {
		p.mu.Unlock()
		return // it left, or serves something else
	}
	before := e.proofs[model]
	e.proofs[model] = known
	if m := p.models[model]; m != nil {
		m.verdict = p.judge(model, m.verdict.assets, p.opts.Now())
	}
	p.mu.Unlock()
	if known.report.State == ProofPending || before != nil && before.report.same(&known.report) && !before.again {
		return
	}
	report := known.report
	p.tell(&report)
}

// same reports whether a report says nothing that another did not.
func (r *ProofReport) same(o *ProofReport) bool {
	return r.State == o.State && r.Assets == o.Assets && r.Reason == o.Reason
}
