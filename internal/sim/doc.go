// Package sim is a deterministic model of one inference engine: continuous
// batching with chunked prefill, a paged prefix cache, and the KV events that
// the cache's changes would publish.
//
// The model has no goroutine, no clock and no randomness. A driver owns an
// [Engine], submits requests to it and calls Step; each call plans one forward
// pass, says how long it takes and what it produced. Who waits for that long,
// and whether the wait is real (a fake server) or virtual (a discrete-event
// simulation), is the driver's business.
//
// A block is identified by a 64-bit hash of its own and everything before it,
// given by the caller: token ids are needed only where events must quote them.
package sim
