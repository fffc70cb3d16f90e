package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// A body is read or refused by type, and what was read can be written or is refused by type.
func FuzzMessagesRequest(f *testing.F) {
	f.Add([]byte(messagesBody(`"system":[{"type":"text","text":"s"}],"thinking":{"type":"adaptive"},"temperature":2`)))
	f.Add([]byte(messagesTurn("user", `{"type":"tool_result","tool_use_id":"a:b","content":[{"type":"image","source":{"type":"url","url":"http://a"}}]}`)))
	f.Add([]byte(messagesTurn("assistant", `{"type":"tool_use","id":"t","name":"f","input":{}},{"type":"thinking","thinking":"a","signature":"b"}`)))
	f.Add([]byte(messagesTurn("user", `{"type":"document","source":{"type":"content","content":[{"type":"search_result","content":[{"text":"a"}]}]}}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Messages().DecodeRequest(body)
		if err == nil {
			var out []byte
			out, err = Messages().EncodeRequest(r, nil, func(Warning) {})
			if err == nil && !json.Valid(out) {
				t.Fatalf("not JSON: %s", out)
			}
		}
		var u *UnsupportedError
		var b *BodyError
		if err != nil && !errors.As(err, &u) && !errors.As(err, &b) {
			t.Fatalf("an error of no type: %v", err)
		}
	})
}

// Whatever frames come, parts follow each other, and what is written is JSON.
func FuzzMessagesStream(f *testing.F) {
	f.Add([]byte(frameStart + "\n" + frameBlock(0, `{"type":"text","text":""}`) + "\n" + frameDelta(0, `{"type":"text_delta","text":"a"}`) + "\n" + frameEnd(0) + "\n" + frameFinish("end_turn", 3) + "\n" + frameStop))
	f.Add([]byte(frameBlock(0, `{"type":"tool_use","id":"t","name":"f","input":{"a":1}}`) + "\n" + frameBlock(1, `{"type":"new"}`) + "\n" + frameEnd(1) + "\n" + frameEnd(0)))
	f.Add([]byte(`{"type":"error","error":{"type":"api_error"}}`))
	f.Fuzz(func(t *testing.T, frames []byte) {
		d := Messages().NewStreamDecoder()
		e := Messages().NewStreamEncoder(&AnswerOptions{})
		var out []byte
		inPart, begun, done := false, false, false
		for frame := range bytes.SplitSeq(frames, []byte("\n")) {
			err := d.Decode("", frame, func(ev *Event) {
				if done {
					t.Fatal("an event after the last")
				}
				begun = begun || ev.Kind == Begin
				switch ev.Kind {
				case PartBegin:
					if inPart || !begun {
						t.Fatal("a part within another, or before the beginning")
					}
					inPart = true
				case Delta, PartEnd:
					if !inPart {
						t.Fatal("a delta without a part")
					}
					inPart = ev.Kind == Delta
				case Finish:
					if inPart {
						t.Fatal("the finish within a part")
					}
				case Fail, End:
					done = true
				case Begin, Tally, Keep:
				}
				out = e.Append(out, ev)
			})
			if err != nil {
				break
			}
		}
		for line := range bytes.SplitSeq(out, []byte("\n")) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !json.Valid(data) {
				t.Fatalf("not JSON: %s", data)
			}
		}
	})
}
