package prompt

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// asker gets the ids of a prompt from an engine. It has its own idea of the
// engine's health: a probe that fails is not to pause any request's call.
type asker struct {
	render   render
	tokenize tokenize
}

func newAsker(client *http.Client, now func() time.Time) asker {
	c := &caller{client: client, health: newHealth(now, 1), maxReply: DefaultMaxReply}
	return asker{render{c}, tokenize{c}}
}

// skippedError is of a question that an engine won't answer, as opposed to one that
// it can't answer now.
type skippedError struct{ why ReasonError }

func (e skippedError) Error() string { return string(e.why) }

// ids returns the engine's ids of a request: those that it renders, or where it
// has no such endpoint those that it tokenizes.
func (a asker) ids(ctx context.Context, r *Request) ([]uint32, error) {
	enc, err := a.render.Encode(ctx, r)
	if errors.Is(err, ErrNotApplicable) || errors.Is(err, errAbsent) || errors.Is(err, errStateful) {
		enc, err = a.tokenize.Encode(ctx, r)
	}
	if err == nil {
		return enc.Tokens, nil
	}
	var why ReasonError
	switch {
	case errors.Is(err, ErrNotApplicable):
		return nil, skippedError{errNoForm}
	case !errors.As(err, &why):
		return nil, errSourceFailed
	default:
	}
	switch why {
	case errUnreachable, errPaused, errBusy, errEngineFailed, errDeadline, errCanceled, errReply, errReplySize, errNoEngine, errSourceFailed:
		return nil, why
	default: // absent, refused, no form for it
		return nil, skippedError{why}
	}
}

// compareAll compares the probes with the engine, up to the first difference. That
// the engine could not be asked is reported by failed and why.
func (p *Prover) compareAll(e *provenEngine, known *proof) (why ReasonError, failed bool) {
	report := &known.report
	// What it learns about endpoints is not kept: a proof that is repeated is to find
	// out what has changed.
	ask := newAsker(p.client, p.opts.Now)
	why = errNoProbe
	for i := range p.probes {
		err := p.compare(e, ask, &p.probes[i], known)
		var skipped skippedError
		switch {
		case errors.As(err, &skipped):
			report.Skipped++
			if why == errNoProbe { // the first, of the plainest probe, says most
				why = skipped.why
			}
		case errors.Is(err, errNotProven):
			report.Reason, known.retry = string(errNotProven), true
			return "", false
		case err != nil:
			if !errors.As(err, &why) {
				why = errSourceFailed
			}
			return why, true
		case report.Difference != nil:
			report.State = ProofFailed
			return "", false
		default:
			report.Compared++
			known.apis[p.probes[i].API] = true
		}
	}
	if report.Compared == 0 {
		report.State, report.Reason = ProofImpossible, string(why)
		// An engine that knows the endpoint but not the model may be loading it.
		known.retry = why == errRefused
		return "", false
	}
	report.State = ProofPassed
	return "", false
}

// compare compares one probe. That it was left out is a skippedError, that the
// engine must be asked again any other.
func (p *Prover) compare(e *provenEngine, ask asker, probe *Probe, known *proof) error {
	o, err := jsonscan.Parse([]byte(probe.Body), 0)
	if err != nil || int(probe.API) >= numAPIs {
		return skippedError{errUnknownPrompt}
	}
	ctx, cancel := context.WithTimeout(e.ctx, p.opts.Timeout)
	defer cancel()
	r := &Request{API: probe.API, Model: known.report.Model, Body: []byte(probe.Body), Object: o, Engine: e.engine}
	local, err := p.local.Encode(ctx, r)
	if err != nil || local.Tokens == nil {
		if e.ctx.Err() != nil {
			return errCanceled
		}
		return skippedError{errNoProbe} // what it passes on needs no proof
	}
	if local.Assets != "" && local.Assets != known.report.Assets {
		return errNotProven // the files changed in between: begin anew
	}
	want, err := ask.ids(ctx, r)
	if err != nil {
		return err
	}
	at := firstDifference(local.Tokens, want)
	if at < 0 {
		return nil
	}
	known.report.Difference = &Difference{
		Probe: probe.Name, API: probe.API, Position: at,
		Local: p.tokenAt(r.Model, local.Tokens, at), Engine: p.tokenAt(r.Model, want, at),
		LocalCount: len(local.Tokens), EngineCount: len(want),
	}
	return nil
}

func (p *Prover) tokenAt(model string, ids []uint32, at int) TokenAt {
	if at >= len(ids) {
		return TokenAt{End: true}
	}
	t := TokenAt{ID: ids[at]}
	if names, ok := p.local.(interface {
		Token(model string, id uint32) (string, bool)
	}); ok {
		t.Text, _ = names.Token(model, t.ID)
	}
	return t
}
