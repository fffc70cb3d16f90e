// Package prompt turns an API request into the token ids that the engine will
// compute for it, because block keys depend on them.
//
// An [Encoder] tries its sources in order: ids that the caller gave, then the
// engine's own render and tokenize endpoints, and when all fail the request's
// bytes, which approximate a prefix well enough to keep related prompts
// together. The [Encoding] names the source used and why each earlier one was
// not, so that a decision can say so.
package prompt
