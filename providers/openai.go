package providers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// OpenAI is OpenAI's API, and every service that has the same: Databricks, Together, vLLM
// elsewhere.
//
// A Provider's URL is what OpenAI's SDKs call the base URL, "https://api.together.xyz/v1";
// to one without a path "/v1" is added, and none at all is OpenAI's own. The APIs at hosts of
// OpenAI are chat, completions, responses and embeddings, elsewhere without responses. Credentials
// are sent as Authorization: Bearer.
type OpenAI struct {
	// MaxTokensField is the field in which requests that are translated say how long an
	// answer may be: "max_completion_tokens", which OpenAI's models that reason want, or
	// "max_tokens", which is all that many other services know, some of which refuse the
	// newer one. "" chooses: the newer for hosts of OpenAI and Azure OpenAI, and for models
	// named like OpenAI's that reason (o3, gpt-5); the older for all else. Requests that are
	// in the service's API already have what the client wrote.
	MaxTokensField string
}

const (
	oldMaxTokens = "max_tokens"
	newMaxTokens = "max_completion_tokens"
)

const (
	openAIURL   = "https://api.openai.com/v1"
	versionPath = "/v1/" // what clients' paths begin with
)

// String returns "OpenAI".
func (OpenAI) String() string { return "OpenAI" }

// ListName implements Listed: only OpenAI's own prices are known by it.
func (OpenAI) ListName(p *Provider) string {
	if p.URL == openAIURL {
		return "openai"
	}
	return ""
}

// Check implements Kind.
func (o OpenAI) Check(p *Provider) error {
	switch o.MaxTokensField {
	case "", oldMaxTokens, newMaxTokens:
	default:
		return errMaxTokensField
	}
	if p.URL == "" || isOwn(p.URL, openAIURL) {
		p.URL = openAIURL
	}
	if u, err := url.Parse(p.URL); err == nil && u.Host != "" && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1"
		p.URL = u.String()
	}
	return nil
}

// isOwn reports whether a URL is a service's own, however it is spelled.
func isOwn(given, own string) bool {
	u, err := url.Parse(given)
	want, _ := url.Parse(own)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != want.Scheme {
		return false
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	path := strings.TrimRight(u.Path, "/")
	return host == want.Host && (port == "" || port == "443") && (path == "" || path == want.Path)
}

// APIs implements Kind.
func (OpenAI) APIs(p *Provider) []prompt.API {
	if u, err := url.Parse(p.URL); err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), ".openai.com") {
		return []prompt.API{prompt.Chat, prompt.Completions, prompt.Responses, prompt.Embeddings}
	}
	return []prompt.API{prompt.Chat, prompt.Completions, prompt.Embeddings}
}

// Codec implements Kind.
func (OpenAI) Codec() (dialect.Service, prompt.API) { return dialect.Chat(), prompt.Chat }

// Endpoint implements Kind.
func (OpenAI) Endpoint(base *url.URL, t *Target) (*url.URL, error) {
	return join(base, t.rest()), nil
}

// Authorize implements Kind.
func (OpenAI) Authorize(_ context.Context, r *http.Request, _ []byte, c Credential) error {
	bearer(r, c)
	return nil
}

// Failure implements Kind.
func (OpenAI) Failure(status int, h http.Header, body []byte) *dialect.Failure {
	return dialect.Chat().DecodeFailure(status, h, body)
}

// Quota implements Kind.
func (OpenAI) Quota(h http.Header, now time.Time, q *Quota) { readOpenAI(h, now, q) }

var errMaxTokensField = errors.New(
	"MaxTokensField must be " + oldMaxTokens + " or " + newMaxTokens + "; leave it out to choose by host and model",
)

// oldMaxTokens reports whether a model there is told by max_tokens how long its answer may be.
func (o OpenAI) oldMaxTokens(base *url.URL, upstream string) bool {
	if o.MaxTokensField != "" {
		return o.MaxTokensField == oldMaxTokens
	}
	host := "." + strings.ToLower(base.Hostname())
	return !strings.HasSuffix(host, ".openai.com") && !strings.HasSuffix(host, ".openai.azure.com") && !dialect.NewOpenAI(upstream)
}

// Gemini is the OpenAI-compatible endpoint of Google's Gemini API: chat and embeddings. A
// Provider's URL is usually "": Google's own. Credentials are sent as Authorization: Bearer.
type Gemini struct{}

const geminiURL = "https://generativelanguage.googleapis.com/v1beta/openai"

// String returns "Gemini".
func (Gemini) String() string { return "Gemini" }

// ListName implements Listed.
func (Gemini) ListName(*Provider) string { return "gemini" }

// Check implements Kind.
func (Gemini) Check(p *Provider) error {
	if p.URL == "" {
		p.URL = geminiURL
	}
	return nil
}

// APIs implements Kind.
func (Gemini) APIs(*Provider) []prompt.API { return []prompt.API{prompt.Chat, prompt.Embeddings} }

// Codec implements Kind.
func (Gemini) Codec() (dialect.Service, prompt.API) { return OpenAI{}.Codec() }

// Endpoint implements Kind.
func (Gemini) Endpoint(base *url.URL, t *Target) (*url.URL, error) { return OpenAI{}.Endpoint(base, t) }

// Authorize implements Kind.
func (Gemini) Authorize(ctx context.Context, r *http.Request, body []byte, c Credential) error {
	return OpenAI{}.Authorize(ctx, r, body, c)
}

// Failure implements Kind.
func (Gemini) Failure(status int, h http.Header, body []byte) *dialect.Failure {
	return OpenAI{}.Failure(status, h, body)
}

// Quota implements Kind.
func (Gemini) Quota(h http.Header, now time.Time, q *Quota) { readOpenAI(h, now, q) }

// rest is the path below the version.
func (t *Target) rest() string {
	path := t.Path
	if t.API != 0 {
		path = t.API.Path()
	}
	return strings.TrimPrefix(path, "/v1")
}

// join returns a URL below base. rest is escaped.
func join(base *url.URL, rest string) *url.URL {
	u := *base
	escaped := strings.TrimRight(base.EscapedPath(), "/") + rest
	if plain, err := url.PathUnescape(escaped); err == nil {
		u.Path, u.RawPath = plain, escaped
	}
	return &u
}

// bearer puts a credential, if there is one, where most services look for it.
func bearer(r *http.Request, c Credential) {
	if c != (Credential{}) {
		r.Header.Set("Authorization", "Bearer "+c.Reveal())
	}
}
