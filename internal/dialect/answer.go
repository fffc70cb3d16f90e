package dialect

// Answer is what a service answers, whole.
type Answer struct {
	ID, Model string
	// Created is when, in Unix seconds; 0: not said.
	Created int64
	// Parts are Text, Reasoning, ToolCall and Refusal.
	Parts []Part
	Stop  Stop
	// StopText is the stop sequence that was met; "" for none or not said.
	StopText string
	Usage    Usage
}

// Stop is why an answer ended.
type Stop uint8

// The reasons.
const (
	StopUnknown Stop = iota
	StopEnd          // the model was done
	StopLength       // max tokens, or the context was full
	StopText         // a stop sequence
	StopTools        // tools are to be called
	StopFilter       // content policy
	StopRefusal      // the model declined
	StopPause        // the service paused a long turn; the client is to go on
)

// Usage is in tokens. What is not Known is not zero.
type Usage struct {
	Known bool
	// Input is all of the prompt, cached or not. CacheRead and CacheWrite are parts of it,
	// if CachedKnown.
	Input, CacheRead, CacheWrite int64
	CachedKnown                  bool
	// Output is all that was generated, Reasoning the part of it that was reasoning, if
	// ReasoningKnown.
	Output, Reasoning int64
	ReasoningKnown    bool
}

// EventKind says which fields of an Event count.
type EventKind uint8

// The kinds of events. A whole stream is Begin, then for each part PartBegin, Deltas and
// PartEnd, then Finish and End. Parts follow each other; a decoder of an API whose parts
// overlap (parallel tool calls that are interleaved) gives them one after the other, and
// holds back what comes too early.
const (
	Begin     EventKind = iota // ID, Model, Created, Usage as far as known
	PartBegin                  // Part: its Kind; ID, Name and Signature of a ToolCall
	Delta                      // Text, or Signature, of the part that is open
	PartEnd
	Finish // Stop, StopText, Usage if known
	// Tally is usage that came after Finish: the last word.
	Tally
	// Fail is an error in place of the rest: Failure.
	Fail
	// Keep is a sign of life.
	Keep
	// End: the service said that the stream is whole. A stream without it broke off.
	End
)

// Event is a step of a streamed answer. It is valid during the call that hands it over.
type Event struct {
	Kind      EventKind
	ID, Model string
	Created   int64
	Part      Part
	Text      string
	Signature string
	Stop      Stop
	StopText  string
	Usage     Usage
	Failure   *Failure
}

// FailureKind classes errors, for routing and for translation.
type FailureKind uint8

// The kinds of failure.
const (
	FailUnknown    FailureKind = iota
	FailRequest                // the request is wrong: 400, 422
	FailAuth                   // the gateway's credentials: 401, 403
	FailModel                  // no such model: 404
	FailTooLarge               // body too large: 413
	FailContext                // the prompt exceeds the context window
	FailContent                // content policy
	FailRate                   // 429
	FailQuota                  // the account is out of money: no use to wait
	FailOverloaded             // 503, 529
	FailServer                 // 5xx
	FailTimeout                // 408, 504
)

// Failure is an error that a service answered with, or put into a stream.
type Failure struct {
	Kind FailureKind
	// Status is the HTTP status, 0 within a stream.
	Status int
	// Type, Code and Param are the service's words; Message is for the client, and may quote
	// its prompt: it goes into no log.
	Type, Code, Param, Message string
	// Credential: the words say that the credential itself is no good, not that it may not do
	// this. The status needn't: Databricks and AWS answer both with 403.
	Credential bool
}

// Events are the answer as a stream has it.
func (a *Answer) Events(emit func(*Event)) {
	emit(&Event{Kind: Begin, ID: a.ID, Model: a.Model, Created: a.Created, Usage: a.Usage})
	for i := range a.Parts {
		p := a.Parts[i]
		text, signature := p.Text, p.Signature
		p.Text = ""
		if p.Kind == ToolCall {
			signature = "" // stays with its beginning
		} else {
			p.Signature = ""
		}
		emit(&Event{Kind: PartBegin, Part: p})
		if text != "" {
			emit(&Event{Kind: Delta, Text: text})
		}
		if signature != "" {
			emit(&Event{Kind: Delta, Signature: signature})
		}
		emit(&Event{Kind: PartEnd})
	}
	emit(&Event{Kind: Finish, Stop: a.Stop, StopText: a.StopText, Usage: a.Usage})
	emit(&Event{Kind: End})
}
