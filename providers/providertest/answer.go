package providertest

import (
	"net/http"
	"time"
)

// Answer is what one request gets. The zero Answer is an empty text.
type Answer struct {
	// Thinking, Text and Calls are what the model says, in this order, or, with
	// CallsFirst, the Calls before the Text. Refusal comes in place of Text.
	Thinking, Text string
	Calls          []Call
	CallsFirst     bool
	Refusal        string
	// Stop is why it ended; StopText is the sequence of StopAtText.
	Stop     Stop
	StopText string
	// Usage is what it took; what is 0 is counted in words.
	Usage Usage
	// NoUsage: the service says nothing of it.
	NoUsage bool
	// Model is what the service calls the model in its answer; "" for what was asked for.
	Model string

	// Fault is what happens instead, with RetryAfter in the headers where it is not 0.
	Fault      Fault
	RetryAfter time.Duration
	// Status and Body are an answer as it stands, of Header's Content-Type.
	Status int
	Body   []byte
	// Header is set on the answer, whichever it is.
	Header http.Header

	// Delay is before the answer's headers, Pace before each event of a stream.
	Delay, Pace time.Duration
	// Frames say what is odd about a stream.
	Frames Frames
}

// Call is a tool that the model calls.
type Call struct {
	// ID is "" for one that the service makes up.
	ID, Name string
	// Arguments are a JSON object, as text.
	Arguments string
}

// Stop is why an answer ended.
type Stop uint8

// The reasons. StopDefault is StopTools if there are calls, StopRefusal if there is a
// Refusal, and else StopEnd.
const (
	StopDefault Stop = iota
	StopEnd
	StopLength
	StopAtText
	StopTools
	StopFilter
	StopRefusal
	StopPause
)

// Usage is in tokens. Input is all of the prompt: CacheRead and CacheWrite are parts of
// it; Reasoning is a part of Output.
type Usage struct {
	Input, CacheRead, CacheWrite, Output, Reasoning int64
}

// stop is Stop without its default.
func (a *Answer) stop() Stop {
	switch {
	case a.Stop != StopDefault:
		return a.Stop
	case a.Refusal != "":
		return StopRefusal
	case len(a.Calls) > 0:
		return StopTools
	default:
		return StopEnd
	}
}

// Frames say what is odd about a stream. Its events are counted from 1, and 0 is never.
type Frames struct {
	// CRLF and CR end lines so, with both bytes or the first; NoSpace writes data:{...}.
	CRLF, CR, NoSpace bool
	// Comments puts one before each event.
	Comments bool
	// Split is how many bytes are written at once. 0: a whole event.
	Split int
	// Pad is how long one data line is made, that of event PadAt, in bytes.
	Pad, PadAt int
	// NoDone leaves out the last event: data: [DONE], or message_stop.
	NoDone bool
	// Usage says where it is, in OpenAI's chat completions and completions.
	Usage UsagePlace
	// Interleave mixes the arguments of parallel calls, in chat completions.
	Interleave bool

	// DieAt cuts the connection in place of this event; DieWithin in the middle of it.
	DieAt, DieWithin int
	// StallAt lets nothing more come, this event included, until the client leaves or the
	// server is closed.
	StallAt int
	// FailAt puts an error in place of this event, that of Fault: ServerError, if it is
	// none, or Overloaded.
	FailAt int
	Fault  Fault
}

// UsagePlace is where a chat completion's usage stands in the stream.
type UsagePlace uint8

// The places.
const (
	// UsageLast is a chunk of its own without choices, if the client asked for it.
	UsageLast UsagePlace = iota
	// UsageLastNull and UsageLastAbsent are the same with choices null, and without them.
	UsageLastNull
	UsageLastAbsent
	// UsageWithFinish is in the chunk that has finish_reason, asked for or not.
	UsageWithFinish
	// UsageEvery is in each chunk, counting up, asked for or not.
	UsageEvery
	// UsageUnasked is UsageLast, asked for or not.
	UsageUnasked
)
