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

// AzureOpenAI is OpenAI's models at Azure. A Provider's URL is the resource's,
// "https://NAME.openai.azure.com"; a model's Upstream is its deployment.
type AzureOpenAI struct {
	// APIVersion chooses the paths of deployments, "2024-10-21"; "" is the newer
	// /openai/v1, which has no versions.
	APIVersion string
	// Entra sends the credential as a token of Entra ID, Authorization: Bearer. Else it is
	// an api-key.
	Entra bool
}

// String returns "AzureOpenAI".
func (AzureOpenAI) String() string { return "AzureOpenAI" }

// ListName implements Listed.
func (AzureOpenAI) ListName(*Provider) string { return "azure" }

// Check implements Kind.
func (AzureOpenAI) Check(p *Provider) error {
	for _, tail := range []string{"/", "/v1", "/openai"} { // as it stands in some portals
		p.URL = strings.TrimSuffix(p.URL, tail)
	}
	return nil
}

// APIs implements Kind.
func (a AzureOpenAI) APIs(*Provider) []prompt.API {
	return []prompt.API{prompt.Chat, prompt.Completions, prompt.Responses, prompt.Embeddings}
}

// Codec implements Kind.
func (AzureOpenAI) Codec() (dialect.Service, prompt.API) { return OpenAI{}.Codec() }

// Endpoint implements Kind.
func (a AzureOpenAI) Endpoint(base *url.URL, t *Target) (*url.URL, error) {
	if a.APIVersion == "" {
		return join(base, "/openai/v1"+t.rest()), nil
	}
	var u *url.URL
	switch t.API {
	case prompt.Chat, prompt.Completions, prompt.Embeddings:
		u = join(base, "/openai/deployments/"+url.PathEscape(t.Upstream)+t.rest())
	case prompt.Messages, prompt.Responses, 0:
		u = join(base, "/openai"+t.rest())
	default:
		u = join(base, "/openai"+t.rest())
	}
	query := u.Query()
	query.Set("api-version", a.APIVersion)
	u.RawQuery = query.Encode()
	return u, nil
}

// Authorize implements Kind.
func (a AzureOpenAI) Authorize(_ context.Context, r *http.Request, _ []byte, c Credential) error {
	switch {
	case a.Entra:
		bearer(r, c)
	case c != (Credential{}):
		r.Header.Set("Api-Key", c.Reveal())
	default:
	}
	return nil
}

// Failure implements Kind.
func (AzureOpenAI) Failure(status int, h http.Header, body []byte) *dialect.Failure {
	return OpenAI{}.Failure(status, h, body)
}

// Quota implements Kind.
func (AzureOpenAI) Quota(h http.Header, now time.Time, q *Quota) { readOpenAI(h, now, q) }
