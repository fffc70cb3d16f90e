package kvsteer

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

// view is a request as one model sees it. There are several if the policy may send
// the request to other models than the one that it names.
type view struct {
	model string
	enc   prompt.Encoding
	// body is what is sent, but for what a relay adds: it names the model.
	body   []byte
	object jsonscan.Object
}

// current is the policy that decides about a request that has just come.
func (o *options) current() policy.Policy {
	if s, ok := o.policy.(policy.Source); ok {
		return s.Current()
	}
	return o.policy
}

// view fills in the views of a request: its prompt as each of the models that it may
// be served with takes it.
func (r *Router) view(ctx context.Context, s *Selection, tokens []uint32) error {
	snap := r.fleet.Snapshot()
	s.alias = len(snap.Serving(s.parsed.model)) == 0 && len(s.offers(s.parsed.model)) == 0
	s.views = s.one[:0]
	for _, model := range s.models() {
		members := s.pooled(snap.Serving(model))
		if len(members) == 0 && len(s.offers(model)) == 0 {
			continue
		}
		v := view{model: model, body: s.parsed.body, object: s.parsed.object}
		if model != s.parsed.model && len(v.body) > 0 {
			var err error
			if v.body, v.object, err = renamed(s.parsed.object, v.body, model); err != nil {
				return badRequest(err, "the body can't be changed to name another model")
			}
		}
		ids := tokens
		if model != s.parsed.model && len(v.body) > 0 {
			ids = nil // they are another model's
		}
		var err error
		v.enc, err = r.encoder.Encode(ctx, &prompt.Request{
			API: s.parsed.api, Model: model, Body: v.body, Object: v.object,
			TokenIDs: ids, Engine: r.tokenizingEngine(s.pooled(snap.ForModel(model))),
		})
		if ctx.Err() != nil { // the encoder makes the best of it, but nobody waits for that
			return canceled(ctx)
		}
		if err != nil || planted.UnknownRefused && !v.enc.Source.Exact() {
			return badRequest(err, "the prompt can't be read")
		}
		if planted.UnknownUnserved && !v.enc.Source.Exact() {
			return &Error{Code: CodeNoCandidates, Message: "nobody is known to hold the prompt"}
		}
		s.views = append(s.views, v)
	}
	if len(s.views) == 0 {
		return s.unservable(snap)
	}
	return nil
}

// models lists the models that the request may be served with.
func (s *Selection) models() []string {
	s.scope[0] = s.parsed.model
	p, ok := s.policy.(policy.Scoped)
	if !ok {
		return s.scope[:]
	}
	q := s.prompt()
	req := q.Policy()
	return p.Models(&req, nil)
}

// unservable says why no worker that the request may go to has its model: nobody serves
// it, or, while there are none or they have yet to report what they serve, that is not
// known yet. A pool is asked for as if it were the whole fleet.
func (s *Selection) unservable(snap *fleet.Snapshot) *Error {
	members, model := s.pooled(snap.Members()), s.parsed.model
	of := ""
	switch pool := s.parsed.hints.pool; {
	case len(members) == 0 && pool != "":
		of = "the pool " + quote(pool)
	case len(s.parsed.hints.among) > 0:
		of = "those that the request is limited to" // for this time: another may have it
	default:
	}
	if of != "" && len(snap.Serving(model)) > 0 {
		return &Error{
			Code: CodeNoCandidates, RetryAfter: retrySoon,
			Message: "no worker of " + of + " serves the model " + quote(model),
		}
	}
	unknown := func(m *fleet.Member) bool { return !m.ModelsKnown() }
	if len(members) == 0 || slices.ContainsFunc(members, unknown) {
		return &Error{
			Code: CodeNoCandidates, RetryAfter: retrySoon, Err: ailing(members),
			Message: "no healthy worker is known to serve the model " + quote(model) + " yet",
		}
	}
	var served []string
	for _, m := range s.served(snap) {
		if permitted(s.account.identity, m.Name) == nil {
			served = append(served, m.Name)
		}
	}
	for _, name := range s.offered() {
		if permitted(s.account.identity, name) == nil && !slices.Contains(served, name) {
			served = append(served, name)
		}
	}
	return unknownModel(model, served)
}

// pooled are those of members that the request may go to.
func (s *Selection) pooled(members []*fleet.Member) []*fleet.Member {
	if !s.narrowed() || !slices.ContainsFunc(members, s.elsewhere) {
		return members
	}
	return slices.DeleteFunc(slices.Clone(members), s.elsewhere)
}

// narrowed reports whether the request may go to some workers only.
func (s *Selection) narrowed() bool {
	return s.parsed.hints.pool != "" || len(s.parsed.hints.among) > 0
}

// elsewhere reports whether m is none of those.
func (s *Selection) elsewhere(m *fleet.Member) bool {
	h := &s.parsed.hints
	if h.pool != "" && m.Worker().Pool != h.pool {
		return true
	}
	return len(h.among) > 0 && !named(m, h.among)
}

// named reports whether m is one of the names, or at one of the addresses.
func named(m *fleet.Member, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name == m.Name() || isAt(m, name) })
}

// isAt reports whether m is at address, a host:port: however an IP address is spelled,
// and with the port that a URL's scheme implies.
func isAt(m *fleet.Member, address string) bool {
	u := m.URL()
	if strings.EqualFold(u.Host, address) {
		return true
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	own := u.Port()
	if own == "" {
		own = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if own != port {
		return false
	}
	if strings.EqualFold(u.Hostname(), host) {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return false
	}
	b, err := netip.ParseAddr(host)
	return err == nil && a.Unmap() == b.Unmap()
}

// renamed is the body with another model's name.
func renamed(o jsonscan.Object, body []byte, model string) ([]byte, jsonscan.Object, error) {
	var e jsonscan.Edit
	e.SetString("model", model)
	out, err := e.Apply(o)
	if err != nil || len(out) == len(body) && &out[0] == &body[0] {
		return body, o, err
	}
	parsed, err := jsonscan.Parse(out, 0)
	return out, parsed, err
}

// main is the view that speaks for the request: of the model that it names, if that
// is among them.
func (s *Selection) main() *view { return &s.views[0] }

// prompt is the request as the steps of a choice see it.
func (s *Selection) prompt() steer.Prompt {
	h := &s.parsed.hints
	q := steer.Prompt{
		Model: s.parsed.model, API: kind(s.parsed.api), Bypass: s.parsed.bypass,
		Tenant: h.tenant, QoS: h.qos, Pool: h.pool, Priority: h.priority, Session: s.session != 0,
		Tags: s.tags, Header: s.header, Draw: s.draw,
		TargetTTFT: h.ttft, TargetITL: h.itl,
	}
	if len(s.views) > 0 {
		s.main().describe(&q)
	}
	q.Alias = s.alias
	return q
}

// kind is what policies call an API.
func kind(api API) string {
	if api == ChatCompletions {
		return "chat"
	}
	return api.String()
}

// describe makes q speak of the view's prompt.
func (v *view) describe(q *steer.Prompt) {
	q.Tokens, q.Estimated = v.enc.Count, v.enc.Source == prompt.SourceBytes
}

// kept is what of a request's headers a policy, or a hook, may ask about later.
func kept(p policy.Policy, h http.Header, also []string) map[string][]string {
	names := also
	if needy, ok := p.(policy.Needy); ok {
		names = slices.Concat(also, needy.Needs().Headers)
	}
	return only(h, names)
}

// only is the part of h that has these names; nil if there is none.
func only(h map[string][]string, names []string) map[string][]string {
	var out map[string][]string
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		if values := h[name]; len(values) > 0 {
			if out == nil {
				out = make(map[string][]string)
			}
			out[name] = slices.Clone(values)
		}
	}
	return out
}
