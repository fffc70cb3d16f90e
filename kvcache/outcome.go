package kvcache

// Verdict says what became of an [Event] as a whole.
type Verdict uint8

// The verdicts.
const (
	// Ignored: the event changed nothing; [Outcome.Reason] says why.
	Ignored Verdict = iota
	// Applied: the event changed what the index holds.
	Applied
	// Duplicate: every block was there already; the repeats were counted, so
	// that as many removals are needed.
	Duplicate
	// Orphaned: blocks came whose parent is unknown. They are held, match
	// nothing, and take their place when the parent comes. An event of which
	// some blocks applied is Orphaned all the same.
	Orphaned
)

// String returns the verdict's name in lower case.
func (v Verdict) String() string {
	switch v {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	case Orphaned:
		return "orphaned"
	case Ignored:
		return "ignored"
	default:
		return "unknown"
	}
}

// Reason says why an event, or a part of it, was not applied as it stands.
type Reason uint8

// The reasons. The names that String returns are stable: they may be metric
// labels.
const (
	NoReason Reason = iota
	// ReasonOwner: the owner is zero or has left.
	ReasonOwner
	// ReasonKind: the event's kind is none that this version knows.
	ReasonKind
	// ReasonEmpty: the event names no blocks.
	ReasonEmpty
	// ReasonAttention: the blocks belong to a sliding-window, mamba or other
	// group and are not in GPU memory, or to a group that can't be followed. They
	// lengthen no hit.
	ReasonAttention
	// ReasonLength: tokens, hashes and block size do not fit together.
	ReasonLength
	// ReasonAdapter: the blocks belong to an adapter without a name.
	ReasonAdapter
	// ReasonBlockSize: the block size differs from the one that the owner's
	// earlier events had. Until the owner is cleared the first one stands; the
	// event was refused.
	ReasonBlockSize
	// ReasonUnknown: a removal, or a copy to another tier, of blocks that were
	// never announced or are gone. Normal after a late start.
	ReasonUnknown
	// ReasonOrphanBound: the owner has as many orphans as it may; more were
	// dropped. What the index knows of the owner is now a lower bound; see
	// [Index.Short].
	ReasonOrphanBound
	// ReasonBudget: there was no memory even after everything cold had left;
	// blocks were dropped. What the index knows of the owner is a lower bound; see
	// [Index.Short].
	ReasonBudget
	// ReasonEvicted goes with Orphaned when blocks of this owner were evicted to
	// stay within the budget: the parent may be one of them, and a replay would
	// not bring it back for long. From [Index.Short] it means that blocks of the
	// owner were evicted.
	ReasonEvicted
	// ReasonSnapshot comes from [Index.Short] only: orphans, or the hashes of one
	// block beyond its eighth, which the snapshot that the owner was taken from
	// leaves out.
	ReasonSnapshot
	// NumReasons is the number of reasons, for arrays indexed by Reason.
	NumReasons = 13
)

// String returns the reason as a short fixed phrase, "" for NoReason.
func (r Reason) String() string {
	switch r {
	case NoReason:
		return ""
	case ReasonOwner:
		return "owner not joined"
	case ReasonKind:
		return "unknown event kind"
	case ReasonEmpty:
		return "no blocks named"
	case ReasonAttention:
		return "not full attention"
	case ReasonLength:
		return "length mismatch"
	case ReasonAdapter:
		return "adapter without a name"
	case ReasonBlockSize:
		return "block size changed"
	case ReasonUnknown:
		return "unknown block"
	case ReasonOrphanBound:
		return "orphan bound reached"
	case ReasonBudget:
		return "memory budget reached"
	case ReasonEvicted:
		return "evicted by budget"
	case ReasonSnapshot:
		return "left out of the snapshot"
	default:
		return "unknown reason"
	}
}

// Outcome is what [Index.Apply] made of one event. The counts are in blocks.
type Outcome struct {
	Verdict Verdict
	// Reason is why the event was ignored or what went short; NoReason when
	// every block was applied.
	Reason Reason
	// Applied blocks became resident in a tier or left one.
	Applied int
	// Repeated blocks were stored once more, or lost one of several copies.
	Repeated int
	// Orphaned blocks are held until their parent comes.
	Orphaned int
	// Adopted blocks were orphans whose parent came with this event.
	Adopted int
	// Missed blocks were unknown, or did not fit within a bound.
	Missed int
}
