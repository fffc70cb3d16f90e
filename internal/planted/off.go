//go:build !planted

package planted

// The bugs, none of which is there.
const (
	BookingEndsTwice   = false
	SelectionEndsTwice = false
	PrefillStays       = false
	CancelKeeps        = false
	LineForgets        = false
	EpochIgnored       = false
	RestartKeepsBlocks = false
	RemovalIgnored     = false
	GapUnnoticed       = false
	BookingStays       = false
	SnapshotTrusted    = false
	RetryEscapes       = false
	BadPolicyRules     = false
	BodyEncodedAnew    = false
	UsagePassed        = false
	RefundForgotten    = false
	SinkErrorDrops     = false
	FollowerStays      = false
	PromptInLog        = false
	UnknownRefused     = false
	OutageEmpties      = false
	PeerShareStays     = false
	ListenGivesUp      = false
	BreakUnnoticed     = false
	UnknownUnserved    = false
	UndecodableKept    = false
	DrainIgnored       = false
	AnswersTwice       = false
	RateIgnored        = false
	PromptInLedger     = false
	RanksMixed         = false
	LegStays           = false
	LegEscapes         = false
	PrefillAnswers     = false
)

// Leaks, for the canary tests.
const (
	KeyInError       = false
	QuotationKept    = false
	PromptInRefusal  = false
	HeaderInDecision = false
	PromptToEnvoy    = false
	KeyInAccessLog   = false
	PromptInSpan     = false
	PasswordInLog    = false
	StrangerInLog    = false
)
