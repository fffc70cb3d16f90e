package fleettest

import "time"

// Offload publishes, as an engine with an offloading connector does, that all
// blocks of a rank's cache were copied to medium ("CPU", "STORAGE", ...) and have
// left the GPU, and returns how many. The copies are announced by hash alone. The
// engine goes on to hit these blocks, as a real one does after loading them, but
// loading takes no time. It does nothing to a rank that publishes nothing.
func (e *Engine) Offload(rank int, medium string) int {
	l := e.current()
	if l == nil || rank < 0 || rank >= len(l.ranks) || l.ranks[rank].outbox == nil || l.ranks[rank].trtllm != nil {
		return 0
	}
	r := l.ranks[rank]
	p := &packer{}
	r.mu.Lock()
	n := r.encoder.offloaded(p, r, medium)
	r.mu.Unlock()
	if n > 0 {
		r.publish(p.b)
	}
	return n
}

// offloaded writes the message. r.mu is held.
func (e encoder) offloaded(p *packer, r *rank, medium string) int {
	var hashes, copies []uint64 // a hash that lies in two blocks is removed twice
	r.sim.Cached(func(hash uint64, n int) bool {
		hashes = append(hashes, hash)
		for range n {
			copies = append(copies, hash)
		}
		return true
	})
	list := func(hashes []uint64) {
		p.str("block_hashes")
		p.array(len(hashes))
		for _, hash := range hashes {
			e.hash(p, hash)
		}
	}
	p.array(3)
	p.float(float64(time.Now().UnixMicro()) / float64(time.Second/time.Microsecond))
	p.array(2)
	p.dict(6)
	p.str("type")
	p.str("BlockStored")
	list(hashes)
	p.str("parent_block_hash")
	p.null()
	p.str("token_ids")
	p.array(0)
	p.str("block_size")
	p.int(0)
	p.str("medium")
	p.str(medium)
	p.dict(3)
	p.str("type")
	p.str("BlockRemoved")
	list(copies)
	p.str("medium")
	p.str(mediumGPU)
	p.int(int64(r.id))
	return len(hashes)
}
