// Package requests makes API requests at random, as varied as those that gateways
// see: chat, completions, messages and responses, with tools, several turns, parts,
// reasoning, template arguments, many scripts, and the special tokens of chat
// formats in the midst of text. Equal seeds give equal requests.
package requests

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Request is one request.
type Request struct {
	API  prompt.API
	Body []byte
}

// Generator makes requests. Not safe for concurrent use.
type Generator struct {
	*rand.Rand
	// Model is the name that requests carry.
	Model string
	// Thinking leaves out thinking switched off in messages requests when it is
	// false: vLLM's render endpoint differs there from its messages endpoint.
	Thinking bool
	// Media puts images among the parts of messages, Video films too.
	Media, Video bool
}

// New returns a Generator for a seed.
func New(seed uint64, model string) *Generator {
	const stream = 7
	return &Generator{Rand: rand.New(rand.NewPCG(seed, stream)), Model: model} //nolint:gosec // tests want the same each time
}

// Next returns a request of some API.
func (g *Generator) Next() Request {
	const all = 20
	switch n := g.IntN(all); {
	case n < 10:
		return Request{prompt.Chat, g.chat()}
	case n < 13:
		return Request{prompt.Completions, g.completion()}
	case n < 17:
		return Request{prompt.Messages, g.messages()}
	default:
		return Request{prompt.Responses, g.responses()}
	}
}

// fields is an object under construction, in order.
type fields struct{ b strings.Builder }

func (f *fields) raw(key, value string) {
	if f.b.Len() > 0 {
		f.b.WriteByte(',')
	}
	f.b.WriteString(quote(key))
	f.b.WriteByte(':')
	f.b.WriteString(value)
}

func (f *fields) text(key, value string) { f.raw(key, quote(value)) }

func (f *fields) String() string { return "{" + f.b.String() + "}" }

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be written
	return strings.TrimSuffix(b.String(), "\n")
}

func list(items []string) string { return "[" + strings.Join(items, ",") + "]" }

// chance is true in percent cases of a hundred.
func (g *Generator) chance(percent int) bool {
	const whole = 100
	return g.IntN(whole) < percent
}

func pick[T any](g *Generator, from ...T) T { return from[g.IntN(len(from))] }

// some makes one to most items.
func (g *Generator) some(most int, item func() string) []string {
	out := make([]string, 0, most)
	for range 1 + g.IntN(most) {
		out = append(out, item())
	}
	return out
}

func (g *Generator) id() string { return "call_" + strconv.Itoa(g.IntN(1000)) }

// sampling adds fields that have no part in the prompt.
func (g *Generator) sampling(f *fields) {
	f.text("model", g.Model)
	if g.chance(30) {
		f.raw("temperature", pick(g, "0", "0.7", "1.0", "1e-1"))
	}
	if g.chance(20) {
		f.raw("stream", pick(g, "true", "false"))
	}
}
