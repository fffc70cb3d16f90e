//go:build e2e

package sdk

import (
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// api is an SDK's form of a client, and the words that its API has.
type api struct {
	name string
	make func(*place) client
	// stops are the words for reasons to stop, by the fake's.
	stops map[providertest.Stop]string
	// refusals: the API has a place for why a model refuses; else it is text.
	refusals bool
	// ways are how it is tried.
	ways []way
}

func apis() []api {
	direct := func(d providertest.Dialect) way { return way{name: "direct to " + d.String(), dialect: d} }
	via := func(d providertest.Dialect, k providers.Kind, apis ...prompt.API) way {
		return way{name: "by the gateway to " + d.String(), dialect: d, kind: k, apis: apis}
	}
	named := func(model string, w way) way {
		w.model, w.name = model, w.name+" "+model
		return w
	}
	anthropic := via(providertest.Anthropic, providers.Anthropic{})
	opus, sonnet := named("claude-opus-4-7", anthropic), named("claude-sonnet-5-5", anthropic)
	thinker := named("claude-sonnet-5", anthropic)
	reasoner := named("gpt-5", via(providertest.OpenAI, providers.OpenAI{}))
	reasonerChat := named("o3", via(providertest.OpenAI, providers.OpenAI{}, prompt.Chat))
	return []api{
		{
			name: "chat", make: newChat, refusals: true,
			stops: map[providertest.Stop]string{
				providertest.StopEnd: "stop", providertest.StopLength: "length", providertest.StopTools: "tool_calls", providertest.StopAtText: "stop",
			},
			ways: []way{
				direct(providertest.OpenAI), direct(providertest.Gemini), via(providertest.OpenAI, providers.OpenAI{}),
				via(providertest.Gemini, providers.Gemini{}), anthropic, reasoner, opus, sonnet, thinker,
			},
		},
		{
			name: "messages", make: newMessages,
			stops: map[providertest.Stop]string{
				providertest.StopEnd: "end_turn", providertest.StopLength: "max_tokens", providertest.StopTools: "tool_use", providertest.StopAtText: "end_turn",
			},
			ways: []way{
				direct(providertest.Anthropic), anthropic, via(providertest.OpenAI, providers.OpenAI{}), via(providertest.Gemini, providers.Gemini{}),
				named("claude-opus-4-7", direct(providertest.Anthropic)), opus, sonnet, reasoner,
			},
		},
		{
			name: "responses", make: newAnswers, refusals: true,
			stops: map[providertest.Stop]string{
				providertest.StopEnd: "completed", providertest.StopLength: "incomplete max_output_tokens", providertest.StopTools: "completed",
				providertest.StopAtText: "completed",
			},
			ways: []way{direct(providertest.OpenAI), via(providertest.OpenAI, providers.OpenAI{}, prompt.Chat), anthropic, reasonerChat, opus, sonnet, thinker},
		},
	}
}

// pair is an API in one of its ways.
type pair struct {
	api *api
	way *way
}

// all are the APIs in all of their ways, by name.
func all() iter.Seq2[string, pair] {
	return func(yield func(string, pair) bool) {
		for _, a := range apis() {
			for _, w := range a.ways {
				if !yield(a.name+" "+w.name, pair{&a, &w}) {
					return
				}
			}
		}
	}
}

func hello() *question { return &question{turns: []turn{{text: "Hello"}}} }

// Both of an SDK's ways to an answer say what the service said.
func TestAnswers(t *testing.T) {
	usage := providertest.Usage{Input: 120, CacheRead: 100, Output: 7}
	two := []providertest.Call{{ID: "call_1", Name: "f", Arguments: `{"a":1}`}, {ID: "call_2", Name: "g", Arguments: `{"a":22}`}}
	cases := map[string]providertest.Answer{
		"text":                     {Text: "Hello there, wie geht's? 🙂 \"quoted\" \\ and\nnew lines", Usage: usage},
		"one tool":                 {Calls: two[:1], Usage: usage},
		"parallel tools":           {Text: "Let me look.", Calls: two, Usage: usage},
		"tools first":              {Text: "And now we wait.", Calls: two, CallsFirst: true, Usage: usage},
		"a tool without arguments": {Calls: []providertest.Call{{ID: "call_1", Name: "f", Arguments: `{}`}}, Usage: usage},
		"thinking":                 {Thinking: "Well, well.", Text: "Yes.", Usage: usage},
		"thinking before a tool":   {Thinking: "Well, well.", Calls: two[:1], Usage: usage},
		"length":                   {Text: "It was a dark and", Stop: providertest.StopLength, Usage: usage},
		"odd frames":               {Text: "Hello there", Usage: usage, Frames: providertest.Frames{CRLF: true, NoSpace: true, Comments: true, Split: 1}},
	}
	for where, x := range all() {
		t.Run(where, func(t *testing.T) {
			a, w := x.api, x.way
			for name, answer := range cases {
				t.Run(name, func(t *testing.T) {
					p := w.open(t)
					c := a.make(p)
					q := hello()
					q.tools = []string{"f", "g"}
					p.fake.Script(answer, answer)
					whole, err := c.whole(t.Context(), q)
					require.NoError(t, err, p.fake.Last().Problem)
					events := 0
					streamed, err := c.stream(t.Context(), q, func() { events++ })
					require.NoError(t, err, p.fake.Last().Problem)
					assert.Equal(t, whole, streamed)
					assert.Greater(t, events, 1)
					assert.Equal(t, expected(a, p, &answer), whole)
					assert.Equal(t, w.upstream(), p.fake.Last().Model)
				})
			}
		})
	}
}

// expected is what a client of the API is told.
func expected(a *api, p *place, answer *providertest.Answer) said {
	s := said{
		Model: p.model, Text: answer.Text, Thinking: answer.Thinking, Refusal: answer.Refusal,
		Input: answer.Usage.Input, Cached: answer.Usage.CacheRead, Output: answer.Usage.Output,
	}
	stop := answer.Stop
	if stop == providertest.StopDefault {
		stop = providertest.StopEnd
		if len(answer.Calls) > 0 {
			stop = providertest.StopTools
		}
	}
	s.Stop = a.stops[stop]
	for _, c := range answer.Calls {
		s.Calls = append(s.Calls, call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return s
}
