package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a service says of the gateway's account reaches no client within a stream, begun or not.
func TestStreamsSayNothingOfTheAccount(t *testing.T) {
	const account = "Rate limit for theirs in organization org-1, key sk-1: see billing"
	for kind, say := range map[FailureKind]string{
		FailAuth: SayAuth, FailRate: SayRate, FailQuota: SayQuota, FailModel: SayModel,
		FailContext: account, FailRequest: account, FailServer: account,
	} {
		for _, c := range []Client{Chat(), Messages(), Responses()} {
			for _, begun := range []bool{false, true} {
				e := c.NewStreamEncoder(&AnswerOptions{})
				if begun {
					e.Append(nil, &Event{Kind: Begin, ID: "1"})
				}
				out := string(e.Append(nil, &Event{Kind: Fail, Failure: &Failure{
					Kind: kind, Type: "t", Code: "c", Param: "org-1", Message: account,
				}}))
				assert.Contains(t, out, say, c.Name())
				if say != account {
					assert.NotContains(t, out, "org-1", c.Name())
					assert.NotContains(t, out, "theirs", c.Name())
				}
			}
		}
	}
	for _, c := range []Client{Chat(), Messages(), Responses()} {
		out := c.NewStreamEncoder(&AnswerOptions{}).Append(nil, &Event{Kind: Fail})
		assert.Contains(t, string(out), "error", "a failure that says nothing is one all the same")
	}
}

// The transport takes the first bytes for the beginning of the answer.
func TestStreamsBeginWithTheAnswer(t *testing.T) {
	for _, c := range []Client{Chat(), Messages(), Responses()} {
		e := c.NewStreamEncoder(&AnswerOptions{})
		assert.Empty(t, e.Append(nil, &Event{Kind: Keep}), c.Name())
		assert.NotEmpty(t, e.Append(nil, &Event{Kind: Begin, ID: "1"}), c.Name())
		assert.NotEmpty(t, e.Append(nil, &Event{Kind: Keep}), c.Name())
	}
}

// brokenLine is the first line of a stream that is none of server-sent events; "" for none.
func brokenLine(stream string) string {
	for line := range strings.SplitSeq(stream, "\n") {
		field, _, ok := strings.Cut(line, ":")
		if strings.Contains(line, "\r") || line != "" && (!ok || field != "" && field != "event" && field != "data") {
			return line
		}
	}
	return ""
}
