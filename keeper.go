package kvsteer

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/providers"
)

// Some paths are about things that a backend keeps: files, batches, threads. A request for
// one must come to where it is, which a provider's Paths say. Stored responses are found by
// their ids, see stateful.go.

// stateful reports whether a path is about things that are kept.
func stateful(urlPath string) bool {
	rest := versioned(urlPath)
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

// versioned is what follows "/v1/", wherever that stands: a service may look for it behind
// what is in front. "" if it is nowhere.
func versioned(p string) string {
	_, rest, _ := strings.Cut(path.Clean(p)+"/", "/v1/")
	for strings.HasPrefix(rest, "v1/") {
		rest = rest[len("v1/"):]
	}
	return strings.TrimSuffix(rest, "/")
}

// keeper is the provider that keeps what the path is about, nil if nobody is known to.
func (r *Router) keeper(urlPath string) *providers.Offer {
	if r.opts.providers == nil {
		return nil
	}
	return r.opts.providers.ForPath(urlPath)
}

// allowed reports whether a request that no prompt routes is served at all. Who sets a
// function of its own is asked about what providers keep, too.
func allowed(allow func(*http.Request) bool, keeper *providers.Offer, req *http.Request) bool {
	if allow != nil {
		return allow(req)
	}
	return keeper != nil || DefaultForward(req)
}

// Forwards to a provider that serves a model are made with the gateway's account, so only
// what keeps nothing, and reads nothing that is kept, goes there.

// sold refuses a forward that no provider of its model is sent.
func (r *Router) sold(p *Placement) *Error {
	at := strings.TrimSuffix(p.path, "/")
	refused := func(why string) *Error {
		return &Error{
			Code:    CodeNotForwarded,
			Message: "only providers serve the model " + quote(p.model) + ", and " + p.method + " " + quote(at) + " is not sent to them" + why,
		}
	}
	if p.method != http.MethodPost {
		return refused("")
	}
	switch at {
	case pathCount:
		if o, err := jsonscan.Parse(p.body, 0); p.asked.stranger() && (err != nil || namesKept(o)) {
			return &Error{Code: CodeForbidden, Message: whyKept}
		}
		return nil
	case "/v1/moderations":
		return nil
	case "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/generations", "/v1/rerank":
		if t := r.opts.tenancy; t != nil && t.Limits != nil {
			return refused(" while limits are in force: what it uses isn't known")
		}
		return nil
	default:
		return refused("")
	}
}

func notForwarded(urlPath string, keeper *providers.Offer) *Error {
	message := "the path " + quote(urlPath) + " is not forwarded to workers"
	switch {
	case keeper != nil:
		message = "the path " + quote(urlPath) + " is kept by a provider, and the gateway's Forward doesn't let the request through"
	case stateful(urlPath):
		message = "the path " + quote(urlPath) + " is about things that a backend keeps, and nobody is known to keep them: " +
			"name the path in the Paths of the provider that does"
	default:
	}
	return &Error{Code: CodeNotForwarded, Message: message}
}

// stranger reports whether nothing says which providers' accounts the request's sender may
// share.
func (s *Selection) stranger() bool {
	id := s.account.identity
	return s.router.opts.tenancy != nil && (id == nil || id.Providers == nil)
}

// shares refuses a request about what a provider keeps for the gateway's account, and so for
// all tenants, unless it is said of its sender that it may use that very provider.
func shares(s *Selection, keeper *providers.Offer) *Error {
	if !s.barred(keeper) && !s.stranger() {
		return nil
	}
	return &Error{
		Code: CodeForbidden,
		Message: "what the provider " + quote(keeper.Provider()) +
			" keeps is shared by all who may use it, and the request's sender isn't listed as one",
	}
}

// keeps says why a prompt may not go to o: by its ids it would reach what the provider
// keeps for the gateway's account, which is shared as shares has it. A response is
// its tenant's if the router has seen it made. The caller holds pickMu.
func (s *Selection) keeps(o *providers.Offer) (why string) {
	r, h := s.router, &s.parsed.hints
	if !s.stranger() || !o.Native(s.parsed.api) {
		return "" // a translation carries no ids over
	}
	nowhere := place{}
	if h.named || h.previous != "" && r.responses.home(s.account.response(h, h.previous)) == nowhere {
		return whyKept
	}
	return ""
}

const whyKept = "the request names what the provider keeps for all tenants, and its sender isn't listed as one who may use that"

// keyScope is whose keys of idempotency are told apart at a provider; "" if there is one
// tenant only.
func (s *Selection) keyScope() string {
	id := s.account.identity
	if s.router.opts.tenancy == nil || id == nil {
		return ""
	}
	return strconv.Quote(id.Org) + strconv.Quote(s.parsed.hints.tenant)
}

// bookOnly books a request at o, which alone has what it is about, if the policy lets it.
func (r *Router) bookOnly(p *Placement, o *providers.Offer) *Error {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	st := o.Standing(r.opts.now())
	if st.Ready && len(p.tried) == 0 {
		left, refused := r.left(p, r.fleet.Snapshot(), nil, []*providers.Offer{o})
		if refused != nil {
			return refused
		}
		if len(left) > 0 {
			p.take(left[0])
			return nil
		}
		st = o.Standing(r.opts.now()) // which has changed meanwhile
	}
	return &Error{
		Code: CodeNoCandidates, RetryAfter: max(st.RetryAfter, retrySoon),
		Message: "who keeps what the request is about can't take it at the moment, and nobody else can",
		Err:     fmt.Errorf("provider %s: %s", quote(o.Provider()), cmp.Or(st.Reason, "its state has changed")),
	}
}

// untouched reports whether err says that nothing reached a provider.
func untouched(err error) bool {
	var e *providers.Error
	return errors.As(err, &e) && (e.Class == providers.ClassConnect || e.Class == providers.ClassUnsupported)
}
