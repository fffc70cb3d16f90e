package kvcache

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

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
// Offset on stand for the content that ID identifies. Both are in tokens; an
// item of no length touches no block.
type Item struct {
	ID             string
	Offset, Length int
}

// Hasher turns tokens into chained block keys: each block's own 64-bit xxHash
// over its little-endian token ids, chained onto its parent's key by another
// round of xxHash. Hashing a block apart from chaining it lets an [Index] hold a
// block whose parent is not known yet in eight bytes. A Hasher is immutable and
// safe for concurrent use; its methods keep nothing of their arguments.
type Hasher struct {
	// BlockSize is in tokens; at least 1. With less there are no blocks.
	BlockSize int
}

// Roots of the two disjoint key spaces. Any two different constants do; changing
// one changes every key.
const (
	tokenDomain Key = 0x6b76636163686531
	byteDomain  Key = 0x6b76636163686532
)

// bytesPerToken is the usual length of a token of English text, in bytes. It
// makes a chunk of [Hasher.ByteKeys] comparable to a block.
const bytesPerToken = 4

// Root returns the key that the first block of a prompt chains onto. Adapter and
// salt are hashed apart, so that ("ab", "c") and ("a", "bc") differ.
func (h Hasher) Root(s Scope) Key { return rootKey(tokenDomain, s) }

// Next returns the key of one block: its tokens and extra identity after parent.
// The order of extras does not matter.
func (h Hasher) Next(parent Key, tokens []uint32, extras []Extra) Key {
	return chain(parent, blockHash(tokens, extras))
}

// Keys appends the key of every full block of tokens to dst and returns it. Items
// may be in any order; a block's identity includes those that overlap it. It
// does not allocate when dst has room.
func (h Hasher) Keys(dst []Key, tokens []uint32, s Scope, items []Item) []Key {
	size := h.BlockSize
	if size < 1 {
		return dst
	}
	key := h.Root(s)
	ordered := itemsOrdered(items)
	for start := 0; start+size <= len(tokens); start += size {
		local := tokensHash(tokens[start : start+size])
		// Items that ended before this block end before every later one too.
		for len(items) > 0 && items[0].Offset+items[0].Length <= start {
			items = items[1:]
		}
		if len(items) > 0 {
			local = withItems(local, items, start, start+size, ordered)
		}
		key = chain(key, local)
		dst = append(dst, key)
	}
	return dst
}

// ByteKeys appends approximate keys for a prompt whose tokens are unknown: one
// for every full chunk of 4*BlockSize bytes of text. They never equal a key of
// Keys or Next, so they match only what was booked under such keys. It does not
// allocate when dst has room.
func (h Hasher) ByteKeys(dst []Key, text []byte, s Scope) []Key {
	if h.BlockSize < 1 || h.BlockSize > len(text)/bytesPerToken {
		return dst
	}
	size := h.BlockSize * bytesPerToken
	key := rootKey(byteDomain, s)
	for ; len(text) >= size; text = text[size:] {
		key = chain(key, xxhash.Sum64(text[:size]))
		dst = append(dst, key)
	}
	return dst
}

func rootKey(domain Key, s Scope) Key {
	return chain(chain(domain, xxhash.Sum64String(s.Adapter)), xxhash.Sum64String(s.Salt))
}

// blockHash is a block's identity without its past.
func blockHash(tokens []uint32, extras []Extra) uint64 {
	local := tokensHash(tokens)
	if len(extras) == 0 {
		return local
	}
	var sum uint64
	for i := range extras {
		sum += extraHash(extras[i].ID, extras[i].Offset)
	}
	return withExtras(local, sum, len(extras))
}

func withItems(local uint64, items []Item, start, end int, ordered bool) uint64 {
	var sum uint64
	n := 0
	for i := range items {
		it := &items[i]
		if it.Offset >= end {
			if ordered {
				break
			}
			continue
		}
		if it.Length > 0 && it.Offset+it.Length > start {
			sum += extraHash(it.ID, it.Offset-start)
			n++
		}
	}
	if n == 0 {
		return local
	}
	return withExtras(local, sum, n)
}

func itemsOrdered(items []Item) bool {
	for i := 1; i < len(items); i++ {
		if items[i].Offset < items[i-1].Offset {
			return false
		}
	}
	return true
}

func extraHash(id string, offset int) uint64 {
	return uint64(chain(Key(xxhash.Sum64String(id)), uint64(int64(offset))))
}

// withExtras adds the sum of extra hashes; a sum, so that the engine's order and
// the request's need not agree.
func withExtras(local, sum uint64, n int) uint64 {
	return uint64(chain(Key(sum+uint64(n)*prime3), local))
}

// The constants of xxHash64.
const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
	prime3 uint64 = 1609587929392839161
	prime4 uint64 = 9650029242287828579
	prime5 uint64 = 2870177450012600261
)

// chain is xxHash64 of local and then parent, 16 bytes; in this order because
// local is known early and parent is what a chain waits for.
func chain(parent Key, local uint64) Key {
	h := prime5 + 16
	h ^= xxRound(0, local)
	h = bits.RotateLeft64(h, 27)*prime1 + prime4
	h ^= xxRound(0, uint64(parent))
	h = bits.RotateLeft64(h, 27)*prime1 + prime4
	return Key(avalanche(h))
}

// tokensHash is xxHash64, seed 0, of the tokens as little-endian 32-bit words. It
// reads the words where they are, whatever the machine's byte order.
func tokensHash(t []uint32) uint64 {
	var h uint64
	n := uint64(len(t)) * 4
	if len(t) >= 8 {
		// Variables, because the compiler refuses the overflow in constants.
		p1, p2 := prime1, prime2
		v1, v2, v3, v4 := p1+p2, p2, uint64(0), -p1
		for len(t) >= 8 {
			v1 = xxRound(v1, pair(t[0], t[1]))
			v2 = xxRound(v2, pair(t[2], t[3]))
			v3 = xxRound(v3, pair(t[4], t[5]))
			v4 = xxRound(v4, pair(t[6], t[7]))
			t = t[8:]
		}
		h = bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) +
			bits.RotateLeft64(v3, 12) + bits.RotateLeft64(v4, 18)
		h = mergeRound(h, v1)
		h = mergeRound(h, v2)
		h = mergeRound(h, v3)
		h = mergeRound(h, v4)
	} else {
		h = prime5
	}
	h += n
	for ; len(t) >= 2; t = t[2:] {
		h ^= xxRound(0, pair(t[0], t[1]))
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	if len(t) == 1 {
		h ^= uint64(t[0]) * prime1
		h = bits.RotateLeft64(h, 23)*prime2 + prime3
	}
	return avalanche(h)
}

func pair(lo, hi uint32) uint64 { return uint64(lo) | uint64(hi)<<32 }

func xxRound(acc, in uint64) uint64 {
	return bits.RotateLeft64(acc+in*prime2, 31) * prime1
}

func mergeRound(acc, v uint64) uint64 {
	return (acc^xxRound(0, v))*prime1 + prime4
}

func avalanche(h uint64) uint64 {
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	h ^= h >> 32
	return h
}
