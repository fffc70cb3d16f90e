package bedrocktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// Answer is what one request gets.
type Answer struct {
	// Thinking, Text and Calls are what the model says, in this order. Signature is that
	// of Thinking; Redacted is reasoning that is not shown, in base64.
	Thinking, Signature, Redacted string
	Text                          string
	Calls                         []Call
	// Stop is Converse's word; "" is tool_use if there are Calls, and else end_turn.
	Stop  string
	Usage Usage
	// NoMetadata leaves out the last event of a stream, which has the usage.
	NoMetadata bool

	// Error comes in place of the answer.
	Error *Error
	// Fails is an exception within a stream, Cut the end of the connection: both after
	// After events. Flip is the number of the event, from 1, whose checksum is wrong.
	Fails *Error
	Cut   bool
	After int
	Flip  int

	// Delay is before the answer's headers, Pace before each event of a stream.
	Delay, Pace time.Duration
	// Piece is how many characters a text has in one event of a stream; 0 is 5.
	Piece int
}

// Call is a tool that the model calls; Input is a JSON object.
type Call struct{ ID, Name, Input string }

// Usage is in tokens, as Converse counts them for Claude: Input has none of what the cache
// served. Cached says that the cache's two figures are there.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int
	Cached                               bool
}

type object = map[string]any

func (a *Answer) stop() string {
	switch {
	case a.Stop != "":
		return a.Stop
	case len(a.Calls) > 0:
		return "tool_use"
	default:
		return "end_turn"
	}
}

func (a *Answer) usage() object {
	u := object{
		"inputTokens": a.Usage.Input, "outputTokens": a.Usage.Output,
		"totalTokens": a.Usage.Input + a.Usage.Output + a.Usage.CacheRead + a.Usage.CacheWrite,
	}
	if a.Usage.Cached {
		u["cacheReadInputTokens"] = a.Usage.CacheRead
		u["cacheWriteInputTokens"] = a.Usage.CacheWrite
	}
	return u
}

func (a *Answer) whole(w http.ResponseWriter) {
	content := []object{}
	if a.Thinking != "" {
		text := object{"text": a.Thinking}
		if a.Signature != "" {
			text["signature"] = a.Signature
		}
		content = append(content, object{"reasoningContent": object{"reasoningText": text}})
	}
	if a.Redacted != "" {
		content = append(content, object{"reasoningContent": object{"redactedContent": a.Redacted}})
	}
	if a.Text != "" {
		content = append(content, object{"text": a.Text})
	}
	for _, c := range a.Calls {
		content = append(content, object{"toolUse": object{"toolUseId": c.ID, "name": c.Name, "input": json.RawMessage(c.Input)}})
	}
	body, _ := json.Marshal(object{ // a Call's Input that is no JSON gives an empty body
		"output":     object{"message": object{"role": "assistant", "content": content}},
		"stopReason": a.stop(), "usage": a.usage(), "metrics": object{"latencyMs": 1},
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Requestid", "00000000-0000-0000-0000-000000000000")
	_, _ = w.Write(body)
}

// event is one of a stream.
type event struct {
	name string
	data object
}

// events are those of the whole stream.
func (a *Answer) events() []event {
	list := []event{{"messageStart", object{"role": "assistant"}}}
	index := 0
	end := func() {
		list = append(list, event{"contentBlockStop", object{"contentBlockIndex": index}})
		index++
	}
	delta := func(d object) {
		list = append(list, event{"contentBlockDelta", object{"contentBlockIndex": index, "delta": d}})
	}
	if a.Thinking != "" {
		for _, s := range a.pieces(a.Thinking) {
			delta(object{"reasoningContent": object{"text": s}})
		}
		if a.Signature != "" {
			delta(object{"reasoningContent": object{"signature": a.Signature}})
		}
		end()
	}
	if a.Redacted != "" {
		delta(object{"reasoningContent": object{"redactedContent": a.Redacted}})
		end()
	}
	if a.Text != "" {
		for _, s := range a.pieces(a.Text) {
			delta(object{"text": s})
		}
		end()
	}
	for _, c := range a.Calls {
		list = append(list, event{"contentBlockStart", object{
			"contentBlockIndex": index, "start": object{"toolUse": object{"toolUseId": c.ID, "name": c.Name}},
		}})
		for _, s := range a.pieces(c.Input) {
			delta(object{"toolUse": object{"input": s}})
		}
		end()
	}
	list = append(list, event{"messageStop", object{"stopReason": a.stop()}})
	if !a.NoMetadata {
		list = append(list, event{"metadata", object{"usage": a.usage(), "metrics": object{"latencyMs": 1}}})
	}
	return list
}

func (a *Answer) pieces(text string) []string {
	n := a.Piece
	if n <= 0 {
		n = 5
	}
	var out []string
	for r := []rune(text); len(r) > 0; {
		k := min(n, len(r))
		out = append(out, string(r[:k]))
		r = r[k:]
	}
	return out
}

// stream writes the answer as an event stream.
func (a *Answer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	_ = flush() // the headers come first
	for i, ev := range a.events() {
		if a.Pace > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(a.Pace):
			}
		}
		if i == a.After && a.Fails != nil {
			_, _ = w.Write(message("exception", a.Fails.Type, object{"message": a.Fails.Message}))
			return
		}
		if i == a.After && a.Cut {
			panic(http.ErrAbortHandler)
		}
		raw := message("event", ev.name, ev.data)
		if i+1 == a.Flip {
			raw[len(raw)-1] ^= 1
		}
		if _, err := w.Write(raw); err != nil {
			return
		}
		_ = flush() // an error will be the next Write's
	}
}

// Stream is the body of a stream with this answer, for tests of decoders.
func (a *Answer) Stream() []byte {
	var b bytes.Buffer
	for _, ev := range a.events() {
		b.Write(message("event", ev.name, ev.data))
	}
	return b.Bytes()
}

func message(kind, name string, data object) []byte {
	payload, _ := json.Marshal(data) // numbers and strings can be marshalled
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	_ = eventstream.NewEncoder().Encode(&b, m) // to memory, within the bounds
	return b.Bytes()
}
