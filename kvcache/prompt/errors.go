package prompt

import (
	"errors"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// ErrNotApplicable is returned by a [Source] for requests that it has nothing to
// do with. Callers of an Encoder never see it.
var ErrNotApplicable = errors.New("prompt: source not applicable")

// BodyError says that a request's body is not a JSON object, which is the
// client's fault: answer 400. It holds none of the body.
type BodyError struct {
	// Offset is in bytes from the start of the body.
	Offset int
	// Reason is one of a fixed set of phrases.
	Reason string
}

// Error gives the reason and the offset.
func (e *BodyError) Error() string {
	return "prompt: body is not a JSON object: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

func bodyError(err error) error {
	var je *jsonscan.Error
	if errors.As(err, &je) {
		return &BodyError{Offset: je.Offset, Reason: je.Reason}
	}
	return &BodyError{Reason: "unreadable"}
}

// Reason is an error of a [Source] that says in a fixed phrase why it could not
// serve a request. It ends up in [Degradation], so it must not hold any of the
// prompt.
type Reason string

// Error returns the phrase.
func (r Reason) Error() string { return string(r) }

// The reasons of the sources in this package.
const (
	ReasonNoEngine      Reason = "no engine to ask"
	ReasonAbsent        Reason = "endpoint not available"
	ReasonDeadline      Reason = "deadline exceeded"
	ReasonCanceled      Reason = "canceled"
	ReasonUnreachable   Reason = "engine unreachable"
	ReasonPaused        Reason = "engine paused after failures"
	ReasonBusy          Reason = "too many calls to the engine"
	ReasonEngineError   Reason = "engine failed"
	ReasonRefused       Reason = "engine refused the request"
	ReasonReplySize     Reason = "reply too large"
	ReasonReply         Reason = "malformed reply"
	ReasonNoForm        Reason = "endpoint has no form for this API"
	ReasonField         Reason = "a field that the endpoint can't take: "
	ReasonMedia         Reason = "multimodal parts"
	ReasonStateful      Reason = "prompt depends on state in an engine"
	ReasonTruncation    Reason = "truncated prompt"
	ReasonEmbeds        Reason = "prompt embeddings"
	ReasonNotIDs        Reason = "not a list of token ids"
	ReasonClosed        Reason = "encoder closed"
	ReasonSourceFailed  Reason = "source failed"
	ReasonUnknownPrompt Reason = "prompt of an unknown form"
)
