package dialect

import "net/http"

// Client is a codec of an API that clients speak. Codecs are safe for concurrent use;
// stream encoders and decoders are of one stream.
type Client interface {
	// Name is that of the API, as policies have it: "chat", "messages", "responses".
	Name() string
	// DecodeRequest reads a client's body. It fails with an *UnsupportedError or *BodyError.
	DecodeRequest(body []byte) (*Request, error)
	// EncodeAnswer appends the answer's body.
	EncodeAnswer(dst []byte, a *Answer, o *AnswerOptions) []byte
	NewStreamEncoder(o *AnswerOptions) StreamEncoder
	// EncodeFailure returns status and body of an error as clients of the API know it.
	EncodeFailure(f *Failure) (status int, body []byte)
}

// Service is a codec of an API that services speak.
type Service interface {
	Name() string
	// EncodeRequest returns the body to send; warnings go to note. It fails with an
	// *UnsupportedError.
	EncodeRequest(r *Request, o *RequestOptions, note func(Warning)) ([]byte, error)
	// DecodeAnswer reads a whole answer. It fails with a *BodyError.
	DecodeAnswer(body []byte) (*Answer, error)
	NewStreamDecoder() StreamDecoder
	// DecodeFailure reads the body of an error: JSON of the API, or anything else.
	DecodeFailure(status int, h http.Header, body []byte) *Failure
}

// StreamDecoder reads the frames of a streamed answer.
type StreamDecoder interface {
	// Decode takes one frame: the name of the event ("" for none) and its data, and hands
	// over what it says. Frames that it does not know are signs of life. An error is a
	// frame that can't be read: the stream is broken.
	Decode(name string, data []byte, emit func(*Event)) error
}

// StreamEncoder writes a streamed answer.
type StreamEncoder interface {
	// Append appends the bytes (server-sent events, whole) that ev is for the client. It
	// copes with streams that end in the middle: after a Fail nothing more comes.
	Append(dst []byte, ev *Event) []byte
}

// RequestOptions are the gateway's part in a request.
type RequestOptions struct {
	// MaxTokens is for services that must be told, where the client doesn't say; 0 is
	// DefaultMaxTokens.
	MaxTokens int64
	// OldMaxTokens: a chat service that knows max_tokens only, and not the
	// max_completion_tokens that OpenAI's reasoning models want.
	OldMaxTokens bool
}

// DefaultMaxTokens is what an answer may have of a service that must be told, where neither
// the client nor the gateway says: all of Anthropic's models since Claude 3 have it.
const DefaultMaxTokens = 4096

// AnswerOptions are what an answer in the client's API has of the request.
type AnswerOptions struct {
	// Model is the name that the client asked for; "" leaves the service's.
	Model string
	// IncludeUsage: the client asked for usage in its stream.
	IncludeUsage bool
	// Created is in Unix seconds, for answers that don't say it.
	Created int64
	// ID is for answers that don't say it (Bedrock's have none); it is the caller's to make
	// unique. Encoders put the API's prefix before it.
	ID string
	// Body is the client's request, for an API whose answers repeat parts of it
	// (responses). Nil: they have the API's defaults in their place.
	Body []byte
}

// Warning is something of a request that the service will not see, and that changes little.
type Warning struct {
	// Field is the path in the client's body, like "messages[2].content[0].cache_control".
	Field string
	// Reason is a short fixed phrase; it quotes nothing of the request.
	Reason string
}

// UnsupportedError is a request that can't be carried over: to leave the field out would
// change the answer. It is the client's to change, or another backend's to serve.
type UnsupportedError struct {
	// Field is as in a Warning; Service is the API that has nothing like it.
	Field, Service, Reason string
}

// Error names the field, the service and the reason.
func (e *UnsupportedError) Error() string {
	return "dialect: " + e.Field + " can't be carried over to " + e.Service + ": " + e.Reason
}

// BodyError is a body that is not what its API says it is.
type BodyError struct {
	// Field is as in a Warning, "" for the whole body.
	Field, Reason string
}

// Error names the field and what is wrong with it.
func (e *BodyError) Error() string {
	if e.Field == "" {
		return "dialect: the body " + e.Reason
	}
	return "dialect: " + e.Field + " " + e.Reason
}
