package local

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// BenchmarkSteps60k splits what BenchmarkNewTurn60k measures: reading the request,
// rendering, tokenizing, each at its fastest. The conversation has one new turn each time.
func BenchmarkSteps60k(b *testing.B) {
	cache, err := os.UserCacheDir()
	if err != nil {
		b.Skip(err)
	}
	from := filepath.Join(cache, "kvsteer", "tokenizers", "qwen3")
	if _, err = os.Stat(filepath.Join(from, fileTokenizer)); err != nil {
		b.Skip("no Qwen3 tokenizer: run scripts/tokenizer-files.sh")
	}
	o := Options{}.withDefaults()
	f, err := readFiles(from)
	if err != nil {
		b.Fatal(err)
	}
	f.text[fileConfig] = []byte(`{"model_type":"qwen3"}`)
	a, err := build(Model{Dir: from}, f, &o)
	if err != nil {
		b.Fatal(err)
	}
	const turns, different = 40, 16
	text := strings.Repeat("The router sends a prompt to the worker that already holds most of its prefix.\\n", 90)
	var bodies [different][]byte
	for i := range bodies {
		var body strings.Builder
		body.WriteString(`{"model":"m","messages":[{"role":"system","content":"You are a router."}`)
		for k := range turns {
			role := "user"
			if k%2 == 1 {
				role = "assistant"
			}
			body.WriteString(`,{"role":"` + role + `","content":"` + strconv.Itoa(k) + text + `"}`)
		}
		body.WriteString(`,{"role":"user","content":"question ` + strconv.Itoa(i) + `"}]}`)
		bodies[i] = []byte(body.String())
	}
	var took [4]time.Duration
	tokens, i := 0, 0
	for b.Loop() {
		i++
		began := time.Now()
		object, parseErr := jsonscan.Parse(bodies[i%different], 0)
		if parseErr != nil {
			b.Fatal(parseErr)
		}
		parsed := time.Now()
		q, queryErr := chatQuery(object)
		if queryErr != nil {
			b.Fatal(queryErr)
		}
		read := time.Now()
		buffer := a.buffers.get()
		out, textErr := q.text(context.Background(), a, (*buffer)[:0])
		if textErr != nil {
			b.Fatal(textErr)
		}
		rendered := time.Now()
		ids, idsErr := a.ids("", out, false, cut{})
		if idsErr != nil {
			b.Fatal(idsErr)
		}
		a.buffers.put(buffer, out)
		tokens = len(ids)
		for step, at := range [...]time.Duration{parsed.Sub(began), read.Sub(parsed), rendered.Sub(read), time.Since(rendered)} {
			if took[step] == 0 || at < took[step] {
				took[step] = at // the least: on a busy machine the mean says nothing
			}
		}
	}
	for step, name := range [...]string{"parse-ns", "read-ns", "render-ns", "tokenize-ns"} {
		b.ReportMetric(float64(took[step].Nanoseconds()), name)
	}
	b.ReportMetric(float64(tokens), "tokens")
}
