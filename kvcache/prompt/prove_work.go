package prompt

import (
	"context"
	"slices"
	"time"
)

// wake has an engine asked if there is anything to ask. p.mu is held.
func (p *Prover) wake(e *provenEngine) {
	e.wakes++
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
	failures := 0
	for {
		model, assets, ok := p.next(e)
		if !ok {
			return
		}
		known := p.prove(e, model, assets)
		if e.ctx.Err() != nil {
			p.rest(e)
			return
		}
		if known.retry {
			failures++
			if failures >= patientAttempts {
				known.report.State = ProofImpossible
			}
		} else {
			failures = 0
		}
		p.learn(e, known)
		if known.retry && !pause(e.ctx, min(firstRetry<<min(failures-1, maxDoublings+1), maxRetry)) {
			p.rest(e)
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *Prover) rest(e *provenEngine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.busy = false
}

// next returns a model that the engine must be asked about. If there is none the
// engine rests.
func (p *Prover) next(e *provenEngine) (model, assets string, ok bool) {
	for {
		p.mu.Lock()
		models, wakes := e.models, e.wakes
		p.mu.Unlock()
		hashes := make([]string, len(models))
		for i, m := range models {
			hashes[i] = p.local.Assets(m) // not under the lock: it isn't our code
		}
		p.mu.Lock()
		for i, m := range models {
			if e.due(m, hashes[i]) && e.ctx.Err() == nil {
				p.mu.Unlock()
				return m, hashes[i], true
			}
		}
		if e.wakes == wakes || e.ctx.Err() != nil {
			e.busy = false
			p.mu.Unlock()
			return "", "", false
		}
		p.mu.Unlock()
	}
}

// prove asks an engine about a model.
func (p *Prover) prove(e *provenEngine, model, assets string) *proof {
	if known := p.alike(e, model, assets); known != nil {
		return known
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-e.ctx.Done():
		return nil
	}
	known := &proof{report: ProofReport{Engine: e.engine.id(), Model: model, Assets: assets}}
	p.compareAll(e, known)
	known.report.At = p.opts.Now()
	return known
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
