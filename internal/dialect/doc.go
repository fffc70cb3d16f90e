// Package dialect turns requests and answers of one inference API into those of another.
//
// In the middle stands one form of both (Request, Answer, Event); each API has a codec to
// and from it, in files of its own: chat_*.go (OpenAI chat completions), messages_*.go
// (Anthropic messages), responses_*.go (OpenAI responses, for clients only). So N APIs
// need N codecs. Package providers/bedrock has one more, for services.
//
// An [Exchange] is one request with its answer: it has the body to send, and turns the answer,
// be it whole, an error or a [Stream], into the client's API.
//
// Nothing is dropped silently: what the middle form or the target can't hold is an
// [UnsupportedError] if leaving it out would change what the client gets, and else a
// [Warning]. Neither quotes what a prompt says.
//
// The package holds no sockets, no clock and no state beyond one exchange.
package dialect
