//go:build e2e

package sdk

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

// told is what a client behind a gateway is told of a fault: status, and type or code.
type told struct {
	status int
	kind   string
}

// openAITold and anthropicTold are so where nobody else can serve the request. What concerns
// the gateway's account (its key, its quota) is no business of the client's.
func openAITold() map[providertest.Fault]told {
	return map[providertest.Fault]told{
		providertest.RateLimited:     {429, "rate_limit_exceeded"},
		providertest.QuotaExhausted:  {503, "overloaded"},
		providertest.Overloaded:      {503, "overloaded"},
		providertest.ServerError:     {500, "server_error"},
		providertest.BadGateway:      {502, "server_error"},
		providertest.GatewayTimeout:  {504, "timeout"},
		providertest.ContextTooLong:  {400, "context_length_exceeded"},
		providertest.ContentFiltered: {400, "content_policy_violation"},
		providertest.BadKey:          {502, "server_error"},
		providertest.Forbidden:       {502, "server_error"},
		providertest.UnknownModel:    {404, "model_not_found"},
		providertest.BadRequest:      {400, "invalid_request_error"},
		providertest.TooLarge:        {413, "request_too_large"},
	}
}

func anthropicTold() map[providertest.Fault]told {
	return map[providertest.Fault]told{
		providertest.RateLimited:     {429, "rate_limit_error"},
		providertest.QuotaExhausted:  {503, "overloaded_error"},
		providertest.Overloaded:      {529, "overloaded_error"},
		providertest.ServerError:     {500, "api_error"},
		providertest.BadGateway:      {502, "api_error"},
		providertest.GatewayTimeout:  {504, "timeout_error"},
		providertest.ContextTooLong:  {400, "invalid_request_error"},
		providertest.ContentFiltered: {400, "invalid_request_error"},
		providertest.BadKey:          {502, "api_error"},
		providertest.Forbidden:       {502, "api_error"},
		providertest.UnknownModel:    {404, "not_found_error"},
		providertest.BadRequest:      {400, "invalid_request_error"},
		providertest.TooLarge:        {413, "request_too_large"},
	}
}

// expectedFault is what the client of an API is told. The kind is "" where it is the service's own word.
func expectedFault(a *api, w *way, fault providertest.Fault) told {
	want := openAITold()[fault]
	own := a.name == "chat" && w.dialect != providertest.Anthropic
	if a.name == "messages" {
		want = anthropicTold()[fault]
		own = w.dialect == providertest.Anthropic
	}
	switch {
	case w.dialect == providertest.OpenAI && fault == providertest.Forbidden: // its code says model_not_found
		return expectedFault(a, w, providertest.UnknownModel)
	case w.dialect == providertest.Gemini && fault == providertest.QuotaExhausted: // it has one code for both
		return expectedFault(a, w, providertest.RateLimited)
	default:
	}
	switch fault {
	case providertest.RateLimited, providertest.QuotaExhausted, providertest.BadKey, providertest.Forbidden, providertest.UnknownModel:
	default:
		if own { // errors of the client's own API pass as they are
			want.kind = ""
		}
	}
	return want
}

// Errors of a service reach the client as those of the API that it speaks, with a status
// that says the same.
func TestFaults(t *testing.T) {
	for where, x := range all() {
		t.Run(where, func(t *testing.T) {
			a, w := x.api, x.way
			for _, fault := range providertest.Faults() {
				for name, ask := range map[string]func(c client) error{
					"whole":  func(c client) error { _, err := c.whole(t.Context(), hello()); return err },
					"stream": func(c client) error { _, err := c.stream(t.Context(), hello(), func() {}); return err },
				} {
					t.Run(fault.String()+" "+name, func(t *testing.T) {
						p := w.open(t)
						c := a.make(p)
						p.fake.Script(providertest.Answer{Fault: fault})
						status, kind := c.failure(ask(c))
						if w.kind == nil {
							assert.Equal(t, p.fake.Last().Status, status)
							return
						}
						want := expectedFault(a, w, fault)
						assert.Equal(t, want.status, status)
						if want.kind != "" {
							assert.Equal(t, want.kind, kind)
						}
					})
				}
			}
		})
	}
}

// What the provider says of the gateway's account reaches no client.
func TestFaultsTellNothingOfTheAccount(t *testing.T) {
	for where, x := range all() {
		t.Run(where, func(t *testing.T) {
			a, w := x.api, x.way
			if w.kind == nil {
				return
			}
			for _, fault := range []providertest.Fault{
				providertest.RateLimited, providertest.QuotaExhausted, providertest.BadKey, providertest.Forbidden,
			} {
				p := w.open(t)
				p.fake.Script(providertest.Answer{Fault: fault})
				_, err := a.make(p).whole(t.Context(), hello())
				require.Error(t, err)
				body := raw(err)
				require.NotEmpty(t, body)
				for _, word := range []string{key, "billing", "credit", "organization", "API key", "api-key", "permission", w.upstream()} {
					assert.NotContains(t, body, word)
				}
			}
		})
	}
}

// raw is the body of an error.
func raw(err error) string {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.RawJSON()
	}
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.RawJSON()
	}
	return ""
}

// A stream that dies is not taken for a whole one.
func TestDeaths(t *testing.T) {
	frames := map[string]providertest.Frames{
		"between events": {DieAt: 5},
		"within one":     {DieWithin: 5},
		"an error":       {FailAt: 5, Fault: providertest.Overloaded},
		"at the end":     {NoDone: true},
	}
	for where, x := range all() {
		t.Run(where, func(t *testing.T) {
			a, w := x.api, x.way
			for name, f := range frames {
				t.Run(name, func(t *testing.T) {
					p := w.open(t)
					p.fake.Script(providertest.Answer{Text: "one two three four five six seven eight nine", Frames: f})
					events := 0
					got, err := a.make(p).stream(t.Context(), hello(), func() { events++ })
					if name == "at the end" && (a.name == "chat" && w.dialect != providertest.Anthropic || a.translates(w)) {
						// [DONE] says nothing that finish_reason has not said.
						require.NoError(t, err)
						assert.NotEmpty(t, got.Stop)
						return
					}
					require.Error(t, err)
					assert.Positive(t, events, "it began")
					assert.Len(t, p.fake.Requests(), 1, "what has begun is not tried again")
					if name == "an error" {
						assert.NotErrorIs(t, err, io.ErrUnexpectedEOF, "the client is told")
					}
				})
			}
		})
	}
}

// translates reports whether the way's service speaks chat completions, and the client
// another API.
func (a *api) translates(w *way) bool {
	return w.kind != nil && a.name != "chat" && w.dialect != providertest.Anthropic
}

// A client that leaves in the middle of a stream leaves nothing behind.
func TestCancel(t *testing.T) {
	for where, x := range all() {
		t.Run(where, func(t *testing.T) {
			a, w := x.api, x.way
			p := w.open(t)
			p.fake.Script(providertest.Answer{Text: "one two three four five six", Frames: providertest.Frames{StallAt: 5}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := a.make(p).stream(ctx, hello(), cancel)
			require.ErrorIs(t, err, context.Canceled)
			assert.Eventually(t, func() bool { now, _ := p.fake.InFlight(); return now == 0 }, patience, 10*time.Millisecond)
		})
	}
}
