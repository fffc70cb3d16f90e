package dialect

// messages is the codec of Anthropic's messages API.
type messages struct{}

// Messages is the codec of Anthropic's messages API (POST /v1/messages, as of
// anthropic-version 2023-06-01 with what was added to it until November 2026).
func Messages() interface {
	Client
	Service
} {
	return messages{}
}

// Name implements Client and Service.
func (messages) Name() string { return messagesName }

const messagesName = "messages"

// The names that the API has for the kinds of content blocks.
const (
	blockText     = "text"
	blockImage    = "image"
	blockDocument = "document"
	blockSearch   = "search_result"
	blockCall     = "tool_use"
	blockResult   = "tool_result"
	blockToolRef  = "tool_reference"
	blockThinking = "thinking"
	blockRedacted = "redacted_thinking"
)

// Efforts that only some models know.
const (
	effortNone  = "none"
	effortXHigh = "xhigh"
	effortMax   = "max"
)

const messagesRefusal = "refusal"

// messagesStop reads a stop_reason.
func messagesStop(name string) Stop {
	switch name {
	case "end_turn":
		return StopEnd
	case "max_tokens", "model_context_window_exceeded":
		return StopLength
	case "stop_sequence":
		return StopText
	case "tool_use":
		return StopTools
	case messagesRefusal:
		return StopRefusal
	case "pause_turn":
		return StopPause
	default:
		return StopUnknown
	}
}

// messagesStopName is the stop_reason of an answer. Clients act on it: with tool_use they
// look for calls, and services of other APIs say "stop" after calls, too.
func messagesStopName(s Stop, calls, refused bool) string {
	switch s {
	case StopLength:
		return "max_tokens"
	case StopText:
		return "stop_sequence"
	case StopPause:
		return "pause_turn"
	case StopFilter, StopRefusal:
		return messagesRefusal
	case StopEnd, StopUnknown, StopTools:
	}
	switch {
	case calls:
		return "tool_use"
	case refused:
		return messagesRefusal
	default:
		return "end_turn"
	}
}
