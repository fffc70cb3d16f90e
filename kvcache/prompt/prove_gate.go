package prompt

import (
	"context"
	"maps"
	"slices"
	"time"
)

// The reasons why ids computed here are not used, or used without proof.
const (
	errNotProven ReasonError = "not yet proven against the engine"
	errDisproved ReasonError = "ids differ from the engine's"
	errNoProbe   ReasonError = "no probe is computed here"
	notProven                = "not proven against the engine: "
)

// provenModel is what the engines say about a model together.
type provenModel struct {
	verdict verdict

	// held is until when the model is disproved by requests, with which assets, and
	// how often that was so.
	held       time.Time
	heldAssets string
	holds      int
	// prefixHeld is the same for how prompts with media begin, and only for that.
	prefixHeld   time.Time
	prefixAssets string
}

// verdict is what becomes of a model's requests. It is immutable.
type verdict struct {
	assets string
	until  time.Time // when it must be judged anew; zero for never
	// refused is why none are served, "" if they are.
	refused ReasonError
	// apis is by API what is not proven, nil where it is.
	apis [numAPIs][]Degradation
}

// noLocal takes the place of a source that was not given.
type noLocal struct{}

func (noLocal) Kind() SourceKind { return SourceLocal }

func (noLocal) Assets(string) string { return "" }

func (noLocal) Encode(context.Context, *Request) (Encoding, error) { return Encoding{}, errNoLocal }

// Kind implements Source.
func (*Prover) Kind() SourceKind { return SourceLocal }

// Assets is that of the local source.
func (p *Prover) Assets(model string) string { return p.local.Assets(model) }

// Encode implements Source: it computes ids by the local source, or says why that
// is not to be trusted.
func (p *Prover) Encode(ctx context.Context, r *Request) (Encoding, error) {
	assets := p.local.Assets(r.Model)
	if assets == "" {
		return p.local.Encode(ctx, r) // which says why not
	}
	unsure, err := p.gate(r, assets)
	if err != nil {
		return Encoding{}, err
	}
	enc, err := p.local.Encode(ctx, r)
	return marked(&enc, err, assets, unsure)
}

// Prefix implements [Prefixer], if the local source does: it computes how a prompt
// begins, where that is to be trusted. The probes hold no media, since most engines
// take none; so of beginnings it is proven that their text is.
func (p *Prover) Prefix(ctx context.Context, r *Request) (Encoding, error) {
	local, ok := p.local.(Prefixer)
	assets := p.local.Assets(r.Model)
	if !ok || assets == "" {
		return Encoding{}, ErrNotApplicable
	}
	unsure, err := p.gate(r, assets)
	if err != nil {
		return Encoding{}, ErrNotApplicable // Encode has said why
	}
	enc, err := local.Prefix(ctx, r)
	if err == nil && p.prefixHeld(r.Model, assets) {
		return Encoding{}, errDisproved
	}
	return marked(&enc, err, assets, unsure)
}

// prefixHeld reports whether requests have disproved how prompts of a model begin.
func (p *Prover) prefixHeld(model, assets string) bool {
	now := p.opts.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[model]
	return m != nil && m.prefixAssets == assets && now.Before(m.prefixHeld)
}

// gate returns what is not sure about ids computed here, or why they must not be used.
func (p *Prover) gate(r *Request, assets string) ([]Degradation, error) {
	v := p.verdictOn(r.Model, assets)
	var unsure []Degradation
	if int(r.API) < numAPIs {
		unsure = v.apis[r.API]
	}
	switch {
	case v.refused != "":
		return nil, v.refused
	case unsure != nil && p.opts.Strict:
		return nil, ReasonError(unsure[0].Reason)
	default:
		return unsure, nil
	}
}

// marked adds what is not sure to what the local source has computed.
func marked(enc *Encoding, err error, assets string, unsure []Degradation) (Encoding, error) {
	switch {
	case err != nil:
		return Encoding{}, err
	case enc.Assets != "" && enc.Assets != assets:
		return Encoding{}, errNotProven // the files changed in between
	case unsure != nil && enc.Degraded == nil:
		enc.Degraded = unsure
	case unsure != nil:
		enc.Degraded = append(slices.Clip(enc.Degraded), unsure...)
	default:
	}
	return *enc, nil
}

// verdictOn returns what holds for a model, judging anew if the assets changed.
func (p *Prover) verdictOn(model, assets string) verdict {
	now := p.opts.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.models[model]
	if m == nil {
		return p.unknown
	}
	if m.verdict.assets != assets || !m.verdict.until.IsZero() && !now.Before(m.verdict.until) {
		m.verdict = p.judge(model, assets, now)
		for _, e := range p.engines {
			if _, serves := slices.BinarySearch(e.models, model); serves && e.due(model, assets) {
				p.wake(e)
			}
		}
	}
	return m.verdict
}

// judgeAll brings the verdicts on models up to date, and forgets models that no
// engine serves. p.mu is held; the assets are those of the last verdict, since the
// local source must not be called under it.
func (p *Prover) judgeAll(models []string) {
	now := p.opts.Now()
	for _, name := range models {
		m, served := p.models[name], p.serves(name)
		switch {
		case m == nil && !served:
		case m == nil:
			p.models[name] = &provenModel{} // judged when it is asked for
		case !served && !now.Before(m.held):
			delete(p.models, name)
		default:
			m.verdict = p.judge(name, m.verdict.assets, now)
		}
	}
}

func (p *Prover) serves(model string) bool {
	for _, e := range p.engines {
		if _, found := slices.BinarySearch(e.models, model); found {
			return true
		}
	}
	return false
}

// judge weighs what the engines said about a model with these assets. p.mu is
// held.
func (p *Prover) judge(model, assets string, now time.Time) verdict {
	v := verdict{assets: assets}
	if m := p.models[model]; m != nil && m.heldAssets == assets && now.Before(m.held) {
		v.refused, v.until = errDisproved, m.held
		return v
	}
	var passed, pending bool
	var apis [numAPIs]bool
	reason := string(errNoEngine)
	for _, e := range p.engines {
		if _, found := slices.BinarySearch(e.models, model); !found {
			continue
		}
		known := e.proofs[model]
		if known == nil || known.report.Assets != assets {
			pending = true
			continue
		}
		switch known.report.State {
		case ProofFailed:
			v.refused = errDisproved
			return v
		case ProofPassed:
			passed = true
			for i, ok := range known.apis {
				apis[i] = apis[i] || ok
			}
		case ProofImpossible:
			if reason == string(errNoEngine) || known.report.Reason < reason { // whatever the order of a map
				reason = known.report.Reason
			}
		default:
			pending = true
		}
	}
	if !passed && pending {
		v.refused = errNotProven
		return v
	}
	if passed {
		reason = string(errNoForm)
	}
	v.doubt(reason, apis)
	return v
}

// doubt notes that APIs other than these are not proven, and why.
func (v *verdict) doubt(reason string, but [numAPIs]bool) {
	unsure := []Degradation{{Source: SourceLocal, Reason: notProven + reason}}
	for i, proven := range but {
		if !proven {
			v.apis[i] = unsure
		}
	}
}

// disprove disables a model's local path because of what requests showed, and has
// the engine asked anew.
func (p *Prover) disprove(m *Mismatch) {
	assets := p.local.Assets(m.Model)
	now := p.opts.Now()
	p.mu.Lock()
	e, model := p.engines[m.Engine], p.models[m.Model]
	if m.Source == SourcePrefix {
		if model != nil {
			model.prefixHeld, model.prefixAssets = now.Add(maxHold), assets // no probe could end it
		}
		p.mu.Unlock()
		return
	}
	if e == nil || model == nil || assets == "" || model.heldAssets == assets && now.Before(model.held) {
		p.mu.Unlock()
		return // it is gone, or disabled already
	}
	if model.heldAssets != assets {
		model.holds, model.heldAssets = 0, assets
	}
	model.held = now.Add(min(firstHold<<min(model.holds, maxDoublings), maxHold))
	model.holds++
	model.verdict = p.judge(m.Model, assets, now)
	if known := e.proofs[m.Model]; known != nil {
		known.again = true
	}
	p.wake(e)
	p.mu.Unlock()
	p.tell(&ProofReport{
		Engine: m.Engine, Model: m.Model, Assets: assets, State: ProofFailed, Mismatch: m, Reason: string(errDisproved), At: now,
	})
}

func (p *Prover) tell(r *ProofReport) {
	if p.opts.OnReport != nil {
		p.opts.OnReport(r)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
