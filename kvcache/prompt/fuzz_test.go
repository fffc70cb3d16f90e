package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// FuzzEncode: whatever the client sends and the engine answers, the encoding is
// sound, what the engine is asked is JSON, and only a broken body is an error.
func FuzzEncode(f *testing.F) {
	f.Add(uint8(Chat), []byte(chatBody), []byte(rendered12), uint16(200))
	f.Add(uint8(Chat), []byte(`{"messages":[{"content":[{"type":"image_url"}]}],"tools":[{}]}`), []byte(`{"token_ids":[1,2,3],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}}}`), uint16(200))
	f.Add(uint8(Completions), []byte(`{"prompt":["a","b"],"truncate_prompt_tokens":2}`), []byte(`{"tokens":[1,2,3],"count":3}`), uint16(200))
	f.Add(uint8(Completions), []byte(`{"prompt":[[1],[2,3]]}`), []byte(`[{"prompt_token_ids":[1]}]`), uint16(404))
	f.Add(uint8(Responses), []byte(`{"input":[{"type":"function_call","name":"f","arguments":"{}"}]}`), []byte(`{}`), uint16(503))
	f.Add(uint8(Messages), []byte(`{"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}]}`), []byte(`[`), uint16(400))
	f.Fuzz(func(t *testing.T, api uint8, body, answer []byte, status uint16) {
		e := NewEncoder(Options{Deadline: time.Minute, Client: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent, err := io.ReadAll(r.Body)
			if err != nil || !json.Valid(sent) {
				t.Errorf("asked with %q, %v", sent, err)
			}
			return &http.Response{StatusCode: 200 + int(status)%400, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(answer))}, nil
		}).client()})
		defer func() { _ = e.Close() }()
		enc, err := e.Encode(context.Background(), &Request{API: API(api % uint8(numAPIs+1)), Model: "m", Body: body, Engine: Engine{BaseURL: "http://a"}})
		var be *BodyError
		switch {
		case err != nil && (!errors.As(err, &be) || be.Offset < 0 || be.Offset > len(body)):
			t.Fatalf("%v", err)
		case err != nil:
			return
		case enc.Source == SourceNone && (enc.Count != 0 || enc.Tokens != nil || enc.Bytes != nil || enc.Degraded != nil):
			t.Fatalf("something of nothing: %+v", enc)
		case enc.Source == SourceBytes && (enc.Tokens != nil || enc.Count <= 0),
			enc.Source.Exact() && (enc.Count < len(enc.Tokens) || enc.Bytes != nil):
			t.Fatalf("unsound: %+v", enc)
		}
		for _, it := range enc.Items {
			if it.ID == "" || it.Offset < 0 || it.Length < 0 || it.Offset+it.Length > len(enc.Tokens) {
				t.Fatalf("item outside the prompt: %+v", it)
			}
		}
	})
}

// TestAllocs bounds what the two steady states cost: an engine without the
// endpoints, and a prompt seen before.
func TestAllocs(t *testing.T) {
	o := object(t, chatBody)
	e := newEncoder(t, Options{Client: roundTrip(func(*http.Request) (*http.Response, error) { return ok(rendered12) }).client()})
	for name, c := range map[string]struct {
		base   string
		budget float64
	}{
		// Request, two degradations (grown once each), the bytes.
		"no engine": {"", 6},
		// Request, the hash and its scratch.
		"cached": {"http://a", 6},
	} {
		r := Request{API: Chat, Model: "m", Body: o.Bytes(), Object: o, Engine: Engine{BaseURL: c.base}}
		if name == "no engine" {
			r.Model = "another"
		}
		run := func() {
			if _, err := e.Encode(context.Background(), &r); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(100, run); n > c.budget {
			t.Errorf("%s: %v allocations", name, n)
		} else {
			t.Logf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := bytes.Repeat([]byte(`The quick brown fox jumps over the lazy dog.\n`), 1400)
	o := object(b, `{"model":"m","messages":[{"role":"user","content":"`+string(text)+`"}]}`)
	for name, base := range map[string]string{"bytes": "", "cached": "http://a"} {
		b.Run(name, func(b *testing.B) {
			e := newEncoder(b, Options{Client: roundTrip(func(*http.Request) (*http.Response, error) { return ok(rendered12) }).client()})
			b.SetBytes(int64(len(o.Bytes())))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Encode(context.Background(), &Request{API: Chat, Body: o.Bytes(), Object: o, Engine: Engine{BaseURL: base}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
