package wire

import (
	"math"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache"
)

// trtDepth is far more than events have.
const trtDepth = 32

// trtEvent is one element of the list.
type trtEvent struct {
	id     uint64
	data   jsonscan.Value
	window int64
	rank   int // -1 if it names none
	group  int // -1 if it names none
}

// trtData is what events say, of any kind. Raw values share the payload's memory.
// It is used again for the next event.
type trtData struct {
	parent []byte // stored; nil if absent, which is not null
	blocks []trtBlock

	hashes    [][]byte // removed
	hasHashes bool

	hash  []byte // updated
	level *trtDiff
}

type trtDiff struct{ from, to int64 }

type trtBlock struct {
	hash   []byte
	tokens []uint32
	level  int64
	extras []kvcache.Extra
	salt   string
	lora   bool
}

// read reads one element. What is null counts as absent.
func (ev *trtEvent) read(v jsonscan.Value) bool {
	*ev = trtEvent{rank: -1, group: -1}
	if v.Kind() != jsonscan.KindObject {
		return false
	}
	numbered := false
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		if !x.Exists() {
			continue
		}
		ok := true
		switch string(it.Key()) {
		case "event_id":
			ev.id, ok = trtUint(x)
			numbered = ok
		case "data":
			ev.data = x
		case "window_size":
			ev.window, ok = x.Int()
		case "attention_dp_rank":
			ev.rank, ok = trtIndex(x)
		case "layer_group_id":
			ev.group, ok = trtIndex(x)
		default:
		}
		if !ok {
			return false
		}
	}
	return numbered
}

// trtIndex reads an index; a negative one is none.
func trtIndex(v jsonscan.Value) (int, bool) {
	n, ok := v.Int()
	if !ok || n != int64(int32(n)) {
		return 0, false
	}
	return max(int(n), -1), true
}

// trtUint reads an integer of 64 bits, without a float on the way.
func trtUint(v jsonscan.Value) (uint64, bool) {
	if v.Kind() != jsonscan.KindNumber {
		return 0, false
	}
	n, err := strconv.ParseUint(string(v.Raw()), 10, 64)
	return n, err == nil
}

// read reads the object "data".
func (d *trtData) read(v jsonscan.Value) bool {
	*d = trtData{blocks: d.blocks[:0], hashes: d.hashes[:0]}
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		ok := true
		switch string(it.Key()) {
		case "parent_hash":
			d.parent = x.Raw()
		case "blocks":
			ok = d.readBlocks(x)
		case "block_hashes":
			ok = d.readHashes(x)
		case "block_hash":
			d.hash = x.Raw()
		case "cache_level":
			ok = d.readLevel(x)
		default:
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *trtData) readHashes(v jsonscan.Value) bool {
	d.hashes = d.hashes[:0]
	d.hasHashes = v.Kind() == jsonscan.KindArray
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		d.hashes = append(d.hashes, x.Raw())
	}
	return d.hasHashes || !v.Exists()
}

func (d *trtData) readLevel(v jsonscan.Value) bool {
	if !v.Exists() {
		d.level = nil
		return true
	}
	from, ok1 := v.Get("old_value").Int()
	to, ok2 := v.Get("new_value").Int()
	d.level = &trtDiff{from, to}
	return ok1 && ok2
}

func (d *trtData) readBlocks(v jsonscan.Value) bool {
	d.blocks = d.blocks[:0]
	for it := v.Iter(); it.Next(); {
		if len(d.blocks) < cap(d.blocks) {
			d.blocks = d.blocks[:len(d.blocks)+1] // with the memory of an earlier one
		} else {
			d.blocks = append(d.blocks, trtBlock{})
		}
		if !d.blocks[len(d.blocks)-1].read(it.Value()) {
			return false
		}
	}
	return v.Kind() == jsonscan.KindArray || !v.Exists()
}

func (b *trtBlock) read(v jsonscan.Value) bool {
	*b = trtBlock{tokens: b.tokens[:0]}
	if v.Kind() != jsonscan.KindObject {
		return false
	}
	var keys, tokens []kvcache.Extra
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		if !x.Exists() {
			continue
		}
		ok := true
		switch string(it.Key()) {
		case "block_hash":
			b.hash = x.Raw()
		case "tokens":
			tokens, ok = b.readTokens(x)
		case "cache_level":
			b.level, ok = x.Int()
			ok = ok && b.level >= 0
		case "mm_keys":
			keys, ok = readKeys(x)
		case "cache_salt":
			b.salt, ok = x.Str()
		case "lora_id":
			b.lora = true
		default:
		}
		if !ok {
			return false
		}
	}
	keys = append(keys, tokens...)
	b.extras = keys
	return true
}

// readTokens returns what of the tokens is not in their ids.
func (b *trtBlock) readTokens(v jsonscan.Value) (extras []kvcache.Extra, ok bool) {
	b.tokens = b.tokens[:0]
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		if x.Kind() != jsonscan.KindObject {
			return nil, false
		}
		var id int64
		for token := x.Iter(); token.Next(); {
			ok := true
			switch string(token.Key()) {
			case "token_id":
				id, ok = token.Value().Int()
				ok = ok && id >= 0 && id <= math.MaxUint32
			case "token_extra_id":
				var extra uint64
				if extra, ok = trtUint(token.Value()); extra != 0 {
					extras = append(extras, kvcache.Extra{ID: OpaquePrefix + strconv.FormatUint(extra, 10), Offset: len(b.tokens)})
				}
				ok = ok || !token.Value().Exists()
			default:
			}
			if !ok {
				return nil, false
			}
		}
		b.tokens = append(b.tokens, uint32(id))
	}
	return extras, v.Kind() == jsonscan.KindArray
}

// readKeys reads multimodal items: a uuid that the user gave stands before the
// content's hash.
func readKeys(v jsonscan.Value) (extras []kvcache.Extra, ok bool) {
	for it := v.Iter(); it.Next(); {
		x := it.Value()
		var e kvcache.Extra
		if e.ID, ok = x.Get("uuid").Str(); !ok || e.ID == "" {
			if e.ID, ok = x.Get("hash").Str(); !ok {
				return nil, false
			}
		}
		if at := x.Get("start_offset"); at.Exists() {
			n, ok := at.Int()
			if !ok || n != int64(int32(n)) {
				return nil, false
			}
			e.Offset = int(n)
		}
		extras = append(extras, e)
	}
	return extras, v.Kind() == jsonscan.KindArray
}
