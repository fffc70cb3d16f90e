package kvsteer

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
)

// Engines that store responses (/v1/responses) keep each where it was generated:
// who goes on from one, asks for it or cancels it must come to the same engine.

const pathResponses = "/v1/responses/"

// answered remembers where a response is.
func (s *Selection) answered(id string) {
	s.mu.Lock()
	m, rank := s.attempt.member, s.attempt.rank
	s.mu.Unlock()
	r := s.router
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	r.responses.moved(keyOf(id), place{m, rank})
	if r.opts.tenancy != nil {
		r.responses.moved(s.account.response(&s.parsed.hints, id), place{m, rank})
	}
}

// response stands for a response of the account's.
func (a *account) response(h *hints, id string) uint64 {
	return keyOf("response", a.identity.Org, h.tenant, id)
}

// anothers refuses a response that is known to be another tenant's: an engine would give it
// to anybody.
func (r *Router) anothers(s *Selection, id string) *Error {
	if r.opts.tenancy == nil || id == "" {
		return nil
	}
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if r.responses.home(keyOf(id)).member == nil || r.responses.home(s.account.response(&s.parsed.hints, id)).member != nil {
		return nil
	}
	return &Error{Code: CodeForbidden, Status: http.StatusNotFound, Message: "the request's tenant has no response of this id"}
}

// responseIn is the id of the response that a path names, "" if it names none.
func responseIn(path string) string {
	rest, _ := strings.CutPrefix(path, pathResponses)
	if rest == path {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// holder is who has the response that the request goes on from; zero if it goes on
// from none, or if nobody who takes requests is known to have it. The caller holds
// pickMu.
func (r *Router) holder(s *Selection) (has place, lost bool) {
	if s.parsed.hints.previous == "" {
		return place{}, false
	}
	has = r.responses.home(keyOf(s.parsed.hints.previous))
	if has.member == nil || !has.member.Routable() || !s.servedBy(has.member) || s.wasTried(has.member.ID()) {
		return place{}, true
	}
	return has, false
}

// servedBy reports whether m serves one of the models that the request may be served
// with.
func (s *Selection) servedBy(m *fleet.Member) bool {
	return slices.ContainsFunc(s.views, func(v view) bool { return m.Serves(v.model) })
}

// responseHolder is the worker that has the response named in a path, nil if it is
// not known, or takes no requests.
func (r *Router) responseHolder(path string) *fleet.Member {
	id := responseIn(path)
	if id == "" {
		return nil
	}
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if m := r.responses.home(keyOf(id)).member; m != nil && m.Routable() {
		return m
	}
	return nil
}

// reasonLost is what decisions say of a request whose previous response is nowhere.
const reasonLost = "previous response: no worker is known to have it, the engine may refuse"
