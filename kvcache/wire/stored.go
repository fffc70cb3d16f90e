package wire

import "github.com/kvsteer/kvsteer/kvcache"

func (d *Decoder) readRemoved(h head) result {
	var f draft
	if res := d.readFields(&f, h, removedAt, removedField); res != readOK {
		return res
	}
	if !f.has(fieldHashes) {
		return readBad
	}
	d.batch.Events = append(d.batch.Events, kvcache.Event{
		Kind: kvcache.Removed, Hashes: f.hashes, Tier: f.place(), Group: f.group,
	})
	return readOK
}

func (d *Decoder) readStored(h head) result {
	var f draft
	if res := d.readFields(&f, h, storedAt, storedField); res != readOK {
		return res
	}
	// A store without its parent field would pass for the start of a prompt.
	if !f.has(fieldHashes, fieldParent, fieldTokens, fieldBlockSize) {
		return readBad
	}
	e := kvcache.Event{
		Kind: kvcache.Stored, Hashes: f.hashes,
		Parent: f.parent, HasParent: f.hasParent,
		Tokens: f.tokens, BlockSize: f.blockSize,
		Tier: f.place(), Adapter: f.adapter, Salt: f.salt,
		Group: f.group, Attention: f.attention,
	}
	switch {
	case len(f.tokens) == 0:
		e.Tokens, e.BlockSize = nil, 0 // an offload placeholder, known by hash alone
	case f.attention != kvcache.FullAttention:
		// Windows leave out blocks that the tokens cover. Nothing is matched on
		// their tokens, so nothing has to align.
		e.Window = f.window
	case uint64(f.blockSize)*uint64(len(f.hashes)) != uint64(len(f.tokens)):
		return readBad
	case f.has(fieldExtraKeys):
		end := d.r.i
		if res := d.readExtraKeys(&e, f.extraKeys); res != readOK {
			return res
		}
		d.r.i = end
	}
	e.AdapterUnnamed = f.hasLoraID && e.Adapter == ""
	d.batch.Events = append(d.batch.Events, e)
	return readOK
}
