package fleettest

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/internal/sim"
)

// What an engine computes where it isn't what it says elsewhere.

// otherwise makes the prompt that of an engine with another template or tokenizer.
func (p *rendered) otherwise(v *view) {
	if v.tokenizer {
		// Other ids, and now and then a word is two of them.
		const every = 7
		ids := make([]uint32, 0, len(p.tokens)+len(p.tokens)/every)
		for _, id := range p.tokens {
			other := firstWord + (id^0x5555)%(VocabSize-firstWord)
			if ids = append(ids, other); other%every == 0 {
				ids = append(ids, firstWord+other%every)
			}
		}
		p.tokens = ids
	}
	if v.template > 0 {
		ids := make([]uint32, v.template, v.template+len(p.tokens))
		for i := range ids {
			ids[i] = firstWord + uint32(i)
		}
		p.tokens = append(ids, p.tokens...)
		for i := range p.images {
			p.images[i].offset += v.template
		}
	}
}

// finer returns events as of blocks of fine tokens, of which size make one of theirs.
func finer(events []sim.Event, fine, size int) []sim.Event {
	parts := size / fine
	if parts < 2 || size%fine != 0 {
		return events
	}
	split := func(hash uint64, part int) uint64 {
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], hash)
		binary.LittleEndian.PutUint64(b[8:], uint64(part))
		return xxhash.Sum64(b[:])
	}
	out := make([]sim.Event, len(events))
	for i, e := range events {
		hashes := make([]uint64, 0, len(e.Hashes)*parts)
		for _, h := range e.Hashes {
			for part := range parts {
				hashes = append(hashes, split(h, part))
			}
		}
		e.Hashes, e.First = hashes, e.First*parts
		if e.HasParent {
			e.Parent = split(e.Parent, parts-1)
		}
		if e.BlockSize > 0 {
			e.BlockSize = fine
		}
		out[i] = e
	}
	return out
}
