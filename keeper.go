package kvsteer

import (
	"errors"
	"strings"

	"github.com/kvsteer/kvsteer/providers"
)

// Some paths are about things that a backend keeps: files, batches, threads. A request for
// one must come to where it is, which a provider's Paths say. Stored responses are found by
// their ids, see stateful.go.

// stateful reports whether a path is about things that are kept.
func stateful(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return false
	}
	first, _, _ := strings.Cut(rest, "/")
	switch first {
	case "files", "uploads", "batches", "fine_tuning", "vector_stores", "assistants", "threads",
		"conversations", "containers", "evals", "skills", "videos", "chatkit":
		return true
	case "messages": // Anthropic's, below those that carry a prompt
		return strings.HasPrefix(rest, "messages/batches")
	default:
		return false
	}
}

// keeper is the provider that keeps what the path is about, nil if nobody is known to.
func (r *Router) keeper(path string) *providers.Offer {
	if r.opts.providers == nil {
		return nil
	}
	return r.opts.providers.ForPath(path)
}

func notForwarded(path string) *Error {
	message := "the path " + quote(path) + " is not forwarded to workers"
	if stateful(strings.TrimSuffix(path, "/")) {
		message = "the path " + quote(path) + " is about things that a backend keeps, and nobody is known to keep them: " +
			"name the path in the Paths of the provider that does"
	}
	return &Error{Code: CodeNotForwarded, Message: message}
}

// shares refuses a request about what a provider keeps for the gateway's account, and so for
// all tenants, unless it is said of its sender that it may use that very provider.
func (r *Router) shares(s *Selection, keeper *providers.Offer) *Error {
	id := s.account.identity
	if !s.barred(keeper) && (r.opts.tenancy == nil || id != nil && id.Providers != nil) {
		return nil
	}
	return &Error{
		Code: CodeForbidden,
		Message: "what the provider " + quote(keeper.Provider()) +
			" keeps is shared by all who may use it, and the request's sender isn't listed as one",
	}
}

// bookKeeper books a request at who keeps what it is about, if the policy lets it.
func (r *Router) bookKeeper(p *Placement) *Error {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if st := p.keeper.Standing(r.opts.now()); !st.Ready || len(p.tried) > 0 {
		return &Error{
			Code: CodeNoCandidates, RetryAfter: max(st.RetryAfter, retrySoon),
			Message: "the provider " + quote(p.keeper.Provider()) + " can't take the request at the moment: " + st.Reason,
		}
	}
	if p.brings {
		if _, refused := r.left(p, r.fleet.Snapshot(), nil, []*providers.Offer{p.keeper}); refused != nil {
			return refused
		}
	}
	p.take(place{offer: p.keeper})
	return nil
}

// untouched reports whether err says that nothing reached a provider.
func untouched(err error) bool {
	var e *providers.Error
	return errors.As(err, &e) && (e.Class == providers.ClassConnect || e.Class == providers.ClassUnsupported)
}
