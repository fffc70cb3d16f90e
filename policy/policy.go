package policy

import (
	"cmp"
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
	Model string
	// API is the request's kind: "chat", "completions", "messages", "responses"
	// or "embeddings".
	API string
	// PromptTokens is exact or estimated, as the decision says.
	PromptTokens int
	// Attempt counts from 1: later ones choose again for a request whose worker
	// failed, which is not among the candidates.
	Attempt int
	// Tenant and Priority are the gateway's, lower priorities first. Session: the
	// request belongs to a conversation.
	Tenant   string
	Priority int
	Session  bool
	// TargetTTFT and TargetITL are what the request should meet, 0 if nothing. The
	// router itself sees to it that candidates which are expected to meet them come
	// before those which aren't, each in the order of the plan.
	TargetTTFT, TargetITL time.Duration
	// Prefill: the question is which worker computes the prompt for another one to
	// go on from. Candidates are those that do nothing else.
	Prefill bool
	// DryRun: the question is what would be chosen, and nothing will be sent. A
	// policy that counts its choices does not count this one, nor later attempts.
	DryRun bool
}

// Candidate is one backend that could serve the request, in plain numbers.
type Candidate struct {
	// Name is the worker's or provider's name; Instance tells restarts of one
	// worker apart; Rank is its data-parallel rank.
	Name     string      `json:"name"`
	Instance string      `json:"instance"`
	Rank     int         `json:"rank"`
	Type     BackendType `json:"-"`
	// Model is the name that this backend knows the model by.
	Model string `json:"model"`
	// Labels must not be modified.
	Labels map[string]string `json:"-"`

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
	// Misses names the targets of the request that this candidate is expected to
	// miss: "ttft", "itl" or "ttft, itl". It is empty without targets.
	Misses string `json:"misses,omitempty"`

	// Tie breaks exact ties; the router draws it at random.
	Tie uint32 `json:"-"`
}

// Objective is what the default rule minimises. It does not overflow, so that a
// predictor may say "never" with the longest Duration.
func (c *Candidate) Objective() time.Duration {
	sum := c.PredictedTTFT + c.Externality
	if c.PredictedTTFT > 0 && c.Externality > 0 && sum < 0 {
		return math.MaxInt64
	}
	return sum - c.Affinity
}

// Drop says why a candidate isn't in a plan.
type Drop struct {
	// Index is the candidate's index in the slice that was evaluated.
	Index int
	// Rule is the rule that dropped it, Condition the part of the rule.
	Rule, Condition string
}

// Plan is the outcome of an evaluation. The caller may reuse it: Evaluate
// overwrites it and keeps its memory.
type Plan struct {
	// Rule is the rule that decided.
	Rule string
	// Order lists indices of candidates, the best first. Empty means that the
	// request is rejected.
	Order []int
	// Dropped lists the candidates that aren't in Order.
	Dropped []Drop
}

func (p *Plan) reset(rule string) {
	p.Rule = rule
	p.Order = p.Order[:0]
	p.Dropped = p.Dropped[:0]
}

// Policy orders candidates. Implementations are immutable and safe for
// concurrent use, and must not keep or change what they are given.
type Policy interface {
	Evaluate(req *Request, candidates []Candidate, plan *Plan)
}

// DefaultRule is the name of the rule that [Default] applies.
const DefaultRule = "default: lowest predicted TTFT"

const notLocal = "not a local worker"

// Default is the policy in force when none is configured: local workers only,
// the lowest predicted time to first token (with the externality counted) first.
type Default struct{}

// Evaluate implements [Policy]. It allocates nothing when plan has room.
func (Default) Evaluate(_ *Request, candidates []Candidate, plan *Plan) {
	plan.reset(DefaultRule)
	for i := range candidates {
		if candidates[i].Type != Local {
			plan.Dropped = append(plan.Dropped, Drop{Index: i, Rule: DefaultRule, Condition: notLocal})
			continue
		}
		plan.Order = append(plan.Order, i)
	}
	slices.SortFunc(plan.Order, func(a, b int) int {
		x, y := &candidates[a], &candidates[b]
		return cmp.Or(
			cmp.Compare(x.Objective(), y.Objective()),
			cmp.Compare(x.InFlight, y.InFlight),
			cmp.Compare(x.Tie, y.Tie),
		)
	})
}
