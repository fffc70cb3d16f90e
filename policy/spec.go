package policy

import (
	"time"
)

// Spec is one policy as plain data: what a YAML document of kind InferencePolicy
// says, and what Go code builds. [Compile] makes something of it that decides.
// docs/policy.md explains every field under its YAML name.
type Spec struct {
	// APIVersion is the document's; empty for what was built in Go, which may use
	// everything.
	APIVersion string
	// Namespace and Name identify it.
	Namespace, Name string
	// Priority decides which of several policies is asked first: the highest. Equal
	// ones go by namespace and name.
	Priority int
	Mode     Mode
	// Pools are those whose requests it is about. None means all.
	Pools []string
	// Models labels models, for rules that name them by labels.
	Models []ModelLabels
	Rules  []Rule

	src *source // where it was read from, nil for what was built in Go
}

// The API versions of documents.
const (
	// APIVersion is that of everything that this package can do.
	APIVersion = "kvsteer.dev/v1alpha1"
	// APIVersionKinference is that of published policies, with fewer keys.
	APIVersionKinference = "kinference.buoyant.io/v1alpha1"
	// Kind is the kind of documents that hold a policy.
	Kind = "InferencePolicy"
)

// Mode says whether a policy decides.
type Mode uint8

// The modes.
const (
	// Enforce: it decides.
	Enforce Mode = iota
	// Shadow: it is evaluated beside those that decide, and the plan says what it
	// would have changed.
	Shadow
)

// ModelLabels are a model's labels, such as family: qwen3.
type ModelLabels struct {
	Name   string
	Labels map[string]string
}

// Rule says where requests that match may go.
type Rule struct {
	Name string
	// Matches are alternatives. None means every request.
	Matches []Match
	Route   Route
}

// Match holds if everything that is set in it does; of a list, any one.
type Match struct {
	Model  []string
	Tag    []string
	Tenant []string
	QoS    []string
	API    []string
	// Header conditions all hold.
	Header []HeaderMatch
	// PromptTokens is in tokens.
	PromptTokens Range
	// Session, if not nil: whether the request belongs to a conversation.
	Session *bool

	// QueuedPrompts, KVCacheUsage and HealthyWorkers are about the local workers that
	// the request could go to: the fewest prompts that wait at any of them, the least
	// share of KV memory in use at any, and how many there are.
	QueuedPrompts, KVCacheUsage, HealthyWorkers Range

	// OnUnknown is what a tag counts as of which nobody knows: absent by default.
	OnUnknown OnUnknown
}

// HeaderMatch is a condition on a header of the request; the name's case does not
// matter. Without Value and Prefix the header must be there.
type HeaderMatch struct {
	Name          string
	Value, Prefix string
	// Absent: it must not be there.
	Absent bool
}

// OnUnknown is what a tag counts as of which nobody knows.
type OnUnknown uint8

// The choices.
const (
	// UnknownDefault: absent in a Match, present in a Condition of an exclusion, so
	// that not knowing restricts.
	UnknownDefault OnUnknown = iota
	UnknownAbsent
	UnknownPresent
)

// Range holds a number if it is greater than GreaterThan and less than LessThan, as
// far as these are set. The zero value holds every number. Use [GreaterThan],
// [LessThan] and [Between].
type Range struct {
	GreaterThan, LessThan *float64
}

// GreaterThan holds numbers above x.
func GreaterThan(x float64) Range { return Range{GreaterThan: &x} }

// LessThan holds numbers below x.
func LessThan(x float64) Range { return Range{LessThan: &x} }

// Between holds numbers above low and below high.
func Between(low, high float64) Range { return Range{GreaterThan: &low, LessThan: &high} }

// Route says where a request may go, in this order: what is considered, less what is
// excluded, in the order of the first stage that has something.
type Route struct {
	// Consider are alternatives. None means the backends that serve the requested
	// model.
	Consider []Consider
	Exclude  []Exclusion
	// Select are stages. None means one that takes the lowest predicted TTFT.
	Select  []Stage
	OnEmpty OnEmpty
}

// Consider names candidates; everything that is set in it holds for them. Without
// Models they serve the requested one.
type Consider struct {
	// Models names models, ModelLabels those that have all these labels.
	Models      []string
	ModelLabels map[string]string
	// Workers names local workers, WorkerLabels those that have all these labels.
	Workers      []string
	WorkerLabels map[string]string
	// Providers names providers.
	Providers []string
}

// Exclusion drops candidates of some requests. What is set in it all holds.
type Exclusion struct {
	Name string
	If   Condition
	Drop Filter
}

// Condition is about the request. The zero value always holds; of a list, any one
// holds.
type Condition struct {
	Tag, Tenant, QoS []string
	Header           []HeaderMatch
	// OnUnknown is what a tag counts as of which nobody knows: present by default.
	OnUnknown OnUnknown
}

// Filter is about a candidate. The zero value takes all.
type Filter struct {
	Type   BackendKind
	Name   []string
	Labels map[string]string
	// Region is the candidate's label "region", or else the one that Kubernetes
	// gives, "topology.kubernetes.io/region".
	Region []string

	// QueuedPrompts and RunningRequests are in requests, KVCacheUsage and
	// RemainingQuota are shares from 0 to 1, PredictedTTFT is in seconds, CachedTokens
	// in tokens, Price in US dollars for this request. Of a price that nobody knows
	// every condition holds, of a quota that nobody knows none.
	QueuedPrompts, RunningRequests, KVCacheUsage       Range
	PredictedTTFT, CachedTokens, Price, RemainingQuota Range
	// Trust lists states of trust by name: "exact", "approximate" and so on.
	Trust []string
}

// BackendKind restricts candidates to a type of backend.
type BackendKind uint8

// The kinds.
const (
	AnyBackend BackendKind = iota
	LocalOnly
	ProviderOnly
)

// Stage orders candidates: it takes those of its type, and, with Order or Weighted,
// those named there.
type Stage struct {
	Type     BackendKind
	Minimize Metric
	// Order is a preference list of names of backends; those of one name, and of one
	// share, go by Minimize.
	Order []string
	// Weighted splits requests among shares at random, a session always the same way.
	// Candidates of the other shares come after.
	Weighted []Share
	// SwitchOnlyIf keeps the requested model unless another one is faster by a margin.
	SwitchOnlyIf *Margin
}

// Metric is what a stage minimises.
type Metric uint8

// The metrics. All but the first go by predicted TTFT where they are equal.
const (
	// PredictedTTFT is the time to first token with what it costs others and the
	// session's affinity counted: see [Candidate.Objective].
	PredictedTTFT Metric = iota
	PredictedE2E
	QueuedPrompts
	KVCacheUsage
	Cost
)

// Share is one side of a split: the candidates that have all that is set.
type Share struct {
	Model, Name string
	Labels      map[string]string
	// Weight is relative to the others'.
	Weight int
}

// Margin is by how much another model must be faster: by both that are set.
type Margin struct {
	// By is a time, Percent a share of the requested model's, 0 to 100.
	By      time.Duration
	Percent float64
}

// OnEmpty says what happens when nothing is left. The zero value rejects.
type OnEmpty struct {
	Action Action
	// Status and Message are the answer of a Reject; 0 and "" mean the usual.
	Status  int
	Message string
	// UpTo is how long a Wait waits for a candidate before it rejects.
	UpTo time.Duration
}

// Action is what happens to a request for which nothing is left.
type Action uint8

// The actions.
const (
	Reject Action = iota
	Wait
	// NextRule goes on with the next rule that matches, as if this one did not.
	NextRule
)
