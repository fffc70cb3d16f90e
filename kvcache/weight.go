package kvcache

// TierWeights says what a block in each tier is worth, as the part of its
// computation that it saves: 1 for a block that need only be used, 0 for one
// that takes as long to load as to compute. The zero value means nothing is worth
// anything; start from [DefaultTierWeights].
type TierWeights [NumTiers]float64

// DefaultTierWeights returns what blocks are worth on usual hardware. A weight is
// 1 - load/prefill, the times that it takes to load a token's KV and to compute
// it. The KV of a token takes 128 KiB in an 8B model with grouped attention (32
// layers, 8 heads of 128, keys and values, 2 bytes), and its prefill about 2*8e9
// operations, 40 us at the 400 Tflop/s that an H100 reaches of its 989 (dense
// BF16, data sheet). So:
//
//	tier    loads at                      load     1 - load/prefill   weight
//	GPU     not loaded                    0        1                  1
//	CPU     25 GB/s of PCIe 4.0 x16's 32    5 us   0.87               0.8
//	disk    5 GB/s, one NVMe drive         26 us   0.34               0.4
//	remote  3 GB/s, 25 Gb/s Ethernet       44 us   below 0            0.2
//
// Larger models and slower GPUs compute longer per byte, which favours loading,
// and some engines load while they compute; busy links, small blocks and a
// request's wait for its turn do the opposite. A remote block is worth something,
// because faster networks are usual where KV caches are shared, and little,
// because a medium of which nothing is known counts as remote. The weights order
// candidates; they predict no latency. llm-d's scorer, which had its own reasons,
// uses 0.8 for CPU memory, 0.3 and 0.4 for kinds of storage, 0.2 for object stores.
func DefaultTierWeights() TierWeights {
	const (
		gpu    = 1
		cpu    = 0.8
		disk   = 0.4
		remote = 0.2
	)
	return TierWeights{TierGPU: gpu, TierCPU: cpu, TierDisk: disk, TierRemote: remote}
}

// Worth returns what the hit is worth in blocks in GPU memory: the blocks from
// the prompt's start on that the owner holds, each by the weight of its fastest
// tier. With weights from 0 to 1 it lies between 0 and Blocks.
func (h *Hit) Worth(w *TierWeights) float64 {
	var sum float64
	for t, n := range h.Tiers {
		sum += float64(n) * w[t]
	}
	return sum
}
