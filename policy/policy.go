package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// BackendType tells our own workers from external services.
type BackendType uint8

// The backend types.
const (
	Local BackendType = iota
	Provider
)

// MarshalText implements [encoding.TextMarshaler].
func (t BackendType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *BackendType) UnmarshalText(text []byte) error {
	switch string(text) {
	case "Local":
		*t = Local
	case "Provider":
		*t = Provider
	default:
		return fmt.Errorf("policy: %q is no type of backend; it is Local or Provider", text)
	}
	return nil
}

// String returns the name used in policy files.
func (t BackendType) String() string {
	if t == Provider {
		return "Provider"
	}
	return "Local"
}

// Request is what a policy may know about a request. It holds no prompt text.
type Request struct {
	// Model is the model name that the client asked for.
	Model string `json:"model"`
	// API is the request's kind: "chat", "completions", "messages", "responses"
	// or "embeddings".
	API string `json:"api"`
	// Alias: no backend serves a model of that name, well or not; rules send the
	// request to others. Conditions on the state of the pool are then about all local
	// candidates.
	Alias bool `json:"alias,omitempty"`
	// Pool is the pool that the gateway routes the request to, "" if it has none.
	Pool string `json:"pool,omitempty"`
	// PromptTokens is exact or estimated, as the decision says; 0 while it is not
	// known.
	PromptTokens int `json:"prompt_tokens"`
	// Tags says what is known of the request's content, each name once.
	Tags []Tag `json:"tags,omitempty"`
	// QoS is the request's class of service, as the gateway has established.
	QoS string `json:"qos,omitempty"`
	// Header is the request's, with canonical names as in [net/http.Header]. It must
	// not be modified.
	Header map[string][]string `json:"-"`
	// Draw decides about splits: a number at random, or of a session always the same.
	Draw uint64 `json:"draw,omitempty"`
	// Attempt counts from 1: later ones choose again for a request whose worker
	// failed, which is not among the candidates.
	Attempt int `json:"attempt"`
	// Tenant and Priority are the gateway's, lower priorities first. Session: the
	// request belongs to a conversation.
	Tenant   string `json:"tenant,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Session  bool   `json:"session,omitempty"`
	// TargetTTFT and TargetITL are what the request should meet, 0 if nothing. The
	// router itself sees to it that candidates which are expected to meet them come
	// before those which aren't, each in the order of the plan.
	TargetTTFT time.Duration `json:"target_ttft_ns,omitempty"`
	TargetITL  time.Duration `json:"target_itl_ns,omitempty"`
	// Prefill: the question is which worker computes the prompt for another one to
	// go on from. Candidates are those that do nothing else.
	Prefill bool `json:"prefill,omitempty"`
	// DryRun: the question is what would be chosen, and nothing will be sent. A
	// policy that counts its choices does not count this one, nor later attempts. With
	// several routers each choice is asked about first: see [Candidate.Near].
	DryRun bool `json:"dry_run,omitempty"`
}

// Candidate is one backend that could serve the request, in plain numbers.
type Candidate struct {
	// Name is the worker's or provider's name; Instance tells restarts of one
	// worker apart; Rank is its data-parallel rank.
	Name     string      `json:"name"`
	Instance string      `json:"instance"`
	Rank     int         `json:"rank"`
	Type     BackendType `json:"type"`
	// Model is the model that it would serve the request with, by the name that
	// clients and policies use.
	Model string `json:"model"`
	// Labels must not be modified.
	Labels map[string]string `json:"labels,omitempty"`

	// InFlight counts our own unfinished requests; PrefillAhead is the uncached
	// tokens of those that have no first token yet.
	InFlight     int `json:"in_flight"`
	PrefillAhead int `json:"prefill_ahead_tokens"`
	// Queued and Running are as the engine last reported, plus what we have sent
	// since.
	Queued  int `json:"queued"`
	Running int `json:"running"`
	// KVUsage is the share of KV-cache memory in use by unfinished requests, 0 to 1.
	KVUsage float64 `json:"kv_usage"`

	// CachedTokens is how much of the prompt need not be computed again, as far
	// as Trust goes. CachedTiers counts CachedBlocks by where they lie: in GPU
	// memory, in CPU memory, on disk, elsewhere. Loading takes time too: CachedWorth
	// is the tokens whose computation is saved all in all, at most CachedTokens.
	CachedTokens int                     `json:"cached_tokens"`
	CachedBlocks int                     `json:"cached_blocks"`
	CachedTiers  [kvcache.NumTiers]int32 `json:"cached_blocks_by_tier"`
	CachedWorth  int                     `json:"cached_worth_tokens"`
	Trust        kvcache.Trust           `json:"-"`

	// PredictedTTFT is the expected time to first token. Externality is what
	// serving this request here would cost the requests behind it.
	PredictedTTFT time.Duration `json:"predicted_ttft_ns"`
	Externality   time.Duration `json:"externality_ns"`
	// PredictedP90 is the time to first token that nine of ten such requests stay
	// below, PredictedITL the expected time between tokens after it, PredictedE2E
	// the expected time to the last. 0 means that the predictor has none.
	PredictedP90 time.Duration `json:"predicted_ttft_p90_ns"`
	PredictedITL time.Duration `json:"predicted_itl_ns"`
	PredictedE2E time.Duration `json:"predicted_e2e_ns"`

	// PrefillOn is the worker that would compute the prompt, if that is another one;
	// the predictions are then of both together.
	PrefillOn string `json:"prefill_on,omitempty"`

	// Affinity is what the default rule takes off for the worker that the request's
	// session was last sent to.
	Affinity time.Duration `json:"affinity_ns,omitempty"`
	// Near is what is taken off where other routers choose at the same time: this
	// candidate is near enough to the policy's first to count as equal, so that not all of
	// them choose the same. Of those that have one, the greatest of what is left was to be
	// last. It is 0 while the policy is asked what it would choose among.
	Near time.Duration `json:"near_ns,omitempty"`
	// Misses names the targets of the request that this candidate is expected to
	// miss: "ttft", "itl" or "ttft, itl". It is empty without targets.
	Misses string `json:"misses,omitempty"`

	// Price is what the request is expected to cost here in US dollars, if PriceKnown.
	Price      float64 `json:"price_usd,omitempty"`
	PriceKnown bool    `json:"price_known,omitempty"`
	// RemainingQuota is the share of a provider's quota that is left, 0 to 1, if
	// QuotaKnown.
	RemainingQuota float64 `json:"remaining_quota,omitempty"`
	QuotaKnown     bool    `json:"quota_known,omitempty"`

	// Tie breaks exact ties; the router draws it at random.
	Tie uint32 `json:"tie"`
}

// Objective is what the default rule minimises. It does not overflow, so that a
// predictor may say "never" with the longest Duration.
func (c *Candidate) Objective() time.Duration {
	sum := c.PredictedTTFT + c.Externality
	if c.PredictedTTFT > 0 && c.Externality > 0 && sum < 0 {
		return math.MaxInt64
	}
	return sum - c.Affinity - c.Near
}

// Drop says why a candidate isn't in a plan.
type Drop struct {
	// Index is the candidate's index in the slice that was evaluated.
	Index int
	// Rule is the rule that dropped it, Condition the part of the rule in words.
	Rule, Condition string
	// Exclusion is the name of the exclusion that did, "" if it was something else.
	Exclusion string
}

// Plan is the outcome of an evaluation. The caller may reuse it: Evaluate
// overwrites it and keeps its memory.
type Plan struct {
	// Policy is the policy that decided, as namespace/name, "" if it has no name;
	// Version is of the whole set that was evaluated.
	Policy, Version string
	// Rule is the rule that decided. Match is the index of the alternative of its
	// matches that held, -1 if it has none.
	Rule  string
	Match int
	// Order lists indices of candidates, the best first: those of the stage that
	// decided, then of the stages after it. Empty means that there is none.
	Order []int
	// Stages holds for each of Order the index of its stage; it is empty if there is
	// just one.
	Stages []int
	// Dropped lists the candidates that aren't in Order.
	Dropped []Drop
	// Empty says what happens to the request if Order is empty.
	Empty OnEmpty
	// Shadows are what policies in shadow mode would have done.
	Shadows []ShadowPlan

	head int // see Head; 0: the stage as a whole
	// policyAt and ruleAt are the places in the Set of what decided, from 1: names need
	// not be unique. 0 is no rule of a Set's.
	policyAt, ruleAt int
}

// ShadowPlan is what a policy in shadow mode would have done.
type ShadowPlan struct {
	Policy, Rule string
	// First is the index of the candidate that it would have chosen, -1 for none.
	First int
	// Empty is what would have happened then.
	Empty OnEmpty
	// Differs: the choice is another one than the enforced.
	Differs bool
}

// Reset forgets what was planned and keeps the memory. The rule is what decides
// from now on.
func (p *Plan) Reset(rule string) {
	*p = Plan{
		Rule: rule, Match: -1,
		Order: p.Order[:0], Stages: p.Stages[:0], Dropped: p.Dropped[:0], Shadows: p.Shadows[:0],
	}
}

// Head is how many of Order come first by more than what is minimised: those of the
// stage that decided, of these those of the share that was drawn, and none that
// switchOnlyIf holds back. Whoever changes the order for reasons of his own does so
// among these.
func (p *Plan) Head() int {
	if p.head > 0 {
		return min(p.head, len(p.Order))
	}
	for k, stage := range p.Stages {
		if stage != p.Stages[0] {
			return k
		}
	}
	return len(p.Order)
}

// Policy orders candidates. Implementations are immutable and safe for
// concurrent use, and must not keep or change what they are given.
type Policy interface {
	Evaluate(req *Request, candidates []Candidate, plan *Plan)
}

// Scoped is a Policy that may send requests to other models than the one that they
// name. A [Set] is one.
type Scoped interface {
	Policy
	// Models appends to dst the models that a request could be served with, each
	// once, whatever the state of the fleet: candidates are looked for among the
	// backends of these. req.PromptTokens may be 0: not known yet.
	Models(req *Request, dst []string) []string
}

// Needy is a Policy that asks about more than what every request tells. A [Set] is
// one. Of a Policy that is none, requests have no Tags and no Header.
type Needy interface {
	Policy
	Needs() Needs
}

// Needs is what a policy asks about: names, each once. They must not be modified.
type Needs struct {
	// Tags have to be found out; Headers are looked at, by their canonical names.
	Tags, Headers []string
}

// Source is a Policy that changes: each request is decided about by what Current
// returns when it comes, from the first attempt to the last. A policy file that is
// watched is one; see package policy/file.
type Source interface {
	Policy
	Current() Policy
}

// DefaultRule is the name of the rule that [Default] applies.
const DefaultRule = "default: lowest predicted TTFT"

// What the rules of this package drop candidates for.
const (
	notLocal     = "not a local worker"
	notRequested = "does not serve the requested model"
)

// Default is the policy in force when none is configured: local workers only,
// the lowest predicted time to first token (with the externality counted) first.
type Default struct{}

// Evaluate implements [Policy]. It allocates nothing when plan has room.
func (Default) Evaluate(_ *Request, candidates []Candidate, plan *Plan) {
	plan.Reset(DefaultRule)
	for i := range candidates {
		if candidates[i].Type != Local {
			plan.Dropped = append(plan.Dropped, Drop{Index: i, Rule: DefaultRule, Condition: notLocal})
			continue
		}
		plan.Order = append(plan.Order, i)
	}
	if len(plan.Order) <= few {
		sortFew(plan.Order, candidates)
		return
	}
	slices.SortFunc(plan.Order, func(a, b int) int {
		x, y := standingOf(candidates, a), standingOf(candidates, b)
		return x.compare(&y)
	})
}

// standing is what the default rule compares of a candidate.
type standing struct {
	objective time.Duration
	inFlight  int
	tie       uint32
	of        int
}

func standingOf(candidates []Candidate, i int) standing {
	c := &candidates[i]
	return standing{objective: c.Objective(), inFlight: c.InFlight, tie: c.Tie, of: i}
}

func (s *standing) compare(o *standing) int {
	if s.objective != o.objective {
		return cmp.Compare(s.objective, o.objective)
	}
	if s.inFlight != o.inFlight {
		return cmp.Compare(s.inFlight, o.inFlight)
	}
	return cmp.Compare(s.tie, o.tie)
}

// few candidates fit on the stack side by side: candidates themselves are large and
// far apart, and sorting looks at each of them many times.
const few = 128

func sortFew(order []int, candidates []Candidate) {
	var memory [few]standing
	list := memory[:len(order)]
	for k, i := range order {
		list[k] = standingOf(candidates, i)
	}
	slices.SortFunc(list, func(a, b standing) int { return a.compare(&b) })
	for k := range list {
		order[k] = list[k].of
	}
}
