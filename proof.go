package kvsteer

import (
	"log/slog"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// engineOf is a worker as a source of token ids knows it.
func engineOf(m *fleet.Member) prompt.Engine {
	return prompt.Engine{ID: m.ID(), BaseURL: strings.TrimSuffix(m.Worker().URL, "/")}
}

// proofs tells a Prover, if the encoder has one, which engines serve what, and
// compares what answered requests report with what their prompts were taken for.
type proofs struct {
	prover  *prompt.Prover
	auditor *prompt.Auditor // where there is no Prover
}

func newProofs(e *prompt.Encoder) proofs {
	if p := e.Prover(); p != nil {
		return proofs{prover: p}
	}
	return proofs{auditor: prompt.NewAuditor(prompt.AuditOptions{})}
}

// serves says what a worker serves, as far as it is known.
func (p *proofs) serves(m *fleet.Member) {
	models := m.Models()
	if p.prover == nil || len(models) == 0 || m.Gone() {
		return
	}
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	p.prover.Join(engineOf(m), names)
}

func (p *proofs) left(instance string) {
	if p.prover != nil {
		p.prover.Leave(instance)
		return
	}
	p.auditor.Forget(instance)
}

func (p *proofs) observe(o *prompt.Observation) *prompt.Mismatch {
	if p.prover != nil {
		return p.prover.Observe(o)
	}
	return p.auditor.Observe(o)
}

// auditPrompt compares the prompt of an answered request with what the engine
// reports of it.
func (r *Router) auditPrompt(a *attempt, u Usage, ids []uint32) {
	reported := -1
	if n := u.Prompt(); n > 0 { // a report may be of the answer alone
		reported = n
	}
	m := r.proofs.observe(&prompt.Observation{
		Engine: a.computes().member.ID(), Model: a.view.model, Encoding: &a.view.enc, PromptTokens: reported, PromptIDs: ids,
	})
	if m == nil {
		return
	}
	if l := r.opts.logger; l != nil && m.Tipped {
		if untold, tell := r.warnings.due("prompts "+m.Engine+" "+m.Model, r.opts.now()); tell {
			l.Warn("kvsteer: prompts are not what the engine takes them for", slog.String("worker", a.computes().target.Worker),
				slog.String("model", clip(m.Model)), slog.String("mismatch", m.String()), slog.Int("untold", untold))
		}
	}
	for _, h := range r.opts.hooks.prompt {
		h.OnPromptMismatch(m)
	}
}

// The states of Decision.Proof.
const (
	proofProven   = "proven"
	proofUnproven = "not proven"
)

// proof says whether ids that were computed here were confirmed by an engine; ""
// where nobody asks engines to.
func (r *Router) proof(enc *prompt.Encoding) string {
	if enc.Source != prompt.SourceLocal && enc.Source != prompt.SourcePrefix || r.proofs.prover == nil {
		return ""
	}
	for _, g := range enc.Degraded {
		if g.Source == prompt.SourceLocal {
			return proofUnproven
		}
	}
	return proofProven
}
