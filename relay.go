package kvsteer

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/internal/usage"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

// relay is the leg of an attempt that computes the prompt for the worker that
// answers.
type relay struct {
	leg

	handed bool          // it has done so
	p90    time.Duration // predicted, of the first token of whom it computes for
	usage  Usage
	// body is what then is sent to the worker that answers.
	body   []byte
	object jsonscan.Object
}

// transferAsked is vLLM's way to ask for a prompt to be computed for another
// engine (NixlConnector).
const (
	fieldTransfer = "kv_transfer_params"
	transferAsked = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,` +
		`"remote_block_ids":null,"remote_host":null,"remote_port":null}`
)

// relayable reports whether a request can be served by two workers: one prompt, one
// answer, and nothing that only a worker that computes the prompt can tell.
func (p *parsed) relayable() bool {
	if p.api != prompt.Chat && p.api != prompt.Completions || len(p.body) == 0 || p.bypass {
		return false
	}
	if p.object.Value(fieldTransfer).Exists() {
		return false
	}
	for _, field := range []string{"use_beam_search", "echo"} {
		v := p.object.Value(field)
		if on, ok := v.Bool(); on || v.Exists() && !ok {
			return false
		}
	}
	for _, field := range []string{"n", "best_of"} {
		v := p.object.Value(field)
		if one, ok := v.Int(); v.Exists() && (!ok || one != 1) {
			return false
		}
	}
	// Of several prompts each would have a KV cache of its own.
	list := p.object.Value("prompt").Iter()
	if !list.Next() || list.Value().Kind() == jsonscan.KindNumber {
		return true
	}
	return !list.Next()
}

// relays finds out who would compute the prompt for workers that can go on from
// there, if there are both: as the request's main view has it. The last of several
// attempts depends on one worker only: none that computes prompts may be well.
func (r *Router) relays(s *Selection, ev *evaluation, members []*fleet.Member, q *steer.Prompt, now time.Time) {
	enc := &s.main().enc
	if q.Attempt > 1 && q.Attempt >= r.opts.maxAttempts {
		return
	}
	follows := func(m *fleet.Member) bool { return m.Worker().Role == fleet.RoleDecode && m.Routable() }
	computes := func(m *fleet.Member) bool { return computesOnly(m) && m.Routable() }
	if !slices.ContainsFunc(members, computes) || !slices.ContainsFunc(members, follows) ||
		!s.parsed.relayable() || len(enc.Tokens) != enc.Count && enc.Source.Exact() {
		return
	}
	before := r.evaluation()
	ev.before = before
	before.Peers, before.Rush = ev.Peers, ev.Rush
	for _, m := range members {
		if computes(m) && !s.wasTried(m.ID()) && !s.elsewhere(m) {
			r.gather(s, before, m, 0, now)
		}
	}
	for i := range ev.places {
		if ev.refs[i].view == 0 {
			before.Beside(&ev.places[i])
		}
	}
	leg := *q
	leg.Prefill, leg.TargetTTFT, leg.TargetITL = true, 0, 0
	r.predict(s, before, &leg)
	by := s.policy
	if planted.LegEscapes {
		by = policy.Default{}
	}
	before.Choose(&leg, by)
	if len(before.Plan.Order) == 0 {
		ev.before = nil
		r.release(before)
		return
	}
	ev.relay = steer.Relay{By: &before.Candidates[before.Plan.Order[0]], Pace: r.opts.transferRate, Wide: r.joint.Factor()}
	ev.Relay = &ev.relay
}

// relayedBy corrects who computes the prompt for candidates, after the policy was
// asked in earnest.
func (ev *evaluation) relayedBy(name string) {
	for i := range ev.Candidates {
		if c := &ev.Candidates[i]; c.PrefillOn != "" {
			c.PrefillOn = name
		}
	}
}

// computesOnly reports whether a worker serves no request to its end.
func computesOnly(m *fleet.Member) bool { return m.Worker().Role == fleet.RolePrefill }

// computes is the leg on which the prompt is computed.
func (a *attempt) computes() *leg {
	if a.relay != nil {
		return &a.relay.leg
	}
	return &a.leg
}

// failed is the leg on which an attempt that is given up has failed.
func (a *attempt) failed() *leg {
	if a.relay != nil && !a.relay.handed {
		return &a.relay.leg
	}
	return &a.leg
}

// expected is the cached tokens that were predicted where the prompt is computed.
func (a *attempt) expected() int { return a.computes().cached }

// credit gives the worker that computed the prompt the credit for what it had
// cached: to the one that answers all that was handed over looks cached.
func (l *relay) credit(u Usage) Usage {
	if !u.Known || !l.usage.Known {
		return u
	}
	u.Uncached, u.CacheRead, u.CacheWrite = l.usage.Uncached, l.usage.CacheRead, l.usage.CacheWrite
	u.CachedKnown = l.usage.CachedKnown
	return u
}

// Prefill returns where the prompt is to be computed before the request is sent to
// the Target, and the request for that; false if the Target computes it itself, as
// it does unless the fleet has workers of separate roles. Give the answer to
// [Selection.Prefilled] and go on with Target and Body.
func (s *Selection) Prefill() (Target, []byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.attempt.relay
	if l == nil || l.handed || s.ended || s.attempt.ttft != 0 {
		return Target{}, nil, false
	}
	var e jsonscan.Edit
	e.Delete("stream")
	e.Delete("stream_options")
	e.Delete("min_tokens")
	e.Set("max_tokens", []byte("1"))
	object := l.view.object
	if object.Value("max_completion_tokens").Exists() {
		e.Set("max_completion_tokens", []byte("1"))
	}
	e.Set(fieldTransfer, []byte(transferAsked))
	body, err := e.Apply(object)
	if err != nil { // it was parsed before: never
		return Target{}, nil, false
	}
	return l.target, body, true
}

// Prefilled takes the whole body of the answer to the request that Prefill
// returned: where the worker holds the prompt's KV cache goes into Body. The error
// is a [CodeUpstream]: the answer does not say. Then try [Selection.Next].
func (s *Selection) Prefilled(answer []byte) error {
	params, reported, ok := handover(answer)
	if !ok {
		return &Error{Code: CodeUpstream, Message: "the worker's answer to a prefill has no " + fieldTransfer + "; start it with a KV connector"}
	}
	done, ok, err := s.handOver(params, reported)
	if !ok {
		return err
	}
	r := s.router
	r.freed()
	r.listen(&done, reported)
	if s.auditable(&done) {
		r.audit(&done, reported)
	}
	return nil
}

// handOver ends the leg that computed the prompt and returns it; false if there is
// none, if the answer has begun without it, or if it fails.
func (s *Selection) handOver(params []byte, reported Usage) (done leg, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.attempt.relay
	if l == nil || l.handed || s.ended || s.attempt.ttft != 0 {
		return leg{}, false, nil
	}
	var e jsonscan.Edit
	e.Set(fieldTransfer, params)
	body, err := e.Apply(l.view.object)
	if err == nil {
		l.body = body
		l.object, err = jsonscan.Parse(body, 0)
	}
	if err != nil { // what was valid before is valid now
		return leg{}, false, &Error{Code: CodeUpstream, Message: "the prefill's answer does not fit into the request", Err: err}
	}
	now := s.router.opts.now()
	l.handed, l.usage = true, reported
	l.booking.FirstToken() // the next in line has begun
	l.booking.End()
	s.router.keep(s, &l.leg)
	if s.attempt.number == 1 {
		s.router.learn(l.booking, &l.features, max(now.Sub(l.began), 1))
	}
	s.attempt.began = now
	return l.leg, true, nil
}

// Alone leaves the prompt to the Target, for whoever does not send what [Selection.Prefill]
// returns.
func (s *Selection) Alone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.attempt.relay; l != nil && !l.handed && !s.ended {
		l.booking.End()
		s.attempt.relay, s.attempt.otherwise = nil, true
		s.router.freed()
	}
}

// handover reads a prefill's answer.
func handover(answer []byte) (params []byte, u Usage, ok bool) {
	v, err := jsonscan.ParseValue(answer, 0)
	if err != nil {
		return nil, u, false
	}
	p := v.Get(fieldTransfer)
	if p.Kind() != jsonscan.KindObject {
		return nil, u, false
	}
	var reader usage.Reader
	reader.Read(answer)
	return slices.Clone(p.Raw()), usageOf(&reader), true
}
