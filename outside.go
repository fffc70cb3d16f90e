package kvsteer

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/abroad"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// External services are candidates beside the workers: an offer, which is one model at one
// provider, has no cache that we know of, but a time to first token, a price and a quota.
// They come behind the workers in every list, and the policy says whether they are used.

// WithProviders sets the external services that requests may go to, as far as the policy
// lets them: that of [policy.Default] does not. The caller closes the Set, after the Router.
func WithProviders(s *providers.Set) Option {
	return optionFunc(func(o *options) { o.providers = s })
}

// expectedOutput is how long an answer is taken to be of which nothing is known, in tokens.
const expectedOutput = 256

// millionths of the currency are the unit of costs.
const millionths = 1e6

// labelPool is the label by which a provider, or a model of it, belongs to a pool.
const labelPool = "pool"

// estimatedExcess: a prompt whose length is estimated must exceed a context window by half
// to be taken for too long.
const estimatedExcess = 1.5

// Unready is a backend that would serve the model, and can't take this request now.
type Unready struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	// Reason is a short phrase.
	Reason string `json:"reason"`
	// RetryAfter is when that is expected to be over, 0 if it isn't known, or never.
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	// Unfit: it never can. Else it only can't now.
	Unfit bool `json:"unfit,omitempty"`
}

// offers are those that serve the model.
func (o *options) offers(model string) []*providers.Offer {
	if o.providers == nil {
		return nil
	}
	return o.providers.Offers(model)
}

// offers are those for the model that the request may go to, as far as that does not change
// while it lives.
func (s *Selection) offers(model string) []*providers.Offer {
	all := s.router.opts.offers(model)
	if !slices.ContainsFunc(all, s.barred) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), s.barred)
}

// barred reports whether the request may not go to the offer, whatever its state.
func (s *Selection) barred(o *providers.Offer) bool {
	if s.parsed.hints.local {
		return true
	}
	if id := s.account.identity; id != nil && !id.MayUseProvider(o.Provider()) {
		return true
	}
	if pool := s.parsed.hints.pool; pool != "" && o.Labels()[labelPool] != pool {
		return true // a provider is of no pool but that of its label
	}
	among := s.parsed.hints.among
	return len(among) > 0 && !slices.Contains(among, o.Provider())
}

// burst adds the offers for the request's views as candidates. It comes after the workers'
// times were predicted. The caller holds pickMu.
func (r *Router) burst(s *Selection, ev *evaluation, has place, now time.Time) {
	if r.opts.providers == nil {
		return
	}
	for v := range s.views {
		for _, o := range s.offers(s.views[v].model) {
			if has.offer != nil && o != has.offer || has.member != nil || s.wasTried(o.ID()) {
				continue
			}
			st := o.Standing(now)
			why := s.unfit(o, v)
			if why != "" {
				st.Ready, st.Reason, st.RetryAfter = false, why, 0
			}
			if !st.Ready {
				ev.unready = append(ev.unready, Unready{
					Name: o.Provider(), Model: s.views[v].model, Reason: st.Reason, RetryAfter: st.RetryAfter, Unfit: why != "",
				})
				if why == "" {
					ev.later = append(ev.later, r.outside(s, o, v, &st))
				}
				continue
			}
			ev.outside(r.outside(s, o, v, &st), ref{offer: o, view: v})
		}
	}
}

// unfit says why the offer can't serve the request at all, "" if it can.
func (s *Selection) unfit(o *providers.Offer, v int) string {
	enc := &s.views[v].enc
	tokens := float64(enc.Count)
	if !enc.Source.Exact() {
		tokens /= estimatedExcess
	}
	if w := o.ContextWindow(); w > 0 && (tokens > float64(w) || w <= s.narrow) {
		return "the prompt exceeds the context window"
	}
	if ok, why := o.Takes(s.parsed.api, s.views[v].object); !ok {
		return why
	}
	return s.keeps(o)
}

// outside is the offer as a candidate.
func (r *Router) outside(s *Selection, o *providers.Offer, v int, st *providers.Standing) policy.Candidate {
	enc := &s.views[v].enc
	output := s.output()
	x := o.Expect(enc.Count, output)
	c := policy.Candidate{
		Name: o.Provider(), Instance: o.ID(), Type: policy.Provider, Model: s.views[v].model, Labels: o.Labels(),
		InFlight: st.InFlight, Queued: st.Prefilling, Running: st.InFlight - st.Prefilling,
		PredictedTTFT: x.TTFT, PredictedP90: x.P90, PredictedITL: x.ITL, PredictedE2E: x.E2E,
		RemainingQuota: st.Remaining, QuotaKnown: st.QuotaKnown, Tie: r.rng.Uint32(),
	}
	var cost int64
	cost, c.PriceKnown = r.opts.costAt(o, s.views[v].model, &price.Tokens{Uncached: int64(enc.Count), Output: int64(output)})
	c.Price = float64(cost) / millionths
	return c
}

// priceHere is what the request costs at a worker, as the fleet's prices have it.
func (r *Router) priceHere(s *Selection, v *view) (dollars float64, known bool) {
	t := r.opts.tenancy
	if t == nil || t.Prices == nil {
		return 0, false
	}
	cost, unpriced := t.cost(v.model, &quota.Used{Uncached: int64(v.enc.Count), Output: int64(s.output())})
	return float64(cost) / millionths, !unpriced
}

// output is how many tokens the answer is expected to have.
func (s *Selection) output() int {
	if s.expects == 0 {
		w := wishOf(&s.parsed)
		n := s.account.demand.Output
		if n <= 0 {
			n = expectedOutput
		}
		if w.limit > 0 {
			n = min(n, w.limit)
		}
		s.expects = int(min(n, maxAnswers*expectedOutput))
	}
	return s.expects
}

// outside adds a candidate whose numbers are known.
func (ev *evaluation) outside(c policy.Candidate, rf ref) {
	ev.Outside(&c)
	ev.refs = append(ev.refs, rf)
	ev.places = append(ev.places, steer.Place{Name: c.Name, Instance: c.Instance, Labels: c.Labels, Tie: c.Tie})
}

// bookOffer books candidate i of ev, which is an offer.
func (r *Router) bookOffer(s *Selection, ev *evaluation, i int) leg {
	rf := &ev.refs[i]
	v := &s.views[rf.view]
	sold := rf.offer.Begin(v.enc.Count, s.output())
	l := leg{began: r.opts.now(), offer: rf.offer, sold: sold, booking: sale{sold}, prompt: v.enc.Count, view: v}
	l.target = targetAt(rf.offer, v.model)
	l.target.Via = via(rf.offer, providers.Exchange{
		API: s.parsed.api, Asked: s.parsed.asked, Scope: s.keyScope(), Booking: sold, Warn: s.loses,
	})
	return l
}

// sale is a booking of an offer.
type sale struct{ *providers.Booking }

func (s sale) End() bool {
	s.Booking.End()
	return true
}

// targetAt is the offer as the target of requests for a model.
func targetAt(o *providers.Offer, model string) Target {
	return Target{Worker: o.Provider(), Instance: o.ID(), Model: model, URL: o.URL(), Provider: o.Provider(), ProviderKind: o.Kind()}
}

func via(o *providers.Offer, x providers.Exchange) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		if base != nil { // else the Set's own sends
			base = abroad.Transport(base)
		}
		return o.RoundTripper(base, x)
	}
}

// loses notes what of the request its provider does not see.
func (s *Selection) loses(field, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := *s.decision // hooks may keep the one that they were told
	d.Degradations = append(slices.Clone(d.Degradations), "not carried over: "+field+": "+reason)
	s.decision = &d
}

// id is of the instance, or the offer.
func (l *leg) id() string {
	if l.offer != nil {
		return l.offer.ID()
	}
	return l.member.ID()
}

// later reports whether the policy would let the request go to an offer that only can't
// take it at the moment. The caller holds pickMu.
func (r *Router) later(s *Selection, ev *evaluation) bool {
	if len(ev.later) == 0 {
		return false
	}
	again := r.evaluation()
	defer r.release(again)
	for i := range ev.later {
		again.outside(ev.later[i], ref{})
	}
	q := s.prompt()
	q.DryRun = true
	again.Choose(&q, s.policy)
	return len(again.Plan.Order) > 0
}

// ailing says why providers can't take the request. It is for the operator.
func (ev *evaluation) ailing() error {
	const most = 3
	var errs []error
	for i := range ev.unready[:min(most, len(ev.unready))] {
		u := &ev.unready[i]
		errs = append(errs, fmt.Errorf("provider %s: %s", quote(u.Name), u.Reason))
	}
	return errors.Join(errs...)
}

// unfit is why none of the backends can ever serve the request, "" if one might.
func (ev *evaluation) unfit() string {
	for i := range ev.unready {
		if !ev.unready[i].Unfit {
			return ""
		}
	}
	if len(ev.unready) == 0 {
		return ""
	}
	return ev.unready[0].Reason
}

// soonest is when the first of the unready ones is expected back.
func (ev *evaluation) soonest() time.Duration {
	least := time.Duration(0)
	for i := range ev.unready {
		if d := ev.unready[i].RetryAfter; d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	if least == 0 {
		return retrySoon
	}
	return least
}

// costAt is what the use of a model at an offer costs, in millionths.
func (o *options) costAt(at *providers.Offer, model string, tokens *price.Tokens) (cost int64, known bool) {
	if cost, known = at.Cost(tokens); known || o.tenancy == nil || o.tenancy.Prices == nil {
		return cost, known
	}
	for _, name := range []string{at.Upstream(), model} {
		if cost, known = o.tenancy.Prices.Cost(at.Provider(), name, tokens); known {
			break
		}
	}
	return cost, known
}

// reaches reports whether the policy lets some request for the model go to a provider: one
// of which nothing is known but that no tag is on it.
func (s *Selection) reaches(model string) bool {
	ev := s.router.evaluation()
	defer s.router.release(ev)
	for _, o := range s.offers(model) {
		ev.outside(policy.Candidate{
			Name: o.Provider(), Instance: o.ID(), Type: policy.Provider, Model: model, Labels: o.Labels(), RemainingQuota: 1,
		}, ref{})
	}
	if len(ev.Candidates) == 0 {
		return false
	}
	q := s.prompt()
	q.Model, q.API, q.DryRun, q.Tags = model, kind(ChatCompletions), true, nil
	if needy, ok := s.policy.(policy.Needy); ok {
		for _, name := range needy.Needs().Tags {
			q.Tags = append(q.Tags, policy.Tag{Name: name, State: policy.TagAbsent})
		}
	}
	ev.Choose(&q, s.policy)
	return len(ev.Plan.Order) > 0
}

// offered are the models of providers that the request may have, by name: none where the
// policy never lets it go there.
func (s *Selection) offered() []string {
	set := s.router.opts.providers
	if set == nil {
		return nil
	}
	var names []string
	for _, o := range set.All() {
		if o.Model() != "" && !slices.Contains(names, o.Model()) && s.reaches(o.Model()) {
			names = append(names, o.Model())
		}
	}
	slices.Sort(names)
	return names
}

// through is what sends a request to the target.
func (t *Target) through(base http.RoundTripper) http.RoundTripper {
	if t.Via == nil {
		return base
	}
	return t.Via(base)
}

// base is what the request's path goes behind: a provider finds its own.
func (t *Target) base() *url.URL {
	if t.Via == nil {
		return t.URL
	}
	return &url.URL{Scheme: t.URL.Scheme, Host: t.URL.Host}
}
