package classify

import (
	"bytes"
	"cmp"
	"context"

	"github.com/kvsteer/kvsteer/policy"
)

// The thresholds of a [LengthHeuristic] unless told otherwise.
const (
	DefaultLowTokens, DefaultHighTokens       = 512, 4096
	DefaultLowQuestion, DefaultHighQuestion   = 64, 1024
	DefaultLowUserTurns, DefaultHighUserTurns = 2, 10
)

// bytesPerToken is the usual figure for English; it serves for other languages, too.
const bytesPerToken = 4

// LengthHeuristic guesses how complex a request is from its length and form alone.
// It knows nothing of what is asked: "prove Fermat's last theorem" is low. A request
// is
//
//   - low if all of this holds: at most LowTokens of text in all, at most
//     LowQuestion in the last message of the user, at most LowUserTurns messages of
//     the user, no tools and no fenced code;
//   - high if any of this holds: at least HighTokens in all, at least HighQuestion in
//     the last message of the user, at least HighUserTurns messages of the user;
//   - neither, otherwise.
//
// Tokens are estimated as bytes / 4. What can't be read makes unknown what it could
// change. The zero value has the default thresholds and tags. A LengthHeuristic must
// not be changed after first use, and is then safe for concurrent use.
type LengthHeuristic struct {
	// LowTag and HighTag are the tags; empty means [TagLowComplexity] and
	// [TagHighComplexity].
	LowTag, HighTag string
	// The thresholds; 0 means the default.
	LowTokens, HighTokens       int
	LowQuestion, HighQuestion   int
	LowUserTurns, HighUserTurns int
}

// Tags implements [Classifier].
func (h *LengthHeuristic) Tags() []string {
	return []string{cmp.Or(h.LowTag, TagLowComplexity), cmp.Or(h.HighTag, TagHighComplexity)}
}

// Tolerates implements [Tolerant]: gaps are judged here.
func (h *LengthHeuristic) Tolerates() Gap { return ^Gap(0) }

func (*LengthHeuristic) bounded() {}

// Classify implements [Classifier].
func (h *LengthHeuristic) Classify(_ context.Context, in *Input, out *Result) error {
	var f form
	f.read(in)
	total, question := in.Bytes/bytesPerToken, f.question/bytesPerToken
	low := total <= cmp.Or(h.LowTokens, DefaultLowTokens) && question <= cmp.Or(h.LowQuestion, DefaultLowQuestion) &&
		f.turns <= cmp.Or(h.LowUserTurns, DefaultLowUserTurns) && !f.code && in.Tools == 0
	high := total >= cmp.Or(h.HighTokens, DefaultHighTokens) || question >= cmp.Or(h.HighQuestion, DefaultHighQuestion) ||
		f.turns >= cmp.Or(h.HighUserTurns, DefaultHighUserTurns)
	whole := in.Gaps&^GapTruncated == 0 // what was cut off is counted
	out.Set(cmp.Or(h.LowTag, TagLowComplexity), guess(low, low && !whole))
	out.Set(cmp.Or(h.HighTag, TagHighComplexity), guess(high, !high && !whole))
	return nil
}

func guess(holds, open bool) policy.TagState {
	switch {
	case open:
		return policy.TagUnknown
	case holds:
		return policy.TagPresent
	default:
		return policy.TagAbsent
	}
}

// form is what a request looks like.
type form struct {
	question, turns int
	code            bool
}

func (f *form) read(in *Input) {
	fence := []byte("```")
	last := -1 // the message of the user that was seen last
	for i := range in.Parts {
		p := &in.Parts[i]
		f.code = f.code || bytes.Contains(p.Text, fence)
		if p.Role != "user" {
			continue
		}
		if p.Message != last {
			f.turns++
			f.question, last = 0, p.Message
		}
		f.question += len(p.Text)
	}
}
