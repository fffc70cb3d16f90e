package providers

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Anthropic is Anthropic's API, and every service that has the same. A Provider's URL is
// what comes before "/v1/messages"; "" is Anthropic's own.
type Anthropic struct {
	// Bearer sends the credential as Authorization: Bearer. Else it is an x-api-key.
	Bearer bool
}

const (
	anthropicURL = "https://api.anthropic.com"
	// anthropicVersion is sent where the client says none: the only one since 2023.
	anthropicVersion = "2023-06-01"
	versionHeader    = "Anthropic-Version"
)

// String returns "Anthropic".
func (Anthropic) String() string { return "Anthropic" }

// ListName implements Listed.
func (Anthropic) ListName(p *Provider) string {
	if p.URL == anthropicURL {
		return "anthropic"
	}
	return ""
}

// Check implements Kind.
func (Anthropic) Check(p *Provider) error {
	if p.URL == "" {
		p.URL = anthropicURL
	}
	p.URL = strings.TrimSuffix(strings.TrimRight(p.URL, "/"), "/v1")
	if isOwn(p.URL, anthropicURL) {
		p.URL = anthropicURL
	}
	return nil
}

// APIs implements Kind.
func (Anthropic) APIs(*Provider) []prompt.API { return []prompt.API{prompt.Messages} }

// Codec implements Kind.
func (Anthropic) Codec() (dialect.Service, prompt.API) { return dialect.Messages(), prompt.Messages }

// Endpoint implements Kind.
func (Anthropic) Endpoint(base *url.URL, t *Target) (*url.URL, error) {
	return join(base, "/v1"+t.rest()), nil
}

// Authorize implements Kind.
func (a Anthropic) Authorize(_ context.Context, r *http.Request, _ []byte, c Credential) error {
	if r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, anthropicVersion)
	}
	switch {
	case a.Bearer:
		bearer(r, c)
	case c != (Credential{}):
		r.Header.Set("X-Api-Key", c.Reveal())
	default:
	}
	return nil
}

// Failure implements Kind.
func (Anthropic) Failure(status int, h http.Header, body []byte) *dialect.Failure {
	return dialect.Messages().DecodeFailure(status, h, body)
}

// Quota implements Kind.
func (Anthropic) Quota(h http.Header, now time.Time, q *Quota) { readAnthropic(h, now, q) }
