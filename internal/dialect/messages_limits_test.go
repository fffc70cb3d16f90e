package dialect

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMessagesForcedTools(t *testing.T) {
	for model, ok := range map[string]bool{
		"claude-sonnet-5-5": false, "claude-fable-5-1": false, "claude-mythos-5-1": false,
		"anthropic.claude-sonnet-5-5-v1:0": false,
		"claude-sonnet-5":                  true, "claude-fable-5": true, "claude-mythos-preview": true, "claude-opus-5-5": true,
		"claude-sonnet-4-6": true, "else": true,
	} {
		for _, choice := range []ToolChoice{{Kind: ChoiceAny}, {Kind: ChoiceTool, Name: "f"}} {
			r := asked(func(r *Request) {
				r.Model, r.Choice, r.Tools = model, &choice, []Tool{{Name: "f"}}
			})
			_, err := Messages().EncodeRequest(r, nil, func(Warning) {})
			if ok {
				require.NoError(t, err, model)
				continue
			}
			var refused *UnsupportedError
			require.ErrorAs(t, err, &refused, model)
			assert.Equal(t, "tool_choice", refused.Field)
		}
		for _, kind := range []ChoiceKind{ChoiceAuto, ChoiceNone} {
			r := asked(func(r *Request) {
				r.Model, r.Choice, r.Tools = model, &ToolChoice{Kind: kind}, []Tool{{Name: "f"}}
			})
			_, err := Messages().EncodeRequest(r, nil, func(Warning) {})
			require.NoError(t, err, model)
		}
	}
}

func TestMessagesBegunAnswers(t *testing.T) {
	for model, ok := range map[string]bool{
		"claude-opus-4-6": false, "claude-sonnet-5": false, "claude-sonnet-latest": false,
		"claude-sonnet-4-5": true, "claude-3-5-haiku": true, "else": true,
	} {
		r := asked(func(r *Request) {
			r.Model = model
			r.Messages = append(r.Messages, says(Assistant, Part{Text: "It is"}))
		})
		_, err := Messages().EncodeRequest(r, nil, func(Warning) {})
		if ok {
			require.NoError(t, err, model)
			continue
		}
		var refused *UnsupportedError
		require.ErrorAs(t, err, &refused, model)
		assert.Equal(t, "messages", refused.Field)

		r.Messages[len(r.Messages)-1].Parts[0].Text = " \n" // says nothing: it isn't sent
		_, err = Messages().EncodeRequest(r, nil, func(Warning) {})
		require.NoError(t, err, model)
	}
}

// feed gives a decoder frames until it has enough of them.
func feed(d StreamDecoder, n int, frame func(i int) string) (emitted int, err error) {
	for i := 0; i < n && err == nil; i++ {
		err = d.Decode("", []byte(frame(i)), func(*Event) { emitted++ })
	}
	return emitted, err
}

// Blocks that begin and don't end are bounded in number and in size.
func TestMessagesOpenBlocksAreBounded(t *testing.T) {
	d := Messages().NewStreamDecoder()
	_, err := feed(d, messagesOpen, func(i int) string { return frameBlock(i, `{"type":"text","text":""}`) })
	require.NoError(t, err)
	_, err = feed(d, 1, func(int) string { return frameBlock(messagesOpen, `{"type":"text","text":""}`) })
	require.Error(t, err)

	for name, block := range map[string]string{
		"text":      `{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}`,
		"input":     `{"type":"tool_use","id":"1","name":"f","input":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"redacted":  `{"type":"redacted_thinking","data":"` + strings.Repeat("x", 1<<20) + `"}`,
		"signature": `{"type":"thinking","thinking":"","signature":"` + strings.Repeat("x", 1<<20) + `"}`,
		"name":      `{"type":"tool_use","id":"1","name":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		d := Messages().NewStreamDecoder()
		_, err := feed(d, 20, func(i int) string { return frameBlock(i, block) })
		var broken *BodyError
		require.ErrorAs(t, err, &broken, name)
	}
}

// What was handed over no longer counts: a long stream of blocks that overlap goes on.
func TestMessagesCountsOnlyWhatWaits(t *testing.T) {
	d := &messagesDecoder{}
	piece := strings.Repeat("x", 1<<20)
	_, err := feed(d, 1, func(int) string { return frameBlock(0, `{"type":"text","text":""}`) })
	require.NoError(t, err)
	for i := range 24 {
		_, err = feed(d, 3, func(step int) string {
			switch step {
			case 0:
				return frameBlock(i+1, `{"type":"text","text":"`+piece+`"}`)
			case 1:
				return frameDelta(i+1, `{"type":"text_delta","text":"`+piece+`"}`)
			default:
				return frameEnd(i)
			}
		})
		require.NoError(t, err, strconv.Itoa(i))
		require.Zero(t, d.held)
	}
}
