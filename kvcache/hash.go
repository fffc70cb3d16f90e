package kvcache

// Key is the router's own identifier of a block and everything before it.
type Key uint64

// Scope separates prompts whose tokens are equal but whose cache entries are
// not shared: different adapters, different cache salts.
type Scope struct {
	// Adapter is the LoRA adapter's name, "" for the base model.
	Adapter string
	// Salt is the cache salt, "" for none.
	Salt string
}

// Item is one multimodal input of a prompt: Length placeholder tokens from
// Offset on stand for the content that ID identifies.
type Item struct {
	ID             string
	Offset, Length int
}

// Hasher turns tokens into chained block keys. It is immutable and safe for
// concurrent use.
type Hasher struct {
	// BlockSize is in tokens; at least 1.
	BlockSize int
}
