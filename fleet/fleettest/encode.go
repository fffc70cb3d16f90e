package fleettest

import (
	"encoding/binary"
	"slices"

	"github.com/kvsteer/kvsteer/internal/sim"
)

// EventFormat is how KV events are encoded: one per shape that engines in use
// send.
type EventFormat uint8

// The formats, newest first within an engine.
const (
	// EventsDefault is the dialect's newest format.
	EventsDefault EventFormat = iota
	// EventsVLLM: maps with unsigned hashes, extra keys, group and kind (vLLM 0.24
	// and later).
	EventsVLLM
	// EventsVLLMArray12: arrays of twelve (about 0.22 to 0.23).
	EventsVLLMArray12
	// EventsVLLMArray8: arrays of eight, with the adapter's name (0.12 to 0.16).
	EventsVLLMArray8
	// EventsVLLMArray7: arrays of seven, with the medium (0.10.2 to 0.11).
	EventsVLLMArray7
	// EventsVLLMArray6: arrays of six, in a batch of two elements (0.9.0).
	EventsVLLMArray6
	// EventsSGLang: maps with signed hashes (September 2026 and later).
	EventsSGLang
	// EventsSGLangArray: arrays of seven with signed hashes, and of eight with a
	// map when a cache salt is set (0.5.18 and later).
	EventsSGLangArray
)

const (
	mediumGPU       = "GPU"
	kindFull        = "full_attention"
	wideHash        = 32 // bytes of a hash in BytesHashes form
	bytesPerToken   = 5
	bytesPerHash    = 34
	bytesPerMessage = 256
)

// encoder turns a step's events into the payload of one message.
type encoder struct {
	format EventFormat
	bytes  bool
	rank   int
}

// encode returns a fresh payload. ts is in seconds since the Unix epoch.
func (e encoder) encode(ts float64, events []sim.Event) []byte {
	if e.signed() {
		events = mergeRemoved(events)
	}
	size := bytesPerMessage * (1 + len(events))
	for i := range events {
		size += len(events[i].Tokens)*bytesPerToken + len(events[i].Hashes)*bytesPerHash
	}
	p := packer{b: make([]byte, 0, size)}
	if e.format == EventsVLLMArray6 {
		p.array(2)
	} else {
		p.array(3)
	}
	p.float(ts)
	p.array(len(events))
	for i := range events {
		if e.format == EventsVLLM || e.format == EventsSGLang {
			e.asMap(&p, &events[i])
		} else {
			e.asArray(&p, &events[i])
		}
	}
	if e.format != EventsVLLMArray6 {
		p.int(int64(e.rank))
	}
	return p.b
}

func (e encoder) signed() bool {
	return e.format == EventsSGLang || e.format == EventsSGLangArray
}

// mergeRemoved joins neighbouring removals into one: SGLang evicts whole radix
// nodes.
func mergeRemoved(events []sim.Event) []sim.Event {
	merged := make([]sim.Event, 0, len(events))
	for i := range events {
		last := len(merged) - 1
		if events[i].Kind == sim.BlockRemoved && last >= 0 && merged[last].Kind == sim.BlockRemoved {
			merged[last].Hashes = append(slices.Clip(merged[last].Hashes), events[i].Hashes...)
			continue
		}
		merged = append(merged, events[i])
	}
	return merged
}

func eventName(kind sim.EventKind) string {
	switch kind {
	case sim.BlockStored:
		return "BlockStored"
	case sim.BlockRemoved:
		return "BlockRemoved"
	case sim.AllBlocksCleared:
		return "AllBlocksCleared"
	default:
		return "Unknown"
	}
}

func (e encoder) asMap(p *packer, event *sim.Event) {
	vllm := e.format == EventsVLLM
	id := identityOf(event)
	switch event.Kind {
	case sim.BlockStored:
		n := 7
		for _, more := range []bool{!vllm && id.adapter != "", !vllm && id.salt != "", id.session != ""} {
			if more {
				n++
			}
		}
		if vllm {
			n += 4
		}
		p.dict(n)
		e.head(p, event)
		p.str("parent_block_hash")
		e.parent(p, event)
		p.str("token_ids")
		tokens(p, event)
		p.str("block_size")
		p.int(int64(event.BlockSize))
		p.str("lora_id")
		id.lora(p)
		p.str("medium")
		p.str(mediumGPU)
		if vllm || id.adapter != "" {
			p.str("lora_name")
			id.name(p)
		}
		if vllm {
			p.str("extra_keys")
			id.extraKeys(p, event)
			p.str("group_idx")
			p.int(0)
			p.str("kv_cache_spec_kind")
			p.str(kindFull)
		} else if id.salt != "" {
			p.str("cache_salt")
			p.str(id.salt)
		}
		if id.session != "" {
			p.str("session_id")
			p.str(id.session)
		}
	case sim.BlockRemoved:
		if vllm {
			p.dict(4)
		} else {
			p.dict(3)
		}
		e.head(p, event)
		p.str("medium")
		p.str(mediumGPU)
		if vllm {
			p.str("group_idx")
			p.int(0)
		}
	default:
		p.dict(1)
		p.str("type")
		p.str(eventName(event.Kind))
	}
}

// head writes the type and the hashes.
func (e encoder) head(p *packer, event *sim.Event) {
	p.str("type")
	p.str(eventName(event.Kind))
	p.str("block_hashes")
	e.hashes(p, event)
}

func (e encoder) asArray(p *packer, event *sim.Event) {
	id := identityOf(event)
	salted := e.format == EventsSGLangArray && id.salt != ""
	stored, removed := 7, 3
	switch e.format {
	case EventsVLLMArray12:
		stored, removed = 12, 4
	case EventsVLLMArray8:
		stored = 8
	case EventsVLLMArray6:
		stored, removed = 6, 2
	default:
		if salted {
			stored = 8
		}
	}
	switch event.Kind {
	case sim.BlockStored:
		p.array(stored)
		p.str(eventName(event.Kind))
		e.hashes(p, event)
		e.parent(p, event)
		tokens(p, event)
		p.int(int64(event.BlockSize))
		id.lora(p)
		if stored > 6 {
			p.str(mediumGPU)
		}
		switch {
		case salted:
			p.dict(1)
			p.str("cache_salt")
			p.str(id.salt)
		case stored > 7:
			id.name(p)
		}
		if stored > 8 {
			id.extraKeys(p, event)
			p.int(0)
			p.str(kindFull)
			p.null()
		}
	case sim.BlockRemoved:
		p.array(removed)
		p.str(eventName(event.Kind))
		e.hashes(p, event)
		if removed > 2 {
			p.str(mediumGPU)
		}
		if removed > 3 {
			p.int(0)
		}
	default:
		p.array(1)
		p.str(eventName(event.Kind))
	}
}

func (e encoder) hashes(p *packer, event *sim.Event) {
	p.array(len(event.Hashes))
	for _, hash := range event.Hashes {
		e.hash(p, hash)
	}
}

func (e encoder) parent(p *packer, event *sim.Event) {
	if event.HasParent {
		e.hash(p, event.Parent)
	} else {
		p.null()
	}
}

func (e encoder) hash(p *packer, hash uint64) {
	switch {
	case e.bytes:
		// A digest whose last eight bytes are the integer form.
		var digest [wideHash]byte
		for i := range wideHash / 8 {
			binary.BigEndian.PutUint64(digest[8*i:], hash*uint64(wideHash/8-i))
		}
		p.bin(digest[:])
	case e.signed():
		p.int(int64(hash))
	default:
		p.uint(hash)
	}
}

func tokens(p *packer, event *sim.Event) {
	p.array(len(event.Tokens))
	for _, id := range event.Tokens {
		p.uint(uint64(id))
	}
}

// identity is what distinguishes a request's blocks beside their tokens.
type identity struct {
	adapter   string
	adapterID int // from 1; 0 is the base model
	salt      string
	session   string
	images    []image
}

// image is one multimodal item of a prompt.
type image struct {
	id             string
	offset, length int // in tokens
}

func identityOf(event *sim.Event) identity {
	if event.Request != nil {
		if j, ok := event.Request.Tag.(*job); ok {
			return j.identity
		}
	}
	return identity{}
}

// overlaps returns how many images overlap a block.
func (id *identity) overlaps(block, size int) int {
	n := 0
	for _, im := range id.images {
		if im.overlaps(block, size) {
			n++
		}
	}
	return n
}

func (im *image) overlaps(block, size int) bool {
	return im.offset < (block+1)*size && im.offset+im.length > block*size
}

// extraKeys writes each block's keys in vLLM's order: adapter, images, salt.
func (id *identity) extraKeys(p *packer, event *sim.Event) {
	p.array(len(event.Hashes))
	for i := range event.Hashes {
		block := event.First + i
		n := id.overlaps(block, event.BlockSize)
		if id.adapter != "" {
			n++
		}
		if id.salt != "" && block == 0 {
			n++
		}
		if n == 0 {
			p.null()
			continue
		}
		p.array(n)
		if id.adapter != "" {
			p.str(id.adapter)
		}
		for _, im := range id.images {
			if im.overlaps(block, event.BlockSize) {
				p.array(2)
				p.str(im.id)
				p.int(int64(im.offset - block*event.BlockSize))
			}
		}
		if id.salt != "" && block == 0 {
			p.str(id.salt)
		}
	}
}

func (id *identity) lora(p *packer) {
	if id.adapter == "" {
		p.null()
	} else {
		p.int(int64(id.adapterID))
	}
}

func (id *identity) name(p *packer) {
	if id.adapter == "" {
		p.null()
	} else {
		p.str(id.adapter)
	}
}
