package wire

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache"
)

// DefaultTokensPerBlock is TensorRT-LLM's own default block size in tokens.
const DefaultTokensPerBlock = 32

// TRTLLMBatch is a run of consecutive events of one rank. The fields of
// [kvcache.Batch] are as from [Decoder], with Time 0.
type TRTLLMBatch struct {
	kvcache.Batch
	// First and Last are the ids of the run's first and last event. Each rank
	// numbers its events from 0. An answer's first run continues the previous
	// answer's last one of that rank if First follows its Last; if it lies
	// beyond, events were lost, and if it lies before, the engine restarted.
	First, Last uint64
	// Created is set when the engine announced its pools in this run: it has
	// just started, with nothing cached.
	Created bool
}

// TRTLLMDecoder decodes what TensorRT-LLM answers to POST /kv_cache_events: a
// JSON list of all events since the last request. It remembers what earlier
// answers told of the engine's pools, so that one decoder serves one engine, and
// a new one its successor. The zero value is ready; it is not for concurrent
// use. Batches are the caller's to keep.
type TRTLLMDecoder struct {
	// TokensPerBlock is the engine's tokens_per_block. Blocks of fewer tokens
	// are incomplete, can't be reused, and are left out. 0 means to learn it,
	// from blocks that have successors; until then only blocks of
	// [DefaultTokensPerBlock] count.
	TokensPerBlock int

	learned int
	lone    [DefaultTokensPerBlock]int // lone blocks left out until then, by tokens
	window  int64                      // the greatest seen: the pool of full attention
	full    int                        // stored events that were taken for that pool's
	batch   TRTLLMBatch
	data    trtData
}

// Decode decodes one answer. Either the batches or the error is nil, except
// that an empty list gives neither; the error wraps [ErrSyntax] or [ErrShape]
// and means that all events of the answer are lost.
func (d *TRTLLMDecoder) Decode(payload []byte) ([]TRTLLMBatch, error) {
	v, err := trtParse(payload)
	if err != nil {
		return nil, err
	}
	if v.Kind() != jsonscan.KindArray {
		return nil, fmt.Errorf("%w: not a list", ErrShape)
	}
	var events []trtEvent
	var good []bool
	for it := v.Iter(); it.Next(); {
		var ev trtEvent
		ok := ev.read(it.Value())
		events, good = append(events, ev), append(good, ok)
		// Which pool is that of full attention must be known before the first
		// store is read.
		if ok {
			d.window = max(d.window, ev.window)
		}
	}
	var out []TRTLLMBatch
	open := map[int]int{} // rank -> its current run in out
	numberless := 0
	for i := range events {
		if !good[i] {
			numberless++ // its number is missing in its run, which shows as a gap
			continue
		}
		rank, id := events[i].rank, events[i].id
		at, ok := open[rank]
		if !ok || id != out[at].Last+1 {
			out = append(out, TRTLLMBatch{Batch: kvcache.Batch{Rank: rank}, First: id})
			at = len(out) - 1
			open[rank] = at
		}
		out[at].Last = id
		d.event(&out[at], &events[i])
	}
	if len(out) == 0 && numberless > 0 {
		return nil, fmt.Errorf("%w: no element has an event_id", ErrShape)
	}
	if numberless > 0 {
		out[0].Malformed += numberless
	}
	return out, nil
}

func trtParse(payload []byte) (jsonscan.Value, error) {
	v, err := jsonscan.ParseValue(payload, trtDepth)
	if err != nil {
		return v, fmt.Errorf("%w: %d bytes that are not JSON", ErrSyntax, len(payload))
	}
	return v, nil
}

// DecodeEvent decodes one element of an answer. Members that it does not know are
// no matter. The batch is valid until the next call, its First and Last are the
// event's id; the error wraps [ErrSyntax] or [ErrShape].
//
// Without the rest of the answer the greatest window can come late, when an
// engine of several pools is joined in the middle. The batch then begins with
// [kvcache.Cleared] and counts the stored events before it as malformed: they
// belonged to another pool.
func (d *TRTLLMDecoder) DecodeEvent(payload []byte) (*TRTLLMBatch, error) {
	v, err := trtParse(payload)
	if err != nil {
		return nil, err
	}
	var ev trtEvent
	if !ev.read(v) {
		return nil, fmt.Errorf("%w: not an event with an event_id", ErrShape)
	}
	b := &d.batch
	*b = TRTLLMBatch{Batch: kvcache.Batch{Rank: ev.rank, Events: b.Events[:0]}, First: ev.id, Last: ev.id}
	if ev.window > d.window {
		if d.full > 0 {
			b.Events = append(b.Events, kvcache.Event{Kind: kvcache.Cleared})
			b.Malformed += d.full
		}
		d.window, d.full = ev.window, 0
	}
	d.event(b, &ev)
	return b, nil
}

func (d *TRTLLMDecoder) event(b *TRTLLMBatch, ev *trtEvent) {
	var read func(*TRTLLMBatch, kvcache.Event) bool
	switch tag := ev.data.Get("type"); {
	case tag.Kind() != jsonscan.KindString:
		b.Malformed++
		return
	case tag.Is("created"):
		b.Created = true
		return
	case tag.Is("stored"):
		read = d.stored
	case tag.Is("removed"):
		read = d.removed
	case tag.Is("updated"):
		read = d.updated
	default:
		b.Unknown++
		return
	}
	base := kvcache.Event{}
	if ev.window < d.window {
		base.Attention, base.Group = kvcache.OtherAttention, int(min(max(ev.window, 1), math.MaxInt32))
	}
	if ev.group >= 0 {
		base.Group = ev.group
	}
	before := len(b.Events)
	if !d.data.read(ev.data) || !read(b, base) {
		b.Events = b.Events[:before]
		b.Malformed++
	}
}

// stored appends one event for each run of blocks in one tier.
func (d *TRTLLMDecoder) stored(b *TRTLLMBatch, base kvcache.Event) bool {
	e := base
	e.Kind = kvcache.Stored
	var ok bool
	switch parent := d.data.parent; {
	case parent == nil:
		return false // it would pass for the start of a prompt
	case !isNull(parent):
		if e.Parent, ok = trtHash(parent); !ok {
			return false
		}
		e.HasParent = true
	default:
	}
	known := d.learned > 0 || d.TokensPerBlock > 0
	e.BlockSize = d.blockSize(d.data.blocks)
	whole, ok := wholeBlocks(d.data.blocks, e.BlockSize)
	if !ok {
		return false
	}
	if !known {
		b.Malformed += d.mistaken(len(whole))
	}
	e.Hashes = make([]kvcache.EngineHash, 0, len(whole))
	e.Tokens = make([]uint32, 0, len(whole)*e.BlockSize)
	for i := range whole {
		block := &whole[i]
		hash, ok := trtHash(block.hash)
		if !ok {
			return false
		}
		tier := trtTier(block.level)
		if len(e.Hashes) > 0 && tier != e.Tier {
			b.Events = append(b.Events, e)
			last := e.Hashes[len(e.Hashes)-1]
			e.Hashes, e.Tokens, e.Extras = nil, nil, nil
			e.Parent, e.HasParent, e.Salt = last, true, ""
		}
		e.Tier = tier
		if len(e.Hashes) == 0 {
			e.Salt = block.salt
		}
		e.AdapterUnnamed = e.AdapterUnnamed || block.lora
		e.Hashes = append(e.Hashes, hash)
		e.Tokens = append(e.Tokens, block.tokens...)
		if len(block.extras) > 0 && e.Extras == nil {
			e.Extras = make([][]kvcache.Extra, len(e.Hashes)-1, len(whole))
		}
		if e.Extras != nil {
			e.Extras = append(e.Extras, block.extras)
		}
	}
	if len(e.Hashes) > 0 {
		if e.Attention == kvcache.FullAttention {
			d.full++
		}
		b.Events = append(b.Events, e)
	}
	return true
}

// wholeBlocks leaves out an incomplete last block; false if another one is
// incomplete, or one too long.
func wholeBlocks(blocks []trtBlock, size int) ([]trtBlock, bool) {
	for i := range blocks {
		n := len(blocks[i].tokens)
		last := i == len(blocks)-1
		switch {
		case n == size:
		case n < size && last:
			return blocks[:i], true
		default:
			return nil, false
		}
	}
	return blocks, true
}

// blockSize returns the engine's block size, learning it if it must.
func (d *TRTLLMDecoder) blockSize(blocks []trtBlock) int {
	if d.TokensPerBlock > 0 {
		return d.TokensPerBlock
	}
	if d.learned == 0 && len(blocks) > 1 {
		size := len(blocks[0].tokens)
		for i := range blocks {
			if n := len(blocks[i].tokens); n > size || (n < size && i < len(blocks)-1) {
				return DefaultTokensPerBlock // not a chain; nothing to learn
			}
		}
		d.learned = size
	}
	if d.learned > 0 {
		return d.learned
	}
	return DefaultTokensPerBlock
}

// mistaken counts the blocks that passed for incomplete ones while the size was
// not known, once it is. whole is how many of the present ones are complete.
func (d *TRTLLMDecoder) mistaken(whole int) int {
	if d.learned > 0 {
		if d.learned < len(d.lone) {
			return d.lone[d.learned]
		}
		return 0
	}
	if len(d.data.blocks) == 1 && whole == 0 {
		d.lone[len(d.data.blocks[0].tokens)]++
	}
	return 0
}

// removed gives up the blocks in every tier: the engine names none.
func (d *TRTLLMDecoder) removed(b *TRTLLMBatch, base kvcache.Event) bool {
	if !d.data.hasHashes {
		return false
	}
	hashes := make([]kvcache.EngineHash, 0, len(d.data.hashes))
	for _, raw := range d.data.hashes {
		h, ok := trtHash(raw)
		if !ok {
			return false
		}
		hashes = append(hashes, h)
	}
	for _, tier := range [...]kvcache.Tier{kvcache.TierGPU, kvcache.TierCPU, kvcache.TierRemote} {
		e := base
		e.Kind, e.Hashes, e.Tier = kvcache.Removed, hashes, tier
		b.Events = append(b.Events, e)
	}
	return true
}

// updated moves a block between tiers: a copy first, so that it is never
// nowhere. A change of priority alone is nothing to us.
func (d *TRTLLMDecoder) updated(b *TRTLLMBatch, base kvcache.Event) bool {
	hash, ok := trtHash(d.data.hash)
	if !ok {
		return false
	}
	level := d.data.level
	if level == nil {
		return true
	}
	if level.from < 0 || level.to < 0 {
		return false
	}
	from, to := trtTier(level.from), trtTier(level.to)
	if from == to {
		return true
	}
	stored, removed := base, base
	stored.Kind, stored.Hashes, stored.Tier = kvcache.Stored, []kvcache.EngineHash{hash}, to
	removed.Kind, removed.Hashes, removed.Tier = kvcache.Removed, []kvcache.EngineHash{hash}, from
	b.Events = append(b.Events, stored, removed)
	return true
}

// trtTier maps a cache level: 0 is the GPU's memory, 1 the host's.
func trtTier(level int64) kvcache.Tier {
	switch level {
	case 0:
		return kvcache.TierGPU
	case 1:
		return kvcache.TierCPU
	default:
		return kvcache.TierRemote
	}
}

// trtHash reads a block hash: an integer of 64 bits, or a digest in hex, of
// which the last eight bytes count, as in [Decoder].
func trtHash(raw []byte) (kvcache.EngineHash, bool) {
	if len(raw) == 0 {
		return 0, false
	}
	if raw[0] != '"' {
		if v, err := strconv.ParseUint(string(raw), 10, 64); err == nil {
			return kvcache.EngineHash(v), true
		}
		v, err := strconv.ParseInt(string(raw), 10, 64)
		return kvcache.EngineHash(v), err == nil
	}
	digest, err := hex.DecodeString(string(raw[1 : len(raw)-1]))
	if err != nil || len(digest) == 0 {
		return 0, false
	}
	var v uint64
	for _, c := range digest[max(0, len(digest)-8):] {
		v = v<<8 | uint64(c)
	}
	return kvcache.EngineHash(v), true
}

func isNull(raw []byte) bool { return string(raw) == "null" }
