package prompt

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a real engine answered: the ids of all four APIs are those of its
// tokenizer, whichever endpoint gave them.
func TestCaptures(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/vllm-0.32.0.json")
	require.NoError(t, err)
	var captures []struct {
		Name     string          `json:"name"`
		API      string          `json:"api"`
		Request  json.RawMessage `json:"request"`
		Endpoint string          `json:"endpoint"`
		Status   int             `json:"status"`
		Reply    json.RawMessage `json:"reply"`
	}
	require.NoError(t, json.Unmarshal(raw, &captures))
	hi := []uint32{151644, 8948, 198, 2610, 525, 50537, 13, 151645, 198, 151644, 872, 198, 45764, 15588, 11, 220, 108386, 90316, 151645, 198, 151644, 77091, 198}
	absent := Degradation{SourceRender, string(errAbsent)}
	want := map[string]Encoding{
		"chat":          {Source: SourceRender, Tokens: hi, Count: 23},
		"completions":   {Source: SourceRender, Tokens: []uint32{370, 15307}, Count: 4},
		"messages":      {Source: SourceRender, Tokens: hi, Count: 23},
		"responses":     {Source: SourceRender, Tokens: hi, Count: 23},
		"tokenize chat": {Source: SourceTokenize, Tokens: hi, Count: 23, Degraded: []Degradation{absent}},
		"tokenize text": {Source: SourceTokenize, Tokens: []uint32{370, 15307}, Count: 2, Degraded: []Degradation{absent}},
		"unknown model": {Source: SourceBytes, Bytes: []byte("ab cd"), Count: 2, Degraded: []Degradation{absent, {SourceTokenize, string(errRefused)}}},
		"bad form":      {Source: SourceBytes, Bytes: []byte("ab cd"), Count: 2, Degraded: []Degradation{absent, {SourceTokenize, string(errRefused)}}},
		"no endpoint":   {Source: SourceBytes, Bytes: []byte("a"), Count: 1, Degraded: []Degradation{{SourceTokenize, string(errAbsent)}}},
	}
	require.Len(t, captures, len(want))
	for _, c := range captures {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			eng := newEngine(t, map[string]http.HandlerFunc{c.Endpoint: reply(c.Status, string(c.Reply))})
			e := newEncoder(t, Options{})
			api, ok := APIForPath(c.API)
			require.True(t, ok)
			enc, err := e.Encode(context.Background(), &Request{API: api, Model: "tiny", Body: c.Request, Engine: Engine{BaseURL: eng.URL}})
			require.NoError(t, err)
			assert.Equal(t, want[c.Name], enc)
		})
	}
}
