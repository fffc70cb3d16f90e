package wire

import "github.com/kvsteer/kvsteer/kvcache"

// result says how reading an event or a field went.
type result uint8

const (
	readOK      result = iota
	readUnknown        // an event of an unknown type
	readBad            // not what this field or event must be
	readBroken         // not well-formed: nothing after it can be found
)

// field names a field of an event, whether it came by position or by key.
type field uint8

const (
	fieldOther field = iota
	fieldHashes
	fieldParent
	fieldTokens
	fieldBlockSize
	fieldLoraID
	fieldMedium
	fieldLoraName
	fieldExtraKeys
	fieldGroup
	fieldSpecKind
	fieldWindow
	fieldSalt
	fieldLocality
)

// storedAt and removedAt name the field at a place in an array event, counted
// after the tag. Engines only ever append.
func storedAt(place int) field {
	switch place {
	case 0:
		return fieldHashes
	case 1:
		return fieldParent
	case 2:
		return fieldTokens
	case 3:
		return fieldBlockSize
	case 4:
		return fieldLoraID
	case 5:
		return fieldMedium
	case 6:
		return fieldLoraName
	case 7:
		return fieldExtraKeys
	case 8:
		return fieldGroup
	case 9:
		return fieldSpecKind
	case 10:
		return fieldWindow
	default:
		return fieldOther
	}
}

func removedAt(place int) field {
	switch place {
	case 0:
		return fieldHashes
	case 1:
		return fieldMedium
	case 2:
		return fieldGroup
	default:
		return fieldOther
	}
}

func storedField(key []byte) field {
	switch string(key) {
	case "block_hashes":
		return fieldHashes
	case "parent_block_hash":
		return fieldParent
	case "token_ids":
		return fieldTokens
	case "block_size":
		return fieldBlockSize
	case "lora_id":
		return fieldLoraID
	case "medium":
		return fieldMedium
	case "lora_name":
		return fieldLoraName
	case "extra_keys":
		return fieldExtraKeys
	case "group_idx":
		return fieldGroup
	case "kv_cache_spec_kind":
		return fieldSpecKind
	case "kv_cache_spec_sliding_window":
		return fieldWindow
	case "cache_salt":
		return fieldSalt
	case "locality":
		return fieldLocality
	default:
		return fieldOther
	}
}

func removedField(key []byte) field {
	switch f := storedField(key); f {
	case fieldHashes, fieldMedium, fieldGroup, fieldLocality:
		return f
	default:
		return fieldOther
	}
}

// draft gathers an event's fields until all are read, since a map may bring
// them in any order and some only make sense together.
type draft struct {
	seen uint32 // bit per field

	hashes    []kvcache.EngineHash
	parent    kvcache.EngineHash
	hasParent bool
	tokens    []uint32
	blockSize int
	tier      kvcache.Tier
	remote    bool
	adapter   string
	hasLoraID bool
	extraKeys int // where in the payload
	group     int
	attention kvcache.Attention
	window    int
	salt      string
}

func (f *draft) has(fields ...field) bool {
	for _, x := range fields {
		if f.seen&(1<<x) == 0 {
			return false
		}
	}
	return true
}

// place returns the tier: what lies on another machine is remote, whatever the
// medium there.
func (f *draft) place() kvcache.Tier {
	if f.remote {
		return kvcache.TierRemote
	}
	return f.tier
}

// readEvent reads one event and appends it to the batch. Unless the result is
// readOK the reader's position is anywhere within the event.
func (d *Decoder) readEvent() result {
	h := d.r.next()
	var tag []byte
	switch h.kind {
	case kindArray:
		if h.n == 0 {
			return readBad
		}
		t := d.r.next()
		if t.kind == kindInvalid {
			return readBroken
		}
		if t.kind != kindStr {
			return readBad
		}
		tag = d.r.take(t.n)
		h.n--
	case kindMap:
		var res result
		if tag, res = d.findType(h.n); res != readOK {
			return res
		}
	case kindInvalid:
		return readBroken
	default:
		return readBad
	}
	switch string(tag) {
	case "BlockStored":
		return d.readStored(h)
	case "BlockRemoved":
		return d.readRemoved(h)
	case "AllBlocksCleared":
		if res := d.skipRest(h); res != readOK {
			return res
		}
		d.batch.Events = append(d.batch.Events, kvcache.Event{Kind: kvcache.Cleared})
		return readOK
	default:
		return readUnknown
	}
}

// findType finds the value of the key "type", first in practice, and leaves the
// reader at the map's first key.
func (d *Decoder) findType(pairs uint64) ([]byte, result) {
	start := d.r.i
	for ; pairs > 0; pairs-- {
		key, ok := d.key()
		if !ok {
			return nil, readBroken
		}
		if string(key) != "type" {
			if !d.r.skip() {
				return nil, readBroken
			}
			continue
		}
		h := d.r.next()
		switch h.kind {
		case kindStr:
			tag := d.r.take(h.n)
			d.r.i = start
			return tag, readOK
		case kindInvalid:
			return nil, readBroken
		default:
			return nil, readBad
		}
	}
	return nil, readBad
}

func (d *Decoder) skipRest(h head) result {
	n := h.n
	if h.kind == kindMap {
		n *= 2
	}
	for ; n > 0; n-- {
		if !d.r.skip() {
			return readBroken
		}
	}
	return readOK
}

// readFields reads all fields of an event whose tag is known.
func (d *Decoder) readFields(f *draft, h head, at func(int) field, byKey func([]byte) field) result {
	for i := range int(h.n) { // no more than there are bytes
		var what field
		if h.kind == kindMap {
			key, ok := d.key()
			if !ok {
				return readBroken
			}
			what = byKey(key)
		} else {
			what = at(i)
		}
		if res := d.readField(f, what); res != readOK {
			return res
		}
	}
	return readOK
}

func (d *Decoder) readField(f *draft, what field) result {
	f.seen |= 1 << what
	switch what {
	case fieldHashes:
		return d.readHashes(f)
	case fieldParent:
		return d.readParent(f)
	case fieldTokens:
		return d.readTokens(f)
	case fieldBlockSize:
		return d.readInt(&f.blockSize, false)
	case fieldLoraID:
		return d.readLoraID(f)
	case fieldMedium:
		return d.readMedium(f)
	case fieldLoraName:
		return d.readLoraName(f)
	case fieldExtraKeys:
		f.extraKeys = d.r.i
		if !d.r.skip() {
			return readBroken
		}
		return readOK
	case fieldGroup:
		return d.readInt(&f.group, true)
	case fieldSpecKind:
		return d.readSpecKind(f)
	case fieldWindow:
		return d.readInt(&f.window, true)
	case fieldSalt:
		return d.readString(&f.salt)
	case fieldLocality:
		text, _, res := d.text()
		f.remote = string(text) == "REMOTE"
		return res
	default:
		if !d.r.skip() {
			return readBroken
		}
		return readOK
	}
}
