//go:build planted

package planted

import "os"

// Variable names the bug that is there; its value is a name of the list below.
const Variable = "KVSTEER_PLANTED"

func is(name string) bool { return os.Getenv(Variable) == name }

// The bugs, of which one may be there.
var (
	BookingEndsTwice   = is("BookingEndsTwice")
	SelectionEndsTwice = is("SelectionEndsTwice")
	PrefillStays       = is("PrefillStays")
	CancelKeeps        = is("CancelKeeps")
	LineForgets        = is("LineForgets")
	EpochIgnored       = is("EpochIgnored")
	RestartKeepsBlocks = is("RestartKeepsBlocks")
	RemovalIgnored     = is("RemovalIgnored")
	GapUnnoticed       = is("GapUnnoticed")
	BookingStays       = is("BookingStays")
	SnapshotTrusted    = is("SnapshotTrusted")
	RetryEscapes       = is("RetryEscapes")
	BadPolicyRules     = is("BadPolicyRules")
	BodyEncodedAnew    = is("BodyEncodedAnew")
	UsagePassed        = is("UsagePassed")
	RefundForgotten    = is("RefundForgotten")
	SinkErrorDrops     = is("SinkErrorDrops")
	FollowerStays      = is("FollowerStays")
	PromptInLog        = is("PromptInLog")
	UnknownRefused     = is("UnknownRefused")
	OutageEmpties      = is("OutageEmpties")
	PeerShareStays     = is("PeerShareStays")
	ListenGivesUp      = is("ListenGivesUp")
	BreakUnnoticed     = is("BreakUnnoticed")
	UnknownUnserved    = is("UnknownUnserved")
	UndecodableKept    = is("UndecodableKept")
	DrainIgnored       = is("DrainIgnored")
	AnswersTwice       = is("AnswersTwice")
	RateIgnored        = is("RateIgnored")
	PromptInLedger     = is("PromptInLedger")
	RanksMixed         = is("RanksMixed")
	LegStays           = is("LegStays")
	LegEscapes         = is("LegEscapes")
	PrefillAnswers     = is("PrefillAnswers")
)

// Leaks, for the canary tests.
var (
	KeyInError       = is("KeyInError")
	QuotationKept    = is("QuotationKept")
	PromptInRefusal  = is("PromptInRefusal")
	HeaderInDecision = is("HeaderInDecision")
	PromptToEnvoy    = is("PromptToEnvoy")
	KeyInAccessLog   = is("KeyInAccessLog")
	PromptInSpan     = is("PromptInSpan")
	PasswordInLog    = is("PasswordInLog")
	StrangerInLog    = is("StrangerInLog")
)
