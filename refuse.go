package kvsteer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
)

// Why nobody is chosen, as an error.

// retrySoon is the advice when workers exist but none can take requests: about
// two probe intervals.
const retrySoon = 2 * time.Second

func (r *Router) nobody(s *Selection, ev *evaluation) *Error {
	if len(ev.Candidates) == 0 {
		snap, what := r.fleet.Snapshot(), "no healthy worker serves the model "
		model := s.main().model
		if slices.ContainsFunc(snap.ForModel(model), computesOnly) {
			what = "workers compute prompts but none generates answers for the model "
		}
		if why := ev.unfit(); why != "" && !s.mayHaveWorkers(snap) && ev.Plan.Empty.Action != policy.Wait {
			return badRequest(nil, "nobody who serves the model %s can serve this request: %s", quote(model), why)
		}
		err := &Error{
			Code: CodeNoCandidates, RetryAfter: retrySoon, Err: errors.Join(ailing(s.pooled(snap.Serving(model))), ev.ailing()),
			Message: what + quote(model) + " at the moment",
		}
		if s.parsed.hints.previous != "" && !s.lost {
			err.Message = "nobody but who has the previous response can go on from it, and that can't be had at the moment"
		}
		if len(ev.unready) > 0 {
			err.RetryAfter = ev.soonest()
		}
		err.onEmpty(&ev.Plan)
		return err
	}
	if err := rejected(&ev.Plan); !r.later(s, ev) {
		return err
	}
	err := &Error{
		Code: CodeNoCandidates, RetryAfter: ev.soonest(), Rule: ev.Plan.Rule, Err: ev.ailing(),
		Message: "nobody of those that the policy rule " + quote(ev.Plan.Rule) + " allows can take the request at the moment",
	}
	err.onEmpty(&ev.Plan)
	return err
}

// mayHaveWorkers reports whether workers serve one of the request's models, well or not, or
// may: some have yet to say what they serve.
func (s *Selection) mayHaveWorkers(snap *fleet.Snapshot) bool {
	unknown := func(m *fleet.Member) bool { return !m.ModelsKnown() }
	serve := func(v view) bool { return len(s.pooled(snap.Serving(v.model))) > 0 }
	return slices.ContainsFunc(s.pooled(snap.Members()), unknown) || slices.ContainsFunc(s.views, serve)
}

// rejected says why a plan has nobody.
func rejected(plan *policy.Plan) *Error {
	err := &Error{
		Code: CodeRejectedByPolicy, Rule: plan.Rule, Status: plan.Empty.Status, Message: plan.Empty.Message,
	}
	if err.Message == "" {
		err.Message = "the policy rule " + quote(plan.Rule) + " left no candidate"
	}
	if plan.Empty.Action == policy.Wait {
		err.linger = plan.Empty.UpTo
		err.RetryAfter = retrySoon
	}
	return err
}

// onEmpty makes err what the policy says of a request for which nothing is left, as far
// as it says anything: nothing is left either when nobody is well.
func (e *Error) onEmpty(plan *policy.Plan) {
	empty := &plan.Empty
	if *empty == (policy.OnEmpty{}) {
		return
	}
	e.Rule, e.Status = plan.Rule, empty.Status
	if empty.Message != "" {
		e.Message = empty.Message
	}
	if empty.Action == policy.Wait {
		e.linger = empty.UpTo
	}
}

// ailing says what is wrong with workers that can't take requests, a few of them.
// It is for the operator: WriteError does not show it to clients.
func ailing(members []*fleet.Member) error {
	const most = 3
	var errs []error
	for _, m := range members {
		h := m.Health()
		switch {
		case m.Routable():
			continue
		case len(errs) == most:
			errs = append(errs, errors.New("and more"))
			return errors.Join(errs...)
		case m.Draining():
			errs = append(errs, fmt.Errorf("worker %q is draining", m.Name()))
		case h.Err != nil:
			errs = append(errs, fmt.Errorf("worker %q is %s: %w", m.Name(), h.State, h.Err))
		default:
			errs = append(errs, fmt.Errorf("worker %q is %s", m.Name(), h.State))
		}
	}
	if len(members) == 0 {
		return errors.New("the fleet has no workers")
	}
	return errors.Join(errs...)
}
