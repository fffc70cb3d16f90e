package prompt

import (
	"fmt"
	"math/bits"
	"sync"
)

// AuditOptions say when observed requests tip the scale. The zero value takes the
// defaults.
type AuditOptions struct {
	// Window is how many of the last requests of an engine and a model count, at
	// most [MaxAuditWindow]. 0 means [DefaultAuditWindow].
	Window int
	// Mismatches is how many of them must not match. 0 means [DefaultAuditMismatches].
	Mismatches int
}

const (
	// DefaultAuditWindow is a hundred requests.
	DefaultAuditWindow = 100
	// DefaultAuditMismatches is three of them. One may be an engine that counts oddly
	// for some rare kind of request; a tokenizer that is off is so in most prompts.
	DefaultAuditMismatches = 3
	// MaxAuditWindow bounds what is remembered of an engine and a model.
	MaxAuditWindow = 128

	// maxAudits bounds how many engines and models are remembered at a time.
	maxAudits = 8192
)

// Observation is a request that an engine answered.
type Observation struct {
	// Engine is the instance's ID, Model the name that it knows.
	Engine, Model string
	// Encoding is what the prompt was taken for. It is only read.
	Encoding *Encoding
	// PromptTokens is the count that the engine reports, negative if it reports none.
	PromptTokens int
	// PromptIDs are the ids that the engine reports (prompt_token_ids, for requests
	// with return_token_ids), nil if it reports none. They are only read.
	PromptIDs []uint32
}

// Mismatch is an observed request whose ids were not the engine's. It holds
// numbers only: the prompt is a client's.
type Mismatch struct {
	Engine, Model string
	Source        SourceKind
	// Count is how many tokens the prompt was taken for, Reported how many the
	// engine had.
	Count, Reported int
	// Position is that of the first token that differs, -1 if the engine did not
	// report its ids.
	Position int
	// Mismatches are those among the last Requests.
	Mismatches, Requests int
	// Tipped says that these are too many. The count begins anew after it.
	Tipped bool
}

// String says how the numbers differ.
func (m *Mismatch) String() string {
	s := fmt.Sprintf("a prompt of %d tokens by source %s had %d in the engine", m.Count, m.Source, m.Reported)
	if m.Position >= 0 {
		s += fmt.Sprintf(", the first difference at token %d", m.Position)
	}
	return s + fmt.Sprintf(" (%d of the last %d requests)", m.Mismatches, m.Requests)
}

// Auditor compares the prompts of answered requests with what the engines say
// about them. It does nothing on its own; [Prover.Observe] acts on what it finds.
// Make it with [NewAuditor]. Safe for concurrent use.
type Auditor struct {
	opts AuditOptions

	mu     sync.Mutex
	audits map[auditKey]*auditRing
}

type auditKey struct {
	engine, model, assets string
	source                SourceKind
}

// auditRing remembers of the last requests which ones did not match.
type auditRing struct {
	wrong  [MaxAuditWindow / 64]uint64
	next   int
	filled int
}

// NewAuditor returns an Auditor.
func NewAuditor(o AuditOptions) *Auditor {
	if o.Window <= 0 {
		o.Window = DefaultAuditWindow
	}
	o.Window = min(o.Window, MaxAuditWindow)
	if o.Mismatches <= 0 {
		o.Mismatches = DefaultAuditMismatches
	}
	o.Mismatches = min(o.Mismatches, o.Window)
	return &Auditor{opts: o, audits: map[auditKey]*auditRing{}}
}

// Observe takes in an answered request and returns how it differs, nil if it
// doesn't or if that can't be told: the encoding is an estimate, stands for several
// prompts, or the engine reports nothing. Of a beginning it is compared with the
// engine's, and that more follows.
func (a *Auditor) Observe(o *Observation) *Mismatch {
	enc := o.Encoding
	if enc == nil || o.PromptTokens < 0 && o.PromptIDs == nil {
		return nil
	}
	begins := enc.Source == SourcePrefix
	if !begins && (!enc.Source.Exact() || len(enc.Tokens) != enc.Count) {
		return nil
	}
	position, reported := -1, o.PromptTokens
	wrong := reported >= 0 && reported != enc.Count
	if begins {
		wrong = reported >= 0 && reported <= len(enc.Tokens)
	}
	if ids := o.PromptIDs; ids != nil {
		reported = len(ids)
		if begins && reported > len(enc.Tokens) {
			ids = ids[:len(enc.Tokens)]
		}
		position = firstDifference(enc.Tokens, ids)
		wrong = position >= 0
	}
	mismatches, requests, tipped := a.count(auditKey{o.Engine, o.Model, enc.Assets, enc.Source}, wrong)
	if !wrong {
		return nil
	}
	return &Mismatch{
		Engine: o.Engine, Model: o.Model, Source: enc.Source, Count: enc.Count, Reported: reported, Position: position,
		Mismatches: mismatches, Requests: requests, Tipped: tipped,
	}
}

func (a *Auditor) count(key auditKey, wrong bool) (mismatches, requests int, tipped bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.audits[key]
	if r == nil {
		if !wrong && len(a.audits) >= maxAudits {
			return 0, 0, false // nothing to remember about one that is right
		}
		for k := range a.audits {
			if len(a.audits) < maxAudits {
				break
			}
			delete(a.audits, k) // any: it begins anew when it is seen again
		}
		r = &auditRing{}
		a.audits[key] = r
	}
	mismatches = r.add(wrong, a.opts.Window)
	requests = r.filled
	if wrong && mismatches >= a.opts.Mismatches {
		*r = auditRing{}
		return mismatches, requests, true
	}
	return mismatches, requests, false
}

// add records one request and returns how many in the window did not match.
func (r *auditRing) add(wrong bool, window int) int {
	word, bit := r.next/64, uint64(1)<<(r.next%64)
	r.wrong[word] &^= bit
	if wrong {
		r.wrong[word] |= bit
	}
	r.next = (r.next + 1) % window
	r.filled = min(r.filled+1, window)
	n := 0
	for _, w := range r.wrong {
		n += bits.OnesCount64(w)
	}
	return n
}

// Forget drops what is remembered of an engine: its instance left.
func (a *Auditor) Forget(engine string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k := range a.audits {
		if k.engine == engine {
			delete(a.audits, k)
		}
	}
}
