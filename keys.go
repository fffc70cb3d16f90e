package kvsteer

import (
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// keys are the block keys of one prompt. They are computed once and serve until
// the first token: for choosing, for choosing again, and for booking. Their
// memory is pooled.
type keys struct {
	sets []keyset
	used int
}

// keyset is the keys of one view for one block size and adapter.
type keyset struct {
	view    int
	block   int
	adapter string
	keys    []kvcache.Key
}

// of returns the index of the keyset, computing it at its first use.
func (k *keys) of(s *Selection, view, block int, adapter string) int {
	for i := range k.sets[:k.used] {
		if set := &k.sets[i]; set.view == view && set.block == block && set.adapter == adapter {
			return i
		}
	}
	if k.used == len(k.sets) {
		k.sets = append(k.sets, keyset{})
	}
	set := &k.sets[k.used]
	set.view, set.block, set.adapter = view, block, adapter
	set.keys = s.hashed(set.keys[:0], view, block, adapter)
	k.used++
	return k.used - 1
}

// hashed appends the prompt's block keys to dst.
func (s *Selection) hashed(dst []kvcache.Key, view, block int, adapter string) []kvcache.Key {
	enc := &s.views[view].enc
	h := kvcache.Hasher{BlockSize: block}
	scope := kvcache.Scope{Adapter: adapter, Salt: s.parsed.salt}
	if enc.Source == prompt.SourceBytes {
		return h.ByteKeys(dst, enc.Bytes, scope)
	}
	return h.Keys(dst, enc.Tokens, scope, enc.Items)
}

// found returns the keys of the blocks that an engine may find cached: it always
// computes the last token. Of a hybrid model that is also the place before which it
// keeps windows, so what ends after it must not be asked for or booked.
func (s *Selection) found(set int) []kvcache.Key {
	k := &s.keys.sets[set]
	enc := &s.views[k.view].enc
	if enc.Source == prompt.SourceBytes || enc.Source == prompt.SourcePrefix || len(enc.Tokens) == 0 {
		return k.keys // of a beginning, the last token is behind all of them
	}
	return k.keys[:min(len(k.keys), (len(enc.Tokens)-1)/k.block)]
}

// booked returns the keys of the blocks that o holds once it has computed the prompt.
func (r *Router) booked(s *Selection, set int, o kvcache.Owner) []kvcache.Key {
	keys := &s.keys.sets[set]
	switch {
	case !r.index.Hybrid(o):
		return keys.keys
	case s.views[keys.view].enc.Source == prompt.SourcePrefix:
		return nil // its windows will be at the end of the prompt, which is not known
	default:
		return s.found(set)
	}
}

// hash computes the prompt's keys for the workers that there are, before pickMu is
// taken: hashing is what takes long. A worker that comes later adds its own.
func (r *Router) hash(s *Selection) {
	if s.keys == nil {
		s.keys = r.keyPool.Get().(*keys) //nolint:forcetypeassert // the pool holds nothing else
	}
	snap := r.fleet.Snapshot()
	for v := range s.views {
		for _, m := range snap.ForModel(s.views[v].model) {
			home, adapter := r.residency.of(m.ID()), s.views[v].adapterOn(m)
			for rank := range m.Ranks() {
				s.keys.of(s, v, r.blockSize(home.owner(rank), m), adapter)
			}
		}
	}
}

// forget gives the keys' memory back: there is no choice left to make. The caller
// is the only one to use s, or holds s.mu.
func (s *Selection) forget() {
	const most = 1 << 15 // keys; a few very long prompts must not stay for ever
	k := s.keys
	if k == nil {
		return
	}
	s.keys = nil
	total := 0
	for i := range k.sets {
		total += cap(k.sets[i].keys)
	}
	if total <= most {
		k.used = 0
		s.router.keyPool.Put(k)
	}
}
