package debug

import (
	"github.com/kvsteer/kvsteer/policy"
)

// The shapes below are those of state.json and of the frames of the stream; docs/console.md
// explains them. Times are Unix milliseconds, durations milliseconds.

// state is all that the console shows at one moment. A frame of the stream that is not
// Full has only those lists that have changed, and of decisions only the new ones.
type state struct {
	Seq  uint64 `json:"seq"`
	At   int64  `json:"at"`
	Full bool   `json:"full"`
	// EveryMS is the time between two frames of the stream.
	EveryMS int64 `json:"everyMs"`
	// Problem says that a part of the state could not be read, and why; Unread names those
	// parts: they are empty.
	Problem string   `json:"problem,omitempty"`
	Unread  []string `json:"unread,omitempty"`
	// Recorded is false without a Recorder: nothing of the past is known then.
	Recorded   bool            `json:"recorded"`
	Router     routerState     `json:"router"`
	Sums       sums            `json:"sums"`
	Workers    []workerState   `json:"workers"`
	Fleet      fleetState      `json:"fleet"`
	Providers  []providerState `json:"providers,omitempty"`
	Prefixes   prefixState     `json:"prefixes"`
	Policy     *policyState    `json:"policy,omitempty"`
	Rules      []ruleCount     `json:"rules"`
	Shadows    []shadowCount   `json:"shadows"`
	Codes      []codeCount     `json:"codes"`
	History    []momentState   `json:"history"`
	Decisions  []decisionState `json:"decisions"`
	Rejections []refusalState  `json:"rejections,omitempty"`
	Notes      []noteState     `json:"notes,omitempty"`

	recorded uint64 // what a later frame is compared with
}

type routerState struct {
	InFlight    int   `json:"inFlight"`
	Waiting     int   `json:"waiting"`
	MaxWaiting  int   `json:"maxWaiting"` // 0: there is no queue
	Lingering   int   `json:"lingering"`
	Blocks      int   `json:"blocks"`
	IndexBytes  int64 `json:"indexBytes"`
	IndexBudget int64 `json:"indexBudget"`
}

type fleetState struct {
	Workers  int `json:"workers"`
	Routable int `json:"routable"`
	// Omitted workers are not in the list.
	Omitted int    `json:"omitted"`
	Problem string `json:"problem,omitempty"`
}

type workerState struct {
	Name       string      `json:"name"`
	Instance   string      `json:"instance"`
	Address    string      `json:"address"`
	Engine     string      `json:"engine"`
	Class      string      `json:"class,omitempty"`
	Pool       string      `json:"pool,omitempty"`
	Role       string      `json:"role,omitempty"`
	Models     []string    `json:"models"`
	MoreModels int         `json:"moreModels,omitempty"`
	Health     string      `json:"health"` // pending, healthy, suspect, unhealthy
	Since      int64       `json:"since"`
	Problem    string      `json:"problem,omitempty"`
	Remarks    []string    `json:"remarks,omitempty"`
	Draining   bool        `json:"draining"`
	Routable   bool        `json:"routable"`
	Ranks      []rankState `json:"ranks"`
	MoreRanks  int         `json:"moreRanks,omitempty"`
	Events     uint64      `json:"events"` // messages received
	Gaps       uint64      `json:"gaps"`   // that replay could not close
}

type rankState struct {
	Rank        int     `json:"rank"`
	Trust       string  `json:"trust"`
	TrustReason string  `json:"trustReason,omitempty"`
	WaitMS      float64 `json:"waitMs"` // -1: not known
	// Prefilling and Decoding are our own requests, PrefillTokens what the former have
	// still to compute.
	Prefilling    int `json:"prefilling"`
	Decoding      int `json:"decoding"`
	PrefillTokens int `json:"prefillTokens"`
	// Others' requests and KVUsage are as last reported; Fresh says that this is recent.
	OthersRunning int     `json:"othersRunning"`
	OthersWaiting int     `json:"othersWaiting"`
	Fresh         bool    `json:"fresh"`
	KVUsage       float64 `json:"kvUsage"`
	Picks         uint64  `json:"picks"`
	// Blocks are known or expected to be cached, Booked of them only expected, GPU of them,
	// booked ones included, in GPU memory. Fill is the latter's part of that memory, -1 if
	// its size is unknown; booked ones may take it above 1.
	Blocks    int     `json:"blocks"`
	GPU       int     `json:"gpu"`
	Booked    int     `json:"booked"`
	BlockSize int     `json:"blockSize"`
	Fill      float64 `json:"fill"`
}

// providerState is one model at an external service.
type providerState struct {
	Name     string `json:"name"`
	Model    string `json:"model"`
	Kind     string `json:"kind"`
	Address  string `json:"address"`
	Ready    bool   `json:"ready"`
	Reason   string `json:"reason,omitempty"` // why it is not
	RetryMS  int64  `json:"retryMs,omitempty"`
	Breaker  string `json:"breaker"` // closed, open, half-open
	InFlight int    `json:"inFlight"`
	// TTFTMS is the time to first token that is expected for 1,000 tokens.
	TTFTMS float64 `json:"ttftMs"`
	// Quota is the share that is left, -1 if there is none that is known.
	Quota float64 `json:"quota"`
	// Of the decisions that are kept: in how many it was a candidate, and chosen.
	Considered int `json:"considered"`
	Chosen     int `json:"chosen"`
}

// prefixState is which hot prefixes lie where.
type prefixState struct {
	// Columns are the ranks of workers, those that hold any first if not all fit; Omitted
	// more hold any.
	Columns []columnState `json:"columns"`
	Omitted int           `json:"omitted"`
	Rows    []prefixRow   `json:"rows"`
}

type columnState struct {
	Name string `json:"name"`
	// Trust and Health are as on the worker's card; "" where there is none.
	Trust    string `json:"trust"`
	Health   string `json:"health"`
	Routable bool   `json:"routable"`
}

type prefixRow struct {
	// ID stands for the prefix while the console runs. It is a keyed hash: nobody can
	// tell from it whether a prompt that he has in mind was there.
	ID      string  `json:"id"`
	Blocks  int     `json:"blocks"`
	Tokens  int     `json:"tokens"`
	Lookups float64 `json:"lookups"`
	// Held is how many blocks each of the columns holds, from the start on, Confirmed how
	// many of these, from the start on, events have confirmed.
	Held      []int `json:"held"`
	Confirmed []int `json:"confirmed"`
}

// policyState is the policy in force. Kind is its Go type if it can't be taken apart.
type policyState struct {
	Kind     string        `json:"kind"`
	Version  string        `json:"version,omitempty"`
	Policies []policyParts `json:"policies,omitempty"`
}

type policyParts struct {
	Name     string      `json:"name"`
	Mode     string      `json:"mode"`
	Priority int         `json:"priority"`
	Pools    []string    `json:"pools,omitempty"`
	Rules    []ruleParts `json:"rules"`
	Omitted  int         `json:"omitted,omitempty"`
}

type ruleParts struct {
	Name       string   `json:"name"`
	Matches    []string `json:"matches,omitempty"`
	Considers  string   `json:"considers,omitempty"`
	Exclusions []string `json:"exclusions,omitempty"`
	Stages     []string `json:"stages,omitempty"`
	Empty      string   `json:"empty,omitempty"`
	Tags       []string `json:"tags,omitempty"`
}

type ruleCount struct {
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule"`
	// Count is of decisions, Refused of requests that it rejected.
	Count   int64 `json:"count"`
	Refused int64 `json:"refused"`
}

type shadowCount struct {
	Policy  string `json:"policy"`
	Asked   int64  `json:"asked"`
	Differs int64  `json:"differs"`
}

type codeCount struct {
	Code  string `json:"code"`
	Count int64  `json:"count"`
}

// momentState is what happened in the ten seconds from At on. There is none for those in
// which nothing did.
type momentState struct {
	At         int64 `json:"at"`
	Decisions  int64 `json:"decisions"`
	Rejections int64 `json:"rejections"`
	// As the sums of the same names.
	Timed     int64   `json:"timed"`
	TTFT      float64 `json:"timedTtftMs"`
	Predicted float64 `json:"timedPredictedMs"`
}

type decisionState struct {
	ID            uint64           `json:"id"`
	At            int64            `json:"at"`
	API           string           `json:"api"`
	Model         string           `json:"model"`
	Attempt       int              `json:"attempt"`
	Tenant        string           `json:"tenant,omitempty"`
	QoS           string           `json:"qos,omitempty"`
	Pool          string           `json:"pool,omitempty"`
	Tags          []tagState       `json:"tags,omitempty"`
	Rule          string           `json:"rule"`
	Policy        string           `json:"policy,omitempty"`
	PolicyVersion string           `json:"policyVersion,omitempty"`
	TokenSource   string           `json:"tokenSource"`
	PromptTokens  int              `json:"promptTokens"`
	Degradations  []string         `json:"degradations,omitempty"`
	Chosen        int              `json:"chosen"` // place in Candidates, -1 for nobody
	Candidates    []candidateState `json:"candidates"`
	Omitted       int              `json:"omitted,omitempty"` // candidates
	Shadows       []shadowState    `json:"shadows,omitempty"`
	Unready       []string         `json:"unready,omitempty"` // providers, and why
	PrefillOn     string           `json:"prefillOn,omitempty"`
	Targets       string           `json:"missedTargets,omitempty"`
	TookMS        float64          `json:"tookMs"`
	WaitedMS      float64          `json:"waitedMs,omitempty"`
	Waiting       int              `json:"waiting,omitempty"`
	Explanation   string           `json:"explanation"`
	End           *endState        `json:"end,omitempty"`
}

type tagState struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

type candidateState struct {
	Name         string  `json:"name"`
	Rank         int     `json:"rank"`
	Type         string  `json:"type"`
	Model        string  `json:"model"`
	CachedTokens int     `json:"cachedTokens"`
	Trust        string  `json:"trust"`
	InFlight     int     `json:"inFlight"`
	AheadTokens  int     `json:"aheadTokens"`
	TTFTMS       float64 `json:"ttftMs"`
	OthersMS     float64 `json:"othersMs"`
	Place        int     `json:"place"`
	DroppedBy    string  `json:"droppedBy,omitempty"`
}

type shadowState struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	Would  string `json:"would"` // "" for nobody
	Differ bool   `json:"differs"`
}

// endState is what came of a decision.
type endState struct {
	Failure string  `json:"failure,omitempty"`
	Moved   string  `json:"moved,omitempty"`
	TTFTMS  float64 `json:"ttftMs"` // 0: unknown
	TookMS  float64 `json:"tookMs"`
	// Cached is what the engine reported, -1 if it did not.
	Cached int `json:"cachedTokens"`
	Output int `json:"outputTokens"`
	// Next is the attempt that followed this one, 0 if none did.
	Next uint64 `json:"next,omitempty"`
}

type refusalState struct {
	At           int64   `json:"at"`
	Code         string  `json:"code"`
	Model        string  `json:"model"`
	Tenant       string  `json:"tenant,omitempty"`
	Rule         string  `json:"rule,omitempty"`
	Message      string  `json:"message"`
	RetryAfterMS float64 `json:"retryAfterMs,omitempty"`
	Candidates   int     `json:"candidates"`
	Dropped      string  `json:"dropped,omitempty"` // by what, of the first that was
}

type noteState struct {
	At     int64  `json:"at"`
	Worker string `json:"worker,omitempty"`
	Text   string `json:"text"`
	Kind   string `json:"kind"` // look, better, info
}

// outlined is a policy that can be taken apart: a policy.Set.
type outlined interface {
	Outline() []policy.PolicyOutline
	Version() string
}
