package jsonscan

import (
	"bytes"
	"strings"
	"testing"
)

// chatBody is a conversation of about the given size.
func chatBody(size int, text string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"qwen3","temperature":0.7,"stream":true,"stream_options":{"include_usage":false},"messages":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteString(`, `)
		}
		b.WriteString(`{"role": "user", "content": "`)
		b.WriteString(text)
		b.WriteString(`"}`)
	}
	b.WriteString(`],"max_tokens":512}`)
	return b.Bytes()
}

var english = strings.Repeat(`The quick brown fox \"jumps\" over the lazy dog.\n`, 12)

func TestAllocs(t *testing.T) {
	body := chatBody(64<<10, english)
	if n := testing.AllocsPerRun(50, func() {
		if _, err := ParseValue(body, 0); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("ParseValue: %v allocations", n)
	}
	o, err := Parse(body, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(50, func() {
		if _, err := Parse(body, 0); err != nil {
			t.Fatal(err)
		}
		if !o.Value("model").Is("qwen3") || o.Value("messages").Len() == 0 || o.Value("stream_options").Get("x").Exists() {
			t.Fatal("misread")
		}
	}); n > 1 {
		t.Errorf("Parse: %v allocations", n)
	}
	yes := []byte("true")
	if n := testing.AllocsPerRun(50, func() {
		var e Edit
		e.SetString("model", "other")
		e.SetIn("stream_options", "include_usage", yes)
		if _, err := e.Apply(o); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("Edit and Apply: %v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	ids := []byte(`{"model":"m","prompt":[` + strings.Repeat("151643, 17,", 6000) + `1]}`)
	for name, body := range map[string][]byte{
		"english": chatBody(64<<10, english),
		"plain":   chatBody(64<<10, strings.Repeat("plain words ", 400)),
		"chinese": chatBody(64<<10, strings.Repeat("缓存前缀路由器", 60)),
		"ids":     ids,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(body, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	body := chatBody(64<<10, english)
	o, err := Parse(body, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var e Edit
		e.SetString("model", "other")
		e.SetIn("stream_options", "include_usage", []byte("true"))
		if _, err := e.Apply(o); err != nil {
			b.Fatal(err)
		}
	}
}
