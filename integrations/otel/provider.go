package kvsteerotel

import (
	"strings"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// providerUnknown is gen_ai.provider.name of a worker whose engine is not known.
const providerUnknown = "kvsteer"

// byKind are the conventions' names for kinds of providers.
//
//nolint:gochecknoglobals // a table that nothing changes
var byKind = map[string]string{
	"OpenAI": "openai", "Anthropic": "anthropic", "AzureOpenAI": "azure.ai.openai", "Bedrock": "aws.bedrock", "Gemini": "gcp.gemini",
}

// byHost are those for services that speak OpenAI's dialect, by the end of their hosts.
//
//nolint:gochecknoglobals // a table that nothing changes
var byHost = []struct{ suffix, name string }{
	{"deepseek.com", "deepseek"},
	{"googleapis.com", "gcp.gemini"},
	{"groq.com", "groq"},
	{"mistral.ai", "mistral_ai"},
	{"perplexity.ai", "perplexity"},
	{"x.ai", "x_ai"},
}

// provider is gen_ai.provider.name: the engine of a worker, or which service an external
// one is, as far as the conventions have a name for it.
func (t *Tracer) provider(o *kvsteer.Outcome) string {
	if o.Served.Provider != "" {
		return service(&o.Served)
	}
	if w := o.Decision.Winner(); w != nil && w.Type == policy.Provider {
		return w.Name
	}
	if t.fleet != nil && o.Served.Worker != "" {
		if m := t.fleet.Snapshot().Member(o.Served.Worker); m != nil && m.Engine() != "" {
			return string(m.Engine())
		}
	}
	return providerUnknown
}

func service(at *kvsteer.Target) string {
	name, known := byKind[at.ProviderKind]
	if !known {
		return clip(at.Provider) // of a kind that is none of ours
	}
	if at.ProviderKind != "OpenAI" || at.URL == nil {
		return name
	}
	host := strings.ToLower(at.URL.Hostname())
	for _, h := range byHost {
		if host == h.suffix || strings.HasSuffix(host, "."+h.suffix) {
			return h.name
		}
	}
	return name
}
