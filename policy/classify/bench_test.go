package classify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const benchBytes = 64 << 10

// clean texts of the size, without anything to find.
func clean(kind string) string {
	var one string
	switch kind {
	case "english":
		one = "The scheduler keeps 12 requests in flight, and each of them waits for its blocks; see section 4.2 (page 117).\n"
	case "code":
		one = "func (s *server) handle(w http.ResponseWriter, r *http.Request) { id := r.PathValue(\"id\"); if id == \"\" { w.WriteHeader(404) } }\n"
	case "chinese":
		one = "调度器把请求分配给持有前缀缓存的节点，这样可以避免重复计算。每个块有16个词元。"
	case "table":
		one = "2024-05-01,10452,88213,0.4417,19.95,55120\n"
	case "hindi":
		one = "यह एक लंबा वाक्य है जिसमें कोई व्यक्तिगत जानकारी नहीं है। "
	default:
	}
	return strings.Repeat(one, benchBytes/len(one)+1)[:benchBytes]
}

// worst texts are made of what begins something.
func worst() map[string]string {
	repeat := func(s string) string { return strings.Repeat(s, benchBytes/len(s)) }
	return map[string]string{
		"digits":       repeat("4"),
		"at":           repeat("@"),
		"dashes":       repeat("-"),
		"plus":         repeat("+"),
		"brackets":     repeat("(415) 555-"),
		"backslashes":  repeat(`\`),
		"singles":      repeat("1 "),
		"groups":       repeat("4111 "),
		"grid":         repeat("4111 1111 1111 1112 "),
		"jwt":          repeat("eyJhbGciOiJIUzI1NiJ9."),
		"jwt dashes":   repeat("eyJ-"),
		"keys":         repeat("sk-"),
		"sendgrid":     repeat("SG."),
		"addresses":    repeat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@"),
		"domains":      "a@" + repeat("a."),
		"urls":         repeat("://a:b@"),
		"ibans":        repeat("DE89 3704 "),
		"pem":          repeat("-----BEGIN "),
		"phones":       repeat("+1 415 "),
		"phone words":  repeat("phone 1 call 415 5"),
		"nhs":          repeat("9434765919 "),
		"escapes":      repeat(`\u0034`),
		"full width":   repeat("４"),
		"invisible":    repeat("\u200b"),
		"arabic":       repeat("٤"),
		"invalid":      repeat("\xe4\xff"),
		"aws secret":   repeat("aws_secret_access_key="),
		"underscores":  repeat("_a"),
		"token dashes": repeat("glpat-xoxb-"),
		"tabs":         repeat("4111\t"),
		"lines":        repeat("4111\t1111\n"),
		"encoded":      repeat("4111%20"),
		"entities":     repeat("4111&nbsp;"),
		"wide":         repeat("4111   "),
		"joined":       repeat("4111_"),
		"card singles": repeat("card 4,1,1,1,"),
		"card lists":   repeat("card 41,11,11,11,11,"),
		"glued":        repeat("card411111111 "),
		"residents":    repeat("110105 1949 "),
		"iban tabs":    repeat("DE89\t3704\t"),
	}
}

func BenchmarkClassify(b *testing.B) {
	s, err := NewScanner(ScannerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	run := func(name, text string) {
		b.Run(name, func(b *testing.B) {
			var in Input
			in.AddText("user", text)
			var out Result
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				if err := s.Classify(b.Context(), &in, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, kind := range []string{"english", "code", "chinese", "table", "hindi"} {
		run(kind, clean(kind))
	}
	for name, text := range worst() {
		run("worst/"+name, text)
	}
}

// body is a conversation of 64 KiB in messages of 2 KiB.
func body(tb testing.TB) jsonscan.Object {
	tb.Helper()
	var b bytes.Buffer
	b.WriteString(`{"model":"qwen3","messages":[`)
	text := clean("english")
	const each = 2 << 10
	for i := 0; i < len(text); i += each {
		if i > 0 {
			b.WriteByte(',')
		}
		content, err := json.Marshal(text[i : i+each])
		if err != nil {
			tb.Fatal(err)
		}
		fmt.Fprintf(&b, `{"role":"user","content":%s}`, content)
	}
	b.WriteString(`]}`)
	o, err := jsonscan.Parse(b.Bytes(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// BenchmarkSet is what a request costs: extraction, hashing, and scanning of what
// is new: all of it, or nothing.
func BenchmarkSet(b *testing.B) {
	o := body(b)
	for name, cache := range map[string]int{"all new": -1, "all known": 0} {
		b.Run(name, func(b *testing.B) {
			scanner, err := NewScanner(ScannerOptions{})
			if err != nil {
				b.Fatal(err)
			}
			set, err := NewSet(SetOptions{CacheBytes: cache, Members: []Member{{Classifier: scanner}, {Classifier: new(LengthHeuristic)}}})
			if err != nil {
				b.Fatal(err)
			}
			var in Input
			var out Result
			b.SetBytes(int64(len(o.Bytes())))
			b.ReportAllocs()
			for b.Loop() {
				ExtractObject(&in, prompt.Chat, o, 0)
				if err := set.Classify(b.Context(), &in, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
