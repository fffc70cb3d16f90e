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
// What a service signs is handed back to it unchanged, and to no other. Reasoning has places
// for that in all APIs. A call of a tool has one in chat completions only, as Gemini's
// endpoint has it (extra_content.google.thought_signature, which Gemini 3 insists on), so
// messages' tool_use id and responses' call_id carry it behind a mark; results name that same
// id, and services get both back as they were. Such an id goes to its own API as it is where
// nothing is translated: Anthropic's takes its letters, and OpenAI's responses refuse ids of
// more than 64 bytes. Towards Gemini 3 a call without a signature, made by another service,
// gets the value that Google documents for it, with a Warning. The signatures that Gemini
// gives to texts are not carried over: it doesn't insist on them.
//
// The package holds no sockets, no clock and no state beyond one exchange.
package dialect
