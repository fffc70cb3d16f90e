//go:build e2e

package sdk

import "context"

// question is what a client asks, in no API's own form.
type question struct {
	system string
	turns  []turn
	tools  []string
	// force names the tool that must be called, alone.
	force string
	// effort asks for thinking.
	effort string
	stop   string
	// schema is the form that the answer must have.
	schema map[string]any
	limit  int64
}

// turn is one of the user's, or one of the model's with the results that followed.
type turn struct {
	text  string
	image bool
	// calls make it a turn of the model's; results are the user's next.
	calls   []call
	results []string
	// said is the model's text, and thought what it thought before, in APIs that have a place for that.
	said, thought string
}

type call struct{ ID, Name, Arguments string }

// said is what a client was told.
type said struct {
	Model, Text, Thinking, Refusal string
	Calls                          []call
	// Stop is the API's word.
	Stop string
	// Input is all of the prompt, Cached what was read of it.
	Input, Cached, Output int64
}

// client is an SDK.
type client interface {
	whole(ctx context.Context, q *question) (said, error)
	// stream returns what the SDK's accumulator has at the end; each is called for each event.
	stream(ctx context.Context, q *question, each func()) (said, error)
	// failure are status and type (or code) of an error as the SDK has it; 0 for another.
	failure(err error) (status int, kind string)
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// schemaOf is that of a tool.
func schemaOf() map[string]any {
	return map[string]any{"a": map[string]any{"type": "integer"}}
}
