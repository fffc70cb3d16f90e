package kvcache

// CachedTokens is how many prompt tokens an engine will report as cached when it
// holds a prompt of promptTokens tokens as far as its first blocks go. An engine
// always computes at least the last token, so a prompt that is cached to its end
// recomputes its last block; with speculative decoding by EAGLE or MTP the last
// matching block is dropped as well. Arguments below zero count as zero, and a
// blockSize below one gives zero.
func CachedTokens(blocks, blockSize, promptTokens int, speculative bool) int {
	if blockSize < 1 || promptTokens < 1 || blocks < 1 {
		return 0
	}
	if most := (promptTokens - 1) / blockSize; blocks > most {
		blocks = most
	}
	if speculative && blocks > 0 {
		blocks--
	}
	return blocks * blockSize
}
