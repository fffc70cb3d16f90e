package kvsteer

import (
	"net/http"
	"slices"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
)

// What a client sends to a path that no prompt routes (/rerank, /tokenize, a path that
// only an engine knows) may say as much as a prompt does. It goes to those workers only
// that the policy leaves for it, and of these to the least loaded.

// brings reports whether the request says something that a policy is to be asked about.
func (f *Forward) brings() bool {
	req := f.HTTP
	return len(f.Body) > 0 || req.Body != nil && req.Body != http.NoBody ||
		req.Header.Get("Upgrade") != "" // what comes after an upgrade says something
}

// question is a forwarded request as the policy is asked about it: of no API that rules
// name, with the tags that the gateway knows, all others unknown.
func (r *Router) question(f *Forward, model string) (*Selection, *Error) {
	req := f.HTTP
	q := &Request{Model: model, Body: f.Body, Among: f.Among}
	q.came(req)
	if f.Describe != nil {
		f.Describe(req, q)
	}
	id, refused := r.identify(req.Context(), q)
	if refused == nil {
		refused = permitted(id, model)
	}
	if refused != nil {
		return nil, refused
	}
	s := &Selection{router: r, policy: r.opts.current(), tags: once(q.Tags)}
	if !f.brings() {
		s.tags = r.silent(s.policy, s.tags)
	}
	s.account.identity = id
	s.parsed = parsed{model: model, hints: hints{
		tenant: q.Tenant, qos: q.QoS, pool: q.Pool, among: q.Among, priority: q.Priority, session: q.Session,
		local: f.WorkersOnly || q.WorkersOnly,
	}}
	s.parsed.belong(id)
	s.session = s.parsed.sessionKey()
	s.header = kept(s.policy, req.Header, nil)
	return s, nil
}

// silent is what is known of a request that says nothing: what classifiers look for in
// texts isn't there.
func (r *Router) silent(p policy.Policy, tags []policy.Tag) []policy.Tag {
	needy, ok := p.(policy.Needy)
	if !ok || r.opts.classifiers == nil {
		return tags
	}
	known := r.opts.classifiers.Tags()
	for _, name := range needy.Needs().Tags {
		given := func(t policy.Tag) bool { return t.Name == name }
		if slices.Contains(known, name) && !slices.ContainsFunc(tags, given) {
			tags = append(tags, policy.Tag{Name: name, State: policy.TagAbsent})
		}
	}
	return tags
}

// left are those of members and offers that the policy prefers for a request that no prompt
// routes, or why there is none. The caller holds pickMu.
func (r *Router) left(p *Placement, snap *fleet.Snapshot, members []*fleet.Member, offers []*providers.Offer) ([]place, *Error) {
	s := p.asked
	if s.draw == 0 {
		if s.draw = s.session; s.draw == 0 {
			s.draw = r.rng.Uint64()
		}
	}
	q := s.prompt()
	q.API, q.Attempt, q.DryRun = "", len(p.tried)+1, true
	ev := r.evaluation()
	defer r.release(ev)
	var of []place // of each candidate
	for _, m := range members {
		if at := (place{member: m}); m.Routable() && !slices.Contains(p.tried, at) && !s.elsewhere(m) {
			for range r.stand(ev, q, snap, m) {
				of = append(of, at)
			}
		}
	}
	for _, o := range offers {
		at := place{offer: o}
		if st := o.Standing(r.opts.now()); st.Ready && !slices.Contains(p.tried, at) {
			ev.Outside(&policy.Candidate{
				Name: o.Provider(), Instance: o.ID(), Type: policy.Provider, Model: s.parsed.model, Labels: o.Labels(),
				InFlight: st.InFlight, RemainingQuota: st.Remaining, QuotaKnown: st.QuotaKnown, Tie: r.rng.Uint32(),
			})
			of = append(of, at)
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	ev.Choose(&q, s.policy)
	if len(ev.Plan.Order) == 0 {
		return nil, rejected(&ev.Plan)
	}
	var out []place
	for _, i := range ev.Plan.Order[:ev.Plan.Head()] {
		if !slices.Contains(out, of[i]) {
			out = append(out, of[i])
		}
	}
	return out, nil
}

// stand adds the ranks of m as candidates and returns how many. For a request that names
// no model it stands for each that it serves, as it may be meant.
func (r *Router) stand(ev *evaluation, q steer.Prompt, snap *fleet.Snapshot, m *fleet.Member) (n int) {
	w, now, model, home := m.Worker(), r.opts.now(), q.Model, r.residency.of(m.ID())
	for rank := range m.Ranks() {
		load := m.Pressure(rank, now)
		place := steer.Place{
			Name: w.Name, Instance: m.ID(), Rank: rank, Class: w.Class, Labels: w.Labels,
			Prefilling: load.PrefillRequests, Decoding: load.DecodeRequests,
			OtherWaiting: load.OtherWaiting, OtherRunning: load.OtherRunning, KVUsage: load.KVUsage,
			Trust: home.suspected(rank, r.index.Standing(home.owner(rank)).Trust), Tie: r.rng.Uint32(),
		}
		q.Model = model
		ev.Add(&q, &place)
		n++
		if model != "" {
			continue
		}
		for _, served := range snap.Models() {
			if q.Model = served.Name; m.Serves(q.Model) {
				ev.Add(&q, &place)
				n++
			}
		}
	}
	return n
}

// once is the tags with each name once, for the worse where two speak of one.
func once(tags []policy.Tag) []policy.Tag {
	var out []policy.Tag
	for _, tag := range tags {
		i := slices.IndexFunc(out, func(t policy.Tag) bool { return t.Name == tag.Name })
		switch {
		case i < 0:
			out = append(out, tag)
		case out[i].State == policy.TagPresent || tag.State == policy.TagAbsent:
		default:
			out[i].State = tag.State
		}
	}
	return out
}
