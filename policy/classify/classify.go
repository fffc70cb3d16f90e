package classify

import (
	"context"

	"github.com/kvsteer/kvsteer/policy"
)

// Classifier says what it finds in requests. Implementations are safe for
// concurrent use.
type Classifier interface {
	// Tags lists the tags that Classify can produce, always the same. It must not
	// be modified.
	Tags() []string
	// Classify judges a request and puts the state of each of its tags, and what it
	// found, into out, which is empty before. A tag that it leaves out is unknown,
	// and so are all of them when it fails. It should return when ctx is done, and
	// must not keep in or out. Errors must not quote the request.
	//
	// [Input.Gaps] is taken care of by the [Set]: where something could not be read,
	// absent becomes unknown, unless the classifier is a [Tolerant] one.
	Classify(ctx context.Context, in *Input, out *Result) error
}

// MessageClassifier is a [Classifier] that judges each message from its own texts
// alone: a tag is present in a request if it is in any of its messages. A [Set]
// asks it about each message once and remembers the answer. It has at most 32 tags.
type MessageClassifier interface {
	Classifier
	// ClassifyMessages judges each of several messages. out has as many elements as
	// messages, all empty. An element that got all the classifier's tags, be they
	// unknown, is remembered even when others failed, so what may go better next
	// time must be left out.
	ClassifyMessages(ctx context.Context, messages []Input, out []Result) error
}

// Tolerant is implemented by classifiers whose judgement does not depend on
// everything in a request.
type Tolerant interface {
	// Tolerates lists what the classifier need not see for its tags to be absent.
	Tolerates() Gap
}

// tolerated is what a classifier need not see.
func tolerated(c Classifier) Gap {
	if t, ok := c.(Tolerant); ok {
		return t.Tolerates()
	}
	return 0
}

// Func makes a classifier of a function.
type Func struct {
	// Produces lists the tags. It is required.
	Produces []string
	// Judge is Classify. It is required, and called concurrently.
	Judge func(ctx context.Context, in *Input, out *Result) error
	// Ignore is what Judge need not see.
	Ignore Gap
}

// Tags implements [Classifier].
func (f Func) Tags() []string { return f.Produces }

// Classify implements [Classifier].
func (f Func) Classify(ctx context.Context, in *Input, out *Result) error {
	return f.Judge(ctx, in, out)
}

// Tolerates implements [Tolerant].
func (f Func) Tolerates() Gap { return f.Ignore }

// eachMessage classifies a request with a classifier of messages, for those that
// are not in a Set.
func eachMessage(ctx context.Context, c MessageClassifier, in *Input, out *Result) error {
	var messages []Input
	var first []int
	for i := 0; i < len(in.Parts); {
		parts, next := in.message(i)
		messages = append(messages, Input{API: in.API, Model: in.Model, Parts: parts})
		first = append(first, i)
		i = next
	}
	results := make([]Result, len(messages))
	err := c.ClassifyMessages(ctx, messages, results)
	gaps := in.Gaps &^ tolerated(c)
	for _, tag := range c.Tags() {
		state := policy.TagAbsent
		if gaps != 0 {
			state = policy.TagUnknown
		}
		for i := range results {
			state = worse(state, results[i].State(tag))
		}
		out.Set(tag, state)
	}
	for i := range results {
		out.add(results[i].Findings, first[i])
	}
	return err
}
