package providers

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// OpenAI is OpenAI's API and every service that has the same: Databricks, Together, vLLM
// elsewhere. A Provider's URL is what OpenAI's SDKs call the base URL,
// "https://api.together.xyz/v1"; one without a path gets "/v1".
type OpenAI struct{ stub }

// Anthropic is Anthropic's API. A Provider's URL is what comes before "/v1/messages".
type Anthropic struct{ stub }

// AzureOpenAI is OpenAI's models at Azure. A Provider's URL is the resource's,
// "https://NAME.openai.azure.com"; a model's Upstream is its deployment.
type AzureOpenAI struct {
	stub
	// APIVersion chooses the older paths, /openai/deployments/NAME; "" is /openai/v1.
	APIVersion string
	// Entra sends the credential as a token of Entra ID (Authorization: Bearer), not as an api-key.
	Entra bool
}

// Gemini is the OpenAI-compatible endpoint of Google's Gemini API.
type Gemini struct{ stub }

// stub is what the kinds are until they are written.
type stub struct{}

func (stub) Check(*Provider) error                { return nil }
func (stub) APIs(*Provider) []prompt.API          { return nil }
func (stub) Codec() (dialect.Service, prompt.API) { return nil, 0 }
func (stub) Endpoint(base *url.URL, _ *Target) (*url.URL, error) {
	return base, nil
}
func (stub) Authorize(context.Context, *http.Request, []byte, Credential) error { return nil }
func (stub) Failure(int, http.Header, []byte) *dialect.Failure                  { return nil }
func (stub) Quota(http.Header, time.Time, *Quota)                               {}

// String returns "OpenAI".
func (OpenAI) String() string { return "OpenAI" }

// String returns "Anthropic".
func (Anthropic) String() string { return "Anthropic" }

// String returns "AzureOpenAI".
func (AzureOpenAI) String() string { return "AzureOpenAI" }

// String returns "Gemini".
func (Gemini) String() string { return "Gemini" }

var (
	_ Kind = OpenAI{}
	_ Kind = Anthropic{}
	_ Kind = AzureOpenAI{}
	_ Kind = Gemini{}
)
