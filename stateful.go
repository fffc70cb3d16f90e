package kvsteer

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/providers"
)

// Engines that store responses (/v1/responses) keep each where it was generated:
// who goes on from one, asks for it or cancels it must come to the same engine.

// answered remembers where a response is.
func (s *Selection) answered(id string) {
	s.mu.Lock()
	at := s.attempt.place()
	s.mu.Unlock()
	if at.offer != nil && !at.offer.Native(s.parsed.api) {
		return // it is of our own making, and nobody keeps it
	}
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
func responseIn(urlPath string) string {
	rest, ok := strings.CutPrefix(versioned(urlPath), "responses/")
	if !ok {
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
	if has.offer != nil {
		return place{offer: s.heir(has.offer)}, false // nobody else has it, whether it is ready or not
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

// heir is the offer that has what o kept, of those that the request may go to: itself, or
// another of its provider's. It is o if there is none.
func (s *Selection) heir(o *providers.Offer) *providers.Offer {
	heir := o
	for i := range s.views {
		for _, other := range s.offers(s.views[i].model) {
			switch {
			case other == o:
				return o
			case heir == o && other.Provider() == o.Provider():
				heir = other
			default:
			}
		}
	}
	return heir
}

// responseHolder is where the response is that the request's path names; zero if that is
// not known, or is a worker that takes no requests. An error means that nobody else can
// be asked for it.
func (r *Router) responseHolder(p *Placement) (place, *Error) {
	id := responseIn(p.path)
	if id == "" {
		return place{}, nil
	}
	r.pickMu.Lock()
	at := r.responses.home(keyOf(id))
	r.pickMu.Unlock()
	switch {
	case at.member != nil && at.member.Routable():
		return place{member: at.member}, nil
	case at.offer == nil:
		return place{}, nil
	case p.asked.barred(at.offer):
		return place{}, &Error{Code: CodeForbidden, Message: "the response is at a provider that the request may not go to"}
	default:
	}
	var heir *providers.Offer // any of the provider's: it finds the response by its id
	for _, o := range r.opts.providers.All() {
		switch same := o.Provider() == at.offer.Provider(); {
		case o == at.offer, same && o.Model() == at.offer.Model():
			return place{offer: o}, nil
		case same && heir == nil && !p.asked.barred(o):
			heir = o
		default:
		}
	}
	if heir != nil {
		return place{offer: heir}, nil
	}
	return place{}, &Error{Code: CodeNoCandidates, Message: "the response is at a provider that is not used any more"}
}

// reasonLost is what decisions say of a request whose previous response is nowhere.
const reasonLost = "previous response: no worker is known to have it, the engine may refuse"
