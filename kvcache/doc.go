// Package kvcache knows which worker holds which KV-cache block.
//
// It has three parts. A [Hasher] turns token ids into a chain of block keys of
// our own: 64-bit, independent of the engine, its version and its hash seed. An
// [Index] records, for every [Owner] (one data-parallel rank of one worker
// instance), which keys are resident and in which [Tier], and answers how many
// consecutive leading blocks of a prompt each owner holds. Every owner has a
// [Trust] state that says how far that answer can be relied on.
//
// The package opens no socket and starts no goroutine. Events reach it already
// decoded (package wire) and in order (package follow).
package kvcache
