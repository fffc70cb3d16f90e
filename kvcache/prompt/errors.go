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

// ReasonError is how a [Source] says in a fixed phrase why it could not serve a
// request. It ends up in [Degradation], so it must not hold any of the
// prompt.
type ReasonError string

// Error returns the phrase.
func (r ReasonError) Error() string { return string(r) }

// ReasonAbsent is the Reason of a [Degradation] whose endpoint the engine does
// not have.
const ReasonAbsent = string(errAbsent)

// The reasons of the sources in this package.
const (
	errNoEngine      ReasonError = "no engine to ask"
	errAbsent        ReasonError = "endpoint not available"
	errDeadline      ReasonError = "deadline exceeded"
	errCanceled      ReasonError = "canceled"
	errUnreachable   ReasonError = "engine unreachable"
	errPaused        ReasonError = "engine paused after failures"
	errBusy          ReasonError = "too many calls to the engine"
	errEngineFailed  ReasonError = "engine failed"
	errRefused       ReasonError = "engine refused the request"
	errReplySize     ReasonError = "reply too large"
	errReply         ReasonError = "malformed reply"
	errNoForm        ReasonError = "endpoint has no form for this API"
	errField         ReasonError = "a field that the endpoint can't take: "
	errMedia         ReasonError = "multimodal parts"
	errStateful      ReasonError = "prompt depends on state in an engine"
	errTruncation    ReasonError = "truncated prompt"
	errEmbeds        ReasonError = "prompt embeddings"
	errNotIDs        ReasonError = "not a list of token ids"
	errClosed        ReasonError = "encoder closed"
	errNoLocal       ReasonError = "no local source was given to NewProver"
	errSourceFailed  ReasonError = "source failed"
	errShortPrefix   ReasonError = "most of the prompt is behind its first media"
	errUnknownPrompt ReasonError = "prompt of an unknown form"
)
