package wire

import (
	"github.com/kvsteer/kvsteer/kvcache"
)

// Prefixes of [kvcache.Extra.ID] for identities that are not the identifier of
// a multimodal item. They start with a byte that identifiers don't.
const (
	// EmbedsPrefix stands before the digest of prompt embeddings, whose raw
	// bytes follow.
	EmbedsPrefix = "\x00embeds:"
	// OpaquePrefix stands before the encoded bytes of a key of unknown meaning.
	// Blocks that carry one are never found by a prompt, which has no such key.
	OpaquePrefix = "\x00opaque:"
)

// readExtraKeys reads, from position at on, what beside the tokens went into
// each block's identity. Per block it is nil or a list; in the list, in this
// order, are the adapter's name (a string), multimodal items ([identifier,
// offset], in older releases the identifier alone), the cache salt (a string, in
// a prompt's first block only) and the digest of prompt embeddings (bytes).
//
// Two of these are plain strings, and old identifiers make it three. The
// adapter is known by its name. Of what remains in a prompt's first block, the
// last string is the salt; elsewhere strings are identifiers. Where a release
// without offsets starts a prompt with an image, the image is taken for a salt:
// that block is then missed, which is the harmless mistake.
func (d *Decoder) readExtraKeys(e *kvcache.Event, at int) result {
	d.r.i = at
	h := d.r.next()
	switch h.kind {
	case kindNil:
		return readOK
	case kindArray:
	default:
		return readBad
	}
	if h.n == 0 {
		return readOK
	}
	if h.n != uint64(len(e.Hashes)) {
		return readBad
	}
	first := len(d.perBlock)
	found := false
	for block := range len(e.Hashes) {
		start := len(d.extras)
		root := block == 0 && !e.HasParent
		if res := d.readBlockKeys(e, root); res != readOK {
			return res
		}
		var own []kvcache.Extra
		if end := len(d.extras); end > start {
			own = d.extras[start:end:end]
			found = true
		}
		d.perBlock = append(d.perBlock, own)
	}
	if found {
		e.Extras = d.perBlock[first:len(d.perBlock):len(d.perBlock)]
	}
	return readOK
}

// readBlockKeys reads one block's list and appends its extras to d.extras.
func (d *Decoder) readBlockKeys(e *kvcache.Event, root bool) result {
	h := d.r.next()
	switch h.kind {
	case kindNil:
		return readOK
	case kindArray:
	default:
		return readBad
	}
	lastString := -1 // index into d.extras of the last plain string
	for i := range h.n {
		start := d.r.i
		key := d.r.next()
		switch key.kind {
		case kindStr:
			text := d.r.take(key.n)
			if e.Adapter != "" && i == 0 && string(text) == e.Adapter {
				continue
			}
			lastString = len(d.extras)
			d.extras = append(d.extras, kvcache.Extra{ID: d.name(text)})
			continue
		case kindBin:
			d.extras = append(d.extras, kvcache.Extra{ID: EmbedsPrefix + string(d.r.take(key.n))})
			continue
		case kindArray:
			if d.readItem(key.n) {
				continue
			}
		case kindMap:
			if d.readTypedKey(e, key.n, root) {
				continue
			}
		case kindInvalid:
			return readBroken
		default:
		}
		d.r.i = start
		if !d.r.skip() {
			return readBroken
		}
		d.opaque(start)
	}
	if root && lastString >= 0 && e.Salt == "" {
		e.Salt = d.extras[lastString].ID
		d.extras = append(d.extras[:lastString], d.extras[lastString+1:]...)
	} else if root && lastString >= 0 && d.extras[lastString].ID == e.Salt {
		// The salt came in a field of its own as well.
		d.extras = append(d.extras[:lastString], d.extras[lastString+1:]...)
	}
	return readOK
}

// opaque records the value that was just passed over as it is.
func (d *Decoder) opaque(start int) {
	d.extras = append(d.extras, kvcache.Extra{ID: OpaquePrefix + string(d.r.b[start:d.r.i])})
}

// readItem reads a multimodal item [identifier, offset] of n elements.
func (d *Decoder) readItem(n uint64) bool {
	const fields = 2
	if n != fields {
		return false
	}
	id, set, res := d.text()
	if res != readOK || !set {
		return false
	}
	offset, ok := d.offset()
	if !ok {
		return false
	}
	d.extras = append(d.extras, kvcache.Extra{ID: d.name(id), Offset: offset})
	return true
}

func (d *Decoder) offset() (int, bool) {
	h := d.r.next()
	v := int64(h.n)
	if (h.kind != kindUint && h.kind != kindInt) || v != int64(int32(v)) {
		return 0, false
	}
	return int(v), true
}

// readTypedKey reads the tagged form that was proposed for vLLM, a map of n
// pairs with a "type". false means that it is not one.
func (d *Decoder) readTypedKey(e *kvcache.Event, n uint64, root bool) bool {
	var tag, value []byte
	offset := 0
	valueKind := kindInvalid
	for ; n > 0; n-- {
		key, ok := d.key()
		if !ok {
			return false
		}
		switch string(key) {
		case "type":
			var set bool
			var res result
			if tag, set, res = d.text(); res != readOK || !set {
				return false
			}
		case "name", "hash", "identifier", "salt", "digest", "value":
			h := d.r.next()
			if h.kind != kindStr && h.kind != kindBin {
				return false
			}
			value, valueKind = d.r.take(h.n), h.kind
		case "block_offset", "offset":
			if offset, ok = d.offset(); !ok {
				return false
			}
		default:
			if !d.r.skip() {
				return false
			}
		}
	}
	if valueKind == kindInvalid {
		return false
	}
	switch string(tag) {
	case "lora":
		if e.Adapter == "" {
			e.Adapter = d.name(value)
		}
		return e.Adapter == string(value)
	case "cache_salt":
		if root && e.Salt == "" {
			e.Salt = d.name(value)
		}
		return e.Salt == string(value)
	case "mm":
		d.extras = append(d.extras, kvcache.Extra{ID: d.name(value), Offset: offset})
		return true
	case "prompt_embeds":
		d.extras = append(d.extras, kvcache.Extra{ID: EmbedsPrefix + string(value)})
		return true
	default:
		return false
	}
}
