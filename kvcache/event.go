package kvcache

// EngineHash is an engine's own identifier of a block, normalised to 64 bits:
// unsigned integers as they are, negative ones as their two's complement, byte
// strings as their last eight bytes, big-endian. It means something only within
// one [Owner]; prompts are never matched on it.
type EngineHash uint64

// Tier is where a block's data lies, fastest first.
type Tier uint8

// The tiers. An unknown medium is TierRemote: slow, never mistaken for GPU.
const (
	TierGPU Tier = iota
	TierCPU
	TierDisk
	TierRemote
	// NumTiers is the number of tiers, for arrays indexed by Tier.
	NumTiers = 4
)

// EventKind says what an [Event] does.
type EventKind uint8

// The kinds of event. The zero value is no event at all.
const (
	// Stored: blocks became resident.
	Stored EventKind = iota + 1
	// Removed: blocks left one tier.
	Removed
	// Cleared: everything the owner held is gone.
	Cleared
)

// Attention classifies the KV-cache group that an event belongs to. Blocks of full
// attention (and MLA) make a prefix reusable from its start. An engine that has
// other groups as well, a hybrid, reuses a prefix only up to where each of these
// has what the next token sees.
type Attention uint8

// The attention classes. The zero value is full attention: engines that predate
// the field have nothing else.
const (
	FullAttention Attention = iota
	// OtherAttention is chunked, cross-attention, or a kind this version does not
	// know. A hit needs all of its blocks, which is more than an engine may want:
	// what is known of such owners is Approximate.
	OtherAttention
	// WindowAttention is sliding-window attention: a hit needs the blocks that
	// cover Event.Window less one token before its end.
	WindowAttention
	// StateAttention is mamba and the like: a hit needs the block that ends there,
	// which holds the state.
	StateAttention
)

// Extra is one piece of a block's identity beside its tokens: a multimodal item
// that overlaps it, or the digest of prompt embeddings.
type Extra struct {
	// ID is the engine's identifier of the item's content.
	ID string
	// Offset is the item's first token relative to the block's first token;
	// negative when the item began in an earlier block.
	Offset int
}

// Event is one change of an engine's KV cache, decoded from whatever the engine
// sends. A decoder may reuse its memory: an Event is valid until the decoder's
// next call, and an [Index] keeps nothing of it.
type Event struct {
	Kind EventKind
	// Hashes names the blocks, in chain order for Stored.
	Hashes []EngineHash
	// Parent is the block before Hashes[0]; meaningful when HasParent.
	Parent    EngineHash
	HasParent bool
	// Tokens holds BlockSize token ids per hash. A Stored event without tokens
	// is an offload placeholder: a copy in Tier of blocks announced before. With
	// other than full attention there may be more tokens than the hashes have.
	Tokens []uint32
	// BlockSize is in tokens; 0 in a placeholder.
	BlockSize int
	Tier      Tier
	// Adapter is the LoRA adapter's name, "" for the base model.
	Adapter string
	// AdapterUnnamed is set when the blocks belong to an adapter that the engine
	// names only by a per-process number. Such blocks are never matched.
	AdapterUnnamed bool
	// Salt is the cache salt of a chain's first block, "" for none.
	Salt string
	// Extras holds each block's extra identity, aligned with Hashes; nil when no
	// block has any.
	Extras [][]Extra
	// Group is the engine's KV-cache group, 0 when it has only one.
	Group     int
	Attention Attention
	// Window is the length of WindowAttention in tokens; 0 if unknown, which is as
	// if it were longer than any prompt.
	Window int
}

// Batch is what one event message carries.
type Batch struct {
	// Time is the engine's clock in seconds since the Unix epoch, 0 if absent.
	Time float64
	// Rank is the data-parallel rank that the engine reported, -1 if absent.
	Rank   int
	Events []Event
	// Malformed counts events of a known type that could not be used, Unknown
	// counts events of an unknown type. Neither is in Events.
	Malformed, Unknown int
}
