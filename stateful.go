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
	at := s.attempt.place()
	s.mu.Unlock()
	r := s.router
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	r.responses.moved(keyOf(id), at)
	if r.opts.tenancy != nil {
		r.responses.moved(s.account.response(&s.parsed.hints, id), at)
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
	nowhere := place{}
	if r.responses.home(keyOf(id)) == nowhere || r.responses.home(s.account.response(&s.parsed.hints, id)) != nowhere {
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
	if o := has.offer; o != nil && slices.ContainsFunc(s.views, func(v view) bool { return slices.Contains(s.offers(v.model), o) }) {
		return has, s.wasTried(o.ID())
	}
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

// responseHolder is where the response is that a path names; zero if that is not known,
// or takes no requests.
func (r *Router) responseHolder(path string) place {
	id := responseIn(path)
	if id == "" {
		return place{}
	}
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if at := r.responses.home(keyOf(id)); at.offer != nil || at.member != nil && at.member.Routable() {
		return at
	}
	return place{}
}

// reasonLost is what decisions say of a request whose previous response is nowhere.
const reasonLost = "previous response: no worker is known to have it, the engine may refuse"
