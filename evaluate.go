package kvsteer

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
)

// defaultBlockSize is used for a worker of which nothing else is known: vLLM's
// default on GPUs.
const defaultBlockSize = 16

// headerRank pins a request to a data-parallel rank (vLLM and SGLang).
const headerRank = "X-Data-Parallel-Rank"

// evaluation is the working memory of one choice. It is pooled: nothing in it
// survives the choice but by copy.
type evaluation struct {
	steer.Round

	refs   []ref
	places []steer.Place
	owners []kvcache.Owner
	hits   []kvcache.Hit
	asks   asks
	// before is who computes the prompt for candidates that go on from there; nil if
	// nobody does.
	before *evaluation
	relay  steer.Relay
	// unready are offers that can't take the request now; later are those of them that
	// may be able to.
	unready []Unready
	later   []policy.Candidate
}

// ref ties a candidate to what it stands for.
type ref struct {
	member *fleet.Member
	offer  *providers.Offer // in place of a member
	home   *residence
	owner  kvcache.Owner
	view   int // index into Selection.views
	keys   int // index into keys.sets
	// doubt is why the index holds less than everything of the owner, "" if it
	// doesn't, or does not say.
	doubt string
}

// place is the rank of the candidate's worker.
func (rf *ref) place(rank int) place { return place{rf.member, rank, rf.offer} }

func (ev *evaluation) reset() {
	ev.Round.Reset()
	clear(ev.refs)
	clear(ev.places)
	clear(ev.asks.in)
	ev.refs, ev.places = ev.refs[:0], ev.places[:0]
	ev.owners, ev.hits = ev.owners[:0], ev.hits[:0]
	clear(ev.later)
	ev.unready, ev.later = ev.unready[:0], ev.later[:0]
}

// adapterOn is the adapter that the model is on m, "" for a base model.
func (v *view) adapterOn(m *fleet.Member) string {
	if _, ok := m.Adapter(v.model); ok {
		return v.model
	}
	return ""
}

// evaluate fills ev, fresh from the pool, for the request as things stand now. The
// caller holds pickMu so that what it sees includes every earlier pick.
func (r *Router) evaluate(s *Selection, ev *evaluation, attempt int, dry bool) {
	now := r.opts.now()
	if ev.Waiting = r.Waiting(); s.waits {
		ev.Waiting-- // others
	}
	r.replicas.crowd(&ev.Round, now)
	if s.draw == 0 {
		s.draw = s.session
		if s.draw == 0 {
			s.draw = r.rng.Uint64()
		}
	}
	q := s.prompt()
	q.Attempt, q.DryRun = attempt, dry
	snap := r.fleet.Snapshot()
	home := r.sessions.home(s.session)
	has, lost := r.holder(s)
	s.lost = lost
	for v := range s.views {
		for _, m := range snap.ForModel(s.views[v].model) {
			if has.member != nil && m != has.member || has.offer != nil {
				continue // only one can go on from there
			}
			if m.Routable() && (planted.PrefillAnswers || !computesOnly(m)) && !s.wasTried(m.ID()) && !s.elsewhere(m) && !s.tooNarrow(m, v) {
				r.gather(s, ev, m, v, now)
				if m == home.member {
					ev.places[len(ev.places)-m.Ranks()+home.rank].Home = true
				}
			}
		}
	}
	r.relays(s, ev, snap.ForModel(s.main().model), &q, now)
	r.predict(s, ev, &q)
	r.burst(s, ev, has, now)
	if planted.RetryEscapes && attempt > 1 {
		s.policy = policy.Default{}
	}
	ev.Choose(&q, s.policy)
}

// predict looks the prompt up on the candidates that were gathered and asks the
// predictor.
func (r *Router) predict(s *Selection, ev *evaluation, q *steer.Prompt) {
	r.match(s, ev)
	of, last := *q, -1
	for i := range ev.places {
		if at := ev.refs[i].view; at != last { // candidates of one view follow each other
			v := &s.views[at]
			of.Model, last = v.model, at
			v.describe(&of)
			of.Price, of.PriceKnown = r.priceHere(s, v)
		}
		ev.places[i].Hit = ev.hits[i]
		ev.Add(&of, &ev.places[i])
	}
	ev.asks.predictor = r.predictor
	ev.Predict(&ev.asks)
}

// asks is the way to a Predictor, which has types that users know.
type asks struct {
	predictor Predictor
	in        []Features
	out       []Prediction
}

func (a *asks) Predict(in []steer.Features, out []steer.Prediction) {
	a.in = a.in[:0]
	for i := range in {
		a.in = append(a.in, Features(in[i]))
	}
	a.out = append(a.out[:0], make([]Prediction, len(in))...)
	a.predictor.Predict(a.in, a.out)
	for i := range out {
		out[i] = steer.Prediction(a.out[i])
	}
}

// features copies what was asked about the candidates; Round.Features may be of other
// ways that they went since.
func (a *asks) features(n int) []Features {
	return slices.Clone(a.in[:min(n, len(a.in))])
}

func (s *Selection) wasTried(id string) bool {
	return slices.Contains(s.tried, id)
}

// gather adds the ranks of one worker as candidates for one of the request's views.
func (r *Router) gather(s *Selection, ev *evaluation, m *fleet.Member, at int, now time.Time) {
	w := m.Worker()
	home := r.residency.of(m.ID())
	adapter := s.views[at].adapterOn(m)
	base := ""
	if adapter != "" {
		base, _ = m.Adapter(adapter)
	}
	for rank := range m.Ranks() {
		owner := home.owner(rank)
		block := r.blockSize(owner, m)
		standing, announced := r.index.Standing(owner), r.index.BlockSize(owner) > 0
		ev.refs = append(ev.refs, ref{
			member: m, home: home, owner: owner, view: at, keys: s.keys.of(s, at, block, adapter), doubt: standing.Reason,
		})
		ev.owners = append(ev.owners, owner)
		place := steer.Place{
			Name: w.Name, Instance: m.ID(), Rank: rank, Class: w.Class, Base: base, Labels: w.Labels,
			BlockSize: block, Trust: home.suspected(rank, standing.Trust), Silent: home.silent(rank), Announces: announced,
			Speculative: w.Speculative, Follows: w.Role == fleet.RoleDecode && at == 0,
			Tie: r.rng.Uint32(),
		}
		laden(&place, m, rank, now)
		if r.queue != nil {
			place.PromisedTokens, place.PromisedPairs = r.queue.ahead(m, rank)
			place.Wanting = r.queue.wanting(m, rank)
		}
		ev.places = append(ev.places, place)
	}
}

// blockSize prefers what events say over what was configured or scraped.
func (r *Router) blockSize(owner kvcache.Owner, m *fleet.Member) int {
	if n := r.index.BlockSize(owner); n > 0 {
		return n
	}
	if n := m.BlockSize(); n > 0 { // configured or scraped
		return n
	}
	return defaultBlockSize
}

// match looks the prompt up for every candidate. Candidates that share a keyset
// are asked for together; they usually all do.
func (r *Router) match(s *Selection, ev *evaluation) {
	ev.hits = append(ev.hits[:0], make([]kvcache.Hit, len(ev.refs))...)
	for start := 0; start < len(ev.refs); {
		end := start + 1
		for end < len(ev.refs) && ev.refs[end].keys == ev.refs[start].keys {
			end++
		}
		r.index.Match(s.found(ev.refs[start].keys), ev.owners[start:end], ev.hits[start:end])
		start = end
	}
}

// book makes the choice visible to whoever looks next: in-flight work on the
// workers, provisional residency in the index. The caller holds pickMu.
func (r *Router) book(s *Selection, ev *evaluation, number int) {
	i := ev.Plan.Order[0]
	if ev.refs[i].offer != nil {
		s.attempt = attempt{leg: r.bookOffer(s, ev, i), number: number}
		s.attempt.started = s.attempt.began
		return // the session's worker keeps what it has of it
	}
	a := attempt{leg: r.bookLeg(s, ev, i), number: number}
	a.started = a.began
	if number == 1 {
		r.noted(s, ev, i)
	}
	r.sessions.moved(s.session, a.place())
	if before, k := ev.computing(i); before != ev {
		a.relay = &relay{leg: r.bookLeg(s, before, k), p90: ev.Candidates[i].PredictedP90}
		// What it computes is there, and the events of who fetches it tell of the rest.
		a.inferred = false
	}
	at := a.computes()
	if at.inferred {
		r.bound(at)
	}
	keys, ttl := r.booked(s, at.keys, at.owner), r.expectedFor(at, ev.Candidates[i].PredictedTTFT)
	r.index.Book(at.owner, keys, ttl)
	r.replicas.sends(at.member, at.rank, keys, ttl)
	s.assume(&a, ev.Candidates[i].PredictedTTFT)
	s.attempt = a
}

// noted counts the prompt of a request that goes to candidate i, among all that were asked
// with the same keys.
func (r *Router) noted(s *Selection, ev *evaluation, i int) {
	at := ev.refs[i].keys
	start, end := i, i+1
	for start > 0 && ev.refs[start-1].keys == at {
		start--
	}
	for end < len(ev.hits) && ev.refs[end].keys == at {
		end++
	}
	r.index.Note(s.found(at), ev.hits[start:end])
}

// expectedFor is how long booked blocks count without an event that confirms them. Not
// for long: an attempt may fail, and what is answered is kept, see keep. But while
// engines are overloaded, those that come must see where a prefix is going to be,
// unless what waits there is more than its cache holds.
func (r *Router) expectedFor(l *leg, first time.Duration) time.Duration {
	load := l.member.Load()
	if load == nil || l.member.InFlight(l.rank).PrefillTokens > load.Total.CapacityTokens/max(l.member.Ranks(), 1) {
		return r.opts.bookTTL
	}
	return r.opts.unanswered(first)
}

// unanswered is how long a booking counts at most that nothing confirms, where the first
// token is expected after so much time: no longer than one that an answer has confirmed. A
// clock that jumps while prompts are computed, or a worker that hangs, makes predictions of
// hours, which are soon over, while what was booked by them would stay.
func (o *options) unanswered(first time.Duration) time.Duration {
	return max(o.bookTTL, min(twice(first), o.approxTTL))
}

// twice the time to first token is when it is late. A predictor may say "never" with
// the longest Duration, of which there is no double.
func twice(first time.Duration) time.Duration {
	const most = 24 * time.Hour
	return 2 * min(first, most)
}

// bookLeg books what candidate i of ev would have to do.
func (r *Router) bookLeg(s *Selection, ev *evaluation, i int) leg {
	rf, c, f := &ev.refs[i], &ev.Candidates[i], Features(ev.Features[i])
	v := &s.views[rf.view]
	return leg{
		began: r.opts.now(), member: rf.member, rank: c.Rank, owner: rf.owner,
		booking: rf.member.Begin(c.Rank, fleet.Work{
			PrefillTokens: f.Uncached,
			PrefillPairs:  int64(AttentionPairs(f.Uncached, f.Cached)),
			PromptTokens:  v.enc.Count,
			Comes:         c.PrefillOn != "",
		}),
		fetching: ev.Fetching(i),
		features: f, prompt: v.enc.Count, cached: ev.Indexed[i], sure: ev.Sure[i], block: ev.places[i].BlockSize, keys: rf.keys, view: v,
		inferred: c.Trust <= kvcache.Approximate,
		target:   targetOf(rf.member, c.Rank, c.Model),
	}
}

// keep makes the booking of a computed prompt last where no event will ever confirm
// it.
func (r *Router) keep(s *Selection, l *leg) {
	if !l.inferred {
		return
	}
	l.inferred = false
	keys := r.booked(s, l.keys, l.owner)
	r.index.Book(l.owner, keys, r.opts.approxTTL)
	r.replicas.sends(l.member, l.rank, keys, r.opts.approxTTL)
}

// decide records the evaluation.
func (r *Router) decide(s *Selection, ev *evaluation, number int, began time.Time) *Decision {
	enc := &s.main().enc
	if len(ev.Plan.Order) > 0 {
		enc = &s.views[ev.refs[ev.Plan.Order[0]].view].enc
	}
	d := &Decision{
		API: s.parsed.api.String(), Model: s.parsed.model, Attempt: number,
		Policy: ev.Plan.Policy, PolicyVersion: ev.Plan.Version, Rule: ev.Plan.Rule,
		TokenSource: enc.Source.String(), PromptTokens: enc.Count,
		Assets: enc.Assets, Proof: r.proof(enc),
		Degradations: degradations(enc), Chosen: -1,
		Candidates: ev.describe(), Unready: slices.Clone(ev.unready), Waiting: max(ev.Waiting, 0),
		Took: r.opts.now().Sub(began),
	}
	d.Findings = s.findings
	if s.unclassified {
		d.Degradations = append(d.Degradations, reasonUnclassified)
	}
	q := s.prompt()
	q.Attempt = number
	d.Request = q.Policy()
	d.Request.Header = only(s.header, r.opts.hooks.headers)
	if planted.HeaderInDecision {
		d.Request.Header = s.header
	}
	if r.opts.hooks.features {
		d.Features = ev.asks.features(len(ev.Candidates))
	}
	for i := range ev.Plan.Shadows {
		p := &ev.Plan.Shadows[i]
		d.Shadows = append(d.Shadows, ShadowDecision{Policy: p.Policy, Rule: p.Rule, Chosen: p.First, Differs: p.Differs})
	}
	d.Degradations = r.replicas.degraded(s.account.degraded(d.Degradations))
	if id := s.account.identity; id != nil {
		d.VerifiedBy = id.By
	}
	d.TenantLabel = s.account.label
	if number == 1 {
		d.Waited = s.waited
		d.Took -= s.waited
	}
	if s.lost {
		d.Degradations = append(d.Degradations, reasonLost)
	}
	if len(ev.Plan.Order) > 0 {
		d.Chosen = ev.Plan.Order[0]
		c := d.Winner()
		if c.TrustReason != "" {
			d.Degradations = append(d.Degradations, ev.refs[d.Chosen].home.says(c.Trust, c.TrustReason))
		}
		if h := &s.parsed.hints; h.ttft > 0 || h.itl > 0 {
			d.Targets = &Targets{TTFT: h.ttft, ITL: h.itl, Missed: c.Misses}
		}
	}
	if b := ev.before; b != nil && len(b.Plan.Order) > 0 { // a policy may have changed its mind
		d.Prefill = &PrefillDecision{Rule: b.Plan.Rule, Chosen: b.Plan.Order[0], Candidates: b.describe()}
	}
	return d
}

// computing is where candidate i has its prompt computed: an evaluation and the
// candidate in it.
func (ev *evaluation) computing(i int) (at *evaluation, k int) {
	if ev.Candidates[i].PrefillOn != "" {
		return ev.before, ev.before.Plan.Order[0]
	}
	return ev, i
}

// describe records the candidates.
func (ev *evaluation) describe() []DecisionCandidate {
	list := make([]DecisionCandidate, len(ev.Candidates))
	for i := range ev.Candidates {
		list[i] = DecisionCandidate{
			Candidate: ev.Candidates[i], Late: ev.Late(i), Wanting: ev.places[i].Wanting + ev.places[i].Coming,
			TrustState: ev.Candidates[i].Trust.String(),
		}
		if ev.refs[i].offer == nil {
			list[i].TrustReason = ev.refs[i].home.degraded(ev.Candidates[i].Rank, ev.Candidates[i].Trust, ev.refs[i].doubt)
		}
	}
	for place, i := range ev.Plan.Order {
		list[i].Place, list[i].Stage = place+1, 1
		if place < len(ev.Plan.Stages) {
			list[i].Stage = ev.Plan.Stages[place] + 1
		}
	}
	for _, drop := range ev.Plan.Dropped {
		list[drop.Index].DroppedBy = drop.Rule + ": " + drop.Condition
	}
	return list
}
