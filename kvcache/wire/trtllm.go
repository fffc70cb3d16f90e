package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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
	window  int64 // the greatest seen: the pool of full attention
	full    int   // stored events that were taken for that pool's
	batch   TRTLLMBatch
}

// trtEvent is one element of the list.
type trtEvent struct {
	ID     *uint64         `json:"event_id"`
	Data   json.RawMessage `json:"data"`
	Window int64           `json:"window_size"`
	Rank   *int32          `json:"attention_dp_rank"`
	Group  *int32          `json:"layer_group_id"`
}

type trtData struct {
	Type string `json:"type"`

	Parent json.RawMessage `json:"parent_hash"` // stored
	Blocks []trtBlock      `json:"blocks"`

	Hashes []json.RawMessage `json:"block_hashes"` // removed

	Hash  json.RawMessage `json:"block_hash"` // updated
	Level *trtDiff        `json:"cache_level"`
}

type trtDiff struct {
	Old *int `json:"old_value"`
	New *int `json:"new_value"`
}

type trtBlock struct {
	Hash   json.RawMessage `json:"block_hash"`
	Tokens []trtToken      `json:"tokens"`
	Level  int             `json:"cache_level"`
	Keys   []trtKey        `json:"mm_keys"`
	Salt   *string         `json:"cache_salt"`
	LoRA   json.RawMessage `json:"lora_id"`
}

type trtToken struct {
	ID    uint32 `json:"token_id"`
	Extra uint64 `json:"token_extra_id"`
}

type trtKey struct {
	Hash   string  `json:"hash"`
	Offset int32   `json:"start_offset"`
	UUID   *string `json:"uuid"`
}

// Decode decodes one answer. Either the batches or the error is nil, except
// that an empty list gives neither; the error wraps [ErrSyntax] or [ErrShape]
// and means that all events of the answer are lost.
func (d *TRTLLMDecoder) Decode(payload []byte) ([]TRTLLMBatch, error) {
	if !json.Valid(payload) {
		return nil, fmt.Errorf("%w: %d bytes that are not JSON", ErrSyntax, len(payload))
	}
	var list []json.RawMessage
	if trimmed := bytes.TrimLeft(payload, " \t\r\n"); trimmed[0] != '[' {
		return nil, fmt.Errorf("%w: not a list", ErrShape)
	}
	if err := json.Unmarshal(payload, &list); err != nil {
		return nil, fmt.Errorf("%w: not a list", ErrShape)
	}
	events := make([]trtEvent, len(list))
	good := make([]bool, len(list))
	for i, raw := range list {
		good[i] = json.Unmarshal(raw, &events[i]) == nil && events[i].ID != nil
		// Which pool is that of full attention must be known before the first
		// store is read.
		if good[i] {
			d.window = max(d.window, events[i].Window)
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
		rank := -1
		if events[i].Rank != nil && *events[i].Rank >= 0 {
			rank = int(*events[i].Rank)
		}
		at, ok := open[rank]
		id := *events[i].ID
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

// DecodeEvent decodes one element of an answer. Members that it does not know are
// no matter. The batch is valid until the next call, its First and Last are the
// event's id; the error wraps [ErrSyntax] or [ErrShape].
//
// Without the rest of the answer the greatest window can come late, when an
// engine of several pools is joined in the middle. The batch then begins with
// [kvcache.Cleared] and counts the stored events before it as malformed: they
// belonged to another pool.
func (d *TRTLLMDecoder) DecodeEvent(payload []byte) (*TRTLLMBatch, error) {
	var ev trtEvent
	if err := json.Unmarshal(payload, &ev); err != nil {
		if malformed := (*json.SyntaxError)(nil); errors.As(err, &malformed) {
			return nil, fmt.Errorf("%w: %d bytes that are not JSON", ErrSyntax, len(payload))
		}
		return nil, fmt.Errorf("%w: not an event", ErrShape)
	}
	if ev.ID == nil {
		return nil, fmt.Errorf("%w: no event_id", ErrShape)
	}
	b := &d.batch
	*b = TRTLLMBatch{Batch: kvcache.Batch{Rank: -1, Events: b.Events[:0]}, First: *ev.ID, Last: *ev.ID}
	if ev.Rank != nil && *ev.Rank >= 0 {
		b.Rank = int(*ev.Rank)
	}
	if ev.Window > d.window {
		if d.full > 0 {
			b.Events = append(b.Events, kvcache.Event{Kind: kvcache.Cleared})
			b.Malformed += d.full
		}
		d.window, d.full = ev.Window, 0
	}
	d.event(b, &ev)
	return b, nil
}

func (d *TRTLLMDecoder) event(b *TRTLLMBatch, ev *trtEvent) {
	var tag struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(ev.Data, &tag) != nil {
		b.Malformed++
		return
	}
	var read func(*TRTLLMBatch, kvcache.Event, *trtData) bool
	switch tag.Type {
	case "created":
		b.Created = true
		return
	case "stored":
		read = d.stored
	case "removed":
		read = d.removed
	case "updated":
		read = d.updated
	default:
		b.Unknown++
		return
	}
	base := kvcache.Event{}
	if ev.Window < d.window {
		base.Attention, base.Group = kvcache.OtherAttention, 1
	}
	if ev.Group != nil && *ev.Group >= 0 {
		base.Group = int(*ev.Group)
	}
	var data trtData
	before := len(b.Events)
	if json.Unmarshal(ev.Data, &data) != nil || !read(b, base, &data) {
		b.Events = b.Events[:before]
		b.Malformed++
	}
}

// stored appends one event for each run of blocks in one tier.
func (d *TRTLLMDecoder) stored(b *TRTLLMBatch, base kvcache.Event, data *trtData) bool {
	e := base
	e.Kind = kvcache.Stored
	var ok bool
	if len(data.Parent) > 0 && !isNull(data.Parent) {
		if e.Parent, ok = trtHash(data.Parent); !ok {
			return false
		}
		e.HasParent = true
	} else if data.Parent == nil {
		return false // it would pass for the start of a prompt
	}
	e.BlockSize = d.blockSize(data.Blocks)
	whole, ok := wholeBlocks(data.Blocks, e.BlockSize)
	if !ok {
		return false
	}
	for i := range whole {
		block := &whole[i]
		hash, ok := trtHash(block.Hash)
		if !ok || block.Level < 0 {
			return false
		}
		tier := trtTier(block.Level)
		if len(e.Hashes) > 0 && tier != e.Tier {
			b.Events = append(b.Events, e)
			last := e.Hashes[len(e.Hashes)-1]
			e.Hashes, e.Tokens, e.Extras = nil, nil, nil
			e.Parent, e.HasParent, e.Salt = last, true, ""
		}
		e.Tier = tier
		if len(e.Hashes) == 0 && block.Salt != nil {
			e.Salt = *block.Salt
		}
		e.AdapterUnnamed = e.AdapterUnnamed || len(block.LoRA) > 0 && !isNull(block.LoRA)
		e.Hashes = append(e.Hashes, hash)
		for _, token := range block.Tokens {
			e.Tokens = append(e.Tokens, token.ID)
		}
		extras := block.extras()
		if len(extras) > 0 && e.Extras == nil {
			e.Extras = make([][]kvcache.Extra, len(e.Hashes)-1, len(whole))
		}
		if e.Extras != nil {
			e.Extras = append(e.Extras, extras)
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
		n := len(blocks[i].Tokens)
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

// extras returns what beside the token ids is part of the block's identity.
func (b *trtBlock) extras() []kvcache.Extra {
	var extras []kvcache.Extra
	for _, k := range b.Keys {
		id := k.Hash
		if k.UUID != nil && *k.UUID != "" {
			id = *k.UUID
		}
		extras = append(extras, kvcache.Extra{ID: id, Offset: int(k.Offset)})
	}
	for n, token := range b.Tokens {
		if token.Extra != 0 {
			extras = append(extras, kvcache.Extra{ID: OpaquePrefix + strconv.FormatUint(token.Extra, 10), Offset: n})
		}
	}
	return extras
}

// blockSize returns the engine's block size, learning it if it must.
func (d *TRTLLMDecoder) blockSize(blocks []trtBlock) int {
	if d.TokensPerBlock > 0 {
		return d.TokensPerBlock
	}
	if d.learned == 0 && len(blocks) > 1 {
		size := len(blocks[0].Tokens)
		for i := range blocks {
			if n := len(blocks[i].Tokens); n > size || (n < size && i < len(blocks)-1) {
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

// removed gives up the blocks in every tier: the engine names none.
func (d *TRTLLMDecoder) removed(b *TRTLLMBatch, base kvcache.Event, data *trtData) bool {
	if data.Hashes == nil {
		return false
	}
	hashes := make([]kvcache.EngineHash, 0, len(data.Hashes))
	for _, raw := range data.Hashes {
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
func (d *TRTLLMDecoder) updated(b *TRTLLMBatch, base kvcache.Event, data *trtData) bool {
	hash, ok := trtHash(data.Hash)
	if !ok {
		return false
	}
	if data.Level == nil {
		return true
	}
	if data.Level.Old == nil || data.Level.New == nil || *data.Level.Old < 0 || *data.Level.New < 0 {
		return false
	}
	from, to := trtTier(*data.Level.Old), trtTier(*data.Level.New)
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
func trtTier(level int) kvcache.Tier {
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
func trtHash(raw json.RawMessage) (kvcache.EngineHash, bool) {
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
	var text string
	if json.Unmarshal(raw, &text) != nil || text == "" || len(text)%2 != 0 {
		return 0, false
	}
	digest, err := hex.DecodeString(text)
	if err != nil {
		return 0, false
	}
	var v uint64
	for _, c := range digest[max(0, len(digest)-8):] {
		v = v<<8 | uint64(c)
	}
	return kvcache.EngineHash(v), true
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }
