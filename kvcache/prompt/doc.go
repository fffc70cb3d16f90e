// Package prompt turns an API request into the token ids that the engine will
// compute for it, because block keys depend on them: ids that differ by one from
// the engine's match nothing, and nobody notices.
//
// An [Encoder] tries its sources in order: ids that the caller gave, sources that
// compute ids locally (package local), the engine's own render endpoint, its
// tokenize endpoint, then how the prompt begins, if a source knows that much and it
// is most of it, and when all fail the request's bytes, which approximate a
// prefix well enough to keep related prompts together. A source that can't be exact
// for a request passes. The [Encoding] names the source used and why each earlier
// one was not, so that a decision can say so; a request never fails because its ids
// are not known.
//
// Asking the engine costs a round trip before the request is routed. It is
// bounded by a deadline, a cache, one call at a time for equal prompts, the
// memory of which endpoints exist, and a pause after repeated failures.
//
// Ids that are computed locally are right only if the engine has the same files
// and treats requests alike. A [Prover] finds out, when an engine appears and in
// production, and takes the local source out of the chain while it is not so.
package prompt
