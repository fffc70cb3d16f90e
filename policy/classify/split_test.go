package classify

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// However a client spells and splits a message, what is in it is found: characters
// escaped at random, within quoted JSON or not, and parts cut at random.
func TestSpellingHidesNothing(t *testing.T) {
	t.Parallel()
	s := scanner(t, ScannerOptions{})
	r := rand.New(rand.NewPCG(1, 2))
	cases := append(readLabelled(t, "testdata/handwritten.jsonl"), readLabelled(t, "testdata/generated.jsonl")...)
	for i := range cases {
		c := &cases[i]
		if len(c.Kinds) == 0 || strings.Contains(c.Text, `\`) {
			continue
		}
		content := spell(r, c.Text, false)
		if r.IntN(3) == 0 {
			content = fmt.Sprintf(`"{\"answer\":%s}"`, spell(r, c.Text, true))
		} else if r.IntN(2) == 0 {
			var parts []string
			for rest := c.Text; rest != ""; {
				n := 1 + r.IntN(len(rest))
				for n < len(rest) && !utf8.RuneStart(rest[n]) {
					n++
				}
				parts = append(parts, fmt.Sprintf(`{"type":"text","text":%s}`, spell(r, rest[:n], false)))
				rest = rest[n:]
			}
			content = "[" + strings.Join(parts, ",") + "]"
		}
		body := `{"messages":[{"role":"user","content":` + content + `}]}`
		require.True(t, json.Valid([]byte(body)), body)
		in := extract(t, prompt.Chat, body)
		var out Result
		require.NoError(t, s.Classify(t.Context(), in, &out))
		for _, k := range c.Kinds {
			if !slices.ContainsFunc(out.Findings, func(f Finding) bool { return f.Kind == k }) {
				t.Errorf("%s: not found in %s", k, body)
			}
		}
	}
}

// spell writes a text as a JSON string, some characters escaped; quoted: as one
// within a string of JSON.
func spell(r *rand.Rand, text string, quoted bool) string {
	var b strings.Builder
	slash, quote := `\`, `"`
	if quoted {
		slash, quote = `\\`, `\"`
	}
	b.WriteString(quote)
	for _, c := range text {
		switch {
		case c == '"':
			b.WriteString(map[bool]string{false: `\"`, true: `\\\"`}[quoted])
		case c < ' ' || c < 0x10000 && r.IntN(4) == 0:
			fmt.Fprintf(&b, `%su%04x`, slash, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteString(quote)
	return b.String()
}
