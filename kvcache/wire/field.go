package wire

import (
	"encoding/binary"
	"math"

	"github.com/kvsteer/kvsteer/kvcache"
)

// hash normalises one block hash.
func (d *Decoder) hash(h head) (kvcache.EngineHash, result) {
	switch h.kind {
	case kindUint, kindInt:
		return kvcache.EngineHash(h.n), readOK
	case kindBin:
		if h.n == 0 {
			return 0, readBad
		}
		b := d.r.take(h.n)
		const size = 8
		if len(b) >= size {
			return kvcache.EngineHash(binary.BigEndian.Uint64(b[len(b)-size:])), readOK
		}
		var v uint64
		for _, c := range b {
			v = v<<8 | uint64(c)
		}
		return kvcache.EngineHash(v), readOK
	case kindInvalid:
		return 0, readBroken
	default:
		return 0, readBad
	}
}

func (d *Decoder) readHashes(f *draft) result {
	h := d.r.next()
	if h.kind == kindInvalid {
		return readBroken
	}
	if h.kind != kindArray {
		return readBad
	}
	first := len(d.hashes)
	for n := h.n; n > 0; n-- {
		v, res := d.hash(d.r.next())
		if res != readOK {
			return res
		}
		d.hashes = append(d.hashes, v)
	}
	f.hashes = d.hashes[first:len(d.hashes):len(d.hashes)]
	return readOK
}

func (d *Decoder) readParent(f *draft) result {
	h := d.r.next()
	f.hasParent = h.kind != kindNil
	if !f.hasParent {
		return readOK
	}
	var res result
	f.parent, res = d.hash(h)
	return res
}

// readTokens reads token ids. Under EAGLE SGLang sends pairs, each token with
// its successor; the first of each pair is the token.
func (d *Decoder) readTokens(f *draft) result {
	h := d.r.next()
	switch h.kind {
	case kindArray:
	case kindNil: // a placeholder's
		return readOK
	case kindInvalid:
		return readBroken
	default:
		return readBad
	}
	first := len(d.tokens)
	tokens := d.tokens
	b := d.r.b
	for n := h.n; n > 0; n-- {
		// The three widths that token ids come in, without going through next.
		i := d.r.i
		switch {
		case i < len(b) && b[i] < mpMapMin:
			tokens = append(tokens, uint32(b[i]))
			d.r.i = i + 1
			continue
		case i+2 < len(b) && b[i] == mpUint16:
			tokens = append(tokens, uint32(b[i+1])<<8|uint32(b[i+2]))
			d.r.i = i + 3
			continue
		case i+4 < len(b) && b[i] == mpUint32:
			tokens = append(tokens, binary.BigEndian.Uint32(b[i+1:]))
			d.r.i = i + 5
			continue
		default:
		}
		v, res := d.token()
		if res != readOK {
			d.tokens = tokens
			return res
		}
		tokens = append(tokens, v)
	}
	d.tokens = tokens
	f.tokens = tokens[first:len(tokens):len(tokens)]
	return readOK
}

func (d *Decoder) token() (uint32, result) {
	h := d.r.next()
	rest := uint64(0)
	if h.kind == kindArray && h.n > 0 {
		rest = h.n - 1
		h = d.r.next()
	}
	if h.kind == kindInvalid {
		return 0, readBroken
	}
	if h.kind != kindUint {
		return 0, readBad
	}
	id := uint32(h.n)
	if h.n > math.MaxUint32 {
		id = standIn(h.n)
	}
	for ; rest > 0; rest-- {
		if !d.r.skip() {
			return 0, readBroken
		}
	}
	return id, readOK
}

// standIn folds a number that no token has into 32 bits, above every vocabulary.
// Since 0.5.22 or 0.5.23 SGLang puts 62 bits of an image's hash in place of the
// image's tokens. No request has such tokens, so that the blocks never match; but
// they keep their place in the chain, and the event is none to lower trust for.
func standIn(v uint64) uint32 {
	const above = 1 << 31
	return uint32(v>>32) ^ uint32(v) | above
}

// readInt reads a non-negative integer that fits 31 bits, or nil if allowed.
func (d *Decoder) readInt(dst *int, orNil bool) result {
	h := d.r.next()
	switch {
	case h.kind == kindInvalid:
		return readBroken
	case h.kind == kindUint && h.n <= math.MaxInt32:
		*dst = int(h.n)
		return readOK
	case h.kind == kindNil && orNil:
		return readOK
	default:
		return readBad
	}
}

// text reads a string or nil; set tells which.
func (d *Decoder) text() (b []byte, set bool, res result) {
	h := d.r.next()
	switch h.kind {
	case kindStr:
		return d.r.take(h.n), true, readOK
	case kindNil:
		return nil, false, readOK
	case kindInvalid:
		return nil, false, readBroken
	default:
		return nil, false, readBad
	}
}

func (d *Decoder) readString(dst *string) result {
	b, set, res := d.text()
	if set {
		*dst = d.name(b)
	}
	return res
}

// readLoraID notes that there is an adapter. The number itself means nothing
// outside one process. vLLM numbers adapters from 1, so 0 is none.
func (d *Decoder) readLoraID(f *draft) result {
	start := d.r.i
	h := d.r.next()
	f.hasLoraID = h.kind != kindNil && (h.kind != kindUint || h.n != 0)
	d.r.i = start
	if !d.r.skip() {
		return readBroken
	}
	return readOK
}

// readLoraName reads the adapter's name, or at the same place in SGLang's
// arrays a map of metadata.
func (d *Decoder) readLoraName(f *draft) result {
	start := d.r.i
	h := d.r.next()
	if h.kind != kindMap {
		d.r.i = start
		return d.readString(&f.adapter)
	}
	for ; h.n > 0; h.n-- {
		key, ok := d.key()
		if !ok {
			return readBroken
		}
		var res result
		switch string(key) {
		case "cache_salt":
			res = d.readString(&f.salt)
		case "lora_name":
			res = d.readString(&f.adapter)
		default:
			if !d.r.skip() {
				res = readBroken
			}
		}
		if res != readOK {
			return res
		}
	}
	return readOK
}

func (d *Decoder) readMedium(f *draft) result {
	b, set, res := d.text()
	if set {
		f.tier = tierOf(b)
	}
	return res
}

// tierOf maps a medium's name. Names have changed between releases and grow, so
// that an unknown one is the slowest tier.
func tierOf(medium []byte) kvcache.Tier {
	switch string(medium) {
	case "GPU", "":
		return kvcache.TierGPU
	case "CPU", "CPU_PINNED", "CPU_TIER1", "CPU_TIER2":
		return kvcache.TierCPU
	case "STORAGE", "FS", "DISK":
		return kvcache.TierDisk
	default: // "OBJ", "EXTERNAL" and names to come
		return kvcache.TierRemote
	}
}

func (d *Decoder) readSpecKind(f *draft) result {
	b, set, res := d.text()
	if set {
		f.attention = attentionOf(b)
	}
	return res
}

// attentionOf maps the kind of a KV-cache group. vLLM's "unknown" is a layout
// that it can't name itself; that is no ground for claiming a reusable prefix. Nor
// are chunks, whose length events do not tell.
func attentionOf(spec []byte) kvcache.Attention {
	switch string(spec) {
	case "full_attention", "mla_attention", "sink_full_attention":
		return kvcache.FullAttention
	case "sliding_window", "sliding_window_mla":
		return kvcache.WindowAttention
	case "mamba":
		return kvcache.StateAttention
	default:
		return kvcache.OtherAttention
	}
}
