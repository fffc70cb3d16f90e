package kvsteerotel_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
	"github.com/kvsteer/kvsteer/providers"
)

func TestServicesHaveTheConventionsNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      interface{ String() string }
		url, want string
	}{
		{providers.OpenAI{}, "https://api.openai.com", "openai"},
		{providers.OpenAI{}, "https://llm.example.com/v1", "openai"},
		{providers.OpenAI{}, "https://API.deepseek.com", "deepseek"},
		{providers.OpenAI{}, "https://api.groq.com/openai/v1", "groq"},
		{providers.OpenAI{}, "https://api.x.ai", "x_ai"},
		{providers.OpenAI{}, "https://max.ai", "openai"},
		{providers.OpenAI{}, "https://api.mistral.ai", "mistral_ai"},
		{providers.Anthropic{}, "https://api.anthropic.com", "anthropic"},
		{providers.AzureOpenAI{}, "https://x.openai.azure.com", "azure.ai.openai"},
		{providers.Gemini{}, "https://generativelanguage.googleapis.com", "gcp.gemini"},
		{bedrock("Bedrock"), "https://bedrock-runtime.eu-west-1.amazonaws.com", "aws.bedrock"},
	} {
		at, err := url.Parse(c.url)
		require.NoError(t, err)
		require.Equal(t, c.want, kvsteerotel.Service(&kvsteer.Target{Provider: "mine", ProviderKind: c.kind.String(), URL: at}), c.url)
	}
	require.Equal(t, "mine", kvsteerotel.Service(&kvsteer.Target{Provider: "mine", ProviderKind: "Homegrown"}))
}

// bedrock stands for a kind that is in a module of its own.
type bedrock string

func (b bedrock) String() string { return string(b) }
