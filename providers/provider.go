package providers

import (
	"net/http"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// Provider is an external service and an account there. It is plain data: a Set keeps
// none of the maps and slices, but for those of a Kind.
type Provider struct {
	// Name is unique among providers; it stands in policies, decisions and metrics. Letters,
	// digits, '.', '_' and '-', at most 63.
	Name string
	Kind Kind
	// URL is the service's base URL; "" is that of the kind. What a kind makes of it is
	// written there.
	URL string
	// Credentials are asked for each request. Nil: none is sent, or, of a kind that has
	// credentials of its own, those.
	Credentials CredentialSource
	// Models are those that are used; none is assumed.
	Models []Model
	// Labels are for policies: "region" among them.
	Labels map[string]string
	// Header is set on every request, after what clients send: an organisation, a beta.
	Header http.Header
	// APIs are those that the service takes natively; nil: what the kind does. Requests in
	// another API are translated.
	APIs []prompt.API
	// MaxConcurrent bounds the requests of a model that are under way at once; 0: learned
	// from how the service answers, see the package's documentation in docs/providers.md.
	MaxConcurrent int
	// KeepModel leaves the service's name for the model in its answers. Else they have the
	// name that the client asked for.
	KeepModel bool
	// Paths are paths whose state lives there, "/v1/files": they and all below are the
	// provider's. Two providers can't have one.
	Paths []string
}

// Model is a model at a provider.
type Model struct {
	// Name is what clients and policies call it; unique within the provider.
	Name string
	// Upstream is the provider's name for it; "" is Name. A deployment, an ARN.
	Upstream string
	// ContextWindow is what prompt and answer may have together, MaxOutput what the answer
	// may, in tokens. 0: what the price list says, else unknown, and then not checked.
	ContextWindow, MaxOutput int
	Capabilities             Capabilities
	// APIs are those that the model takes, of the provider's: an embedding model takes
	// Embeddings only. Nil: all but Embeddings, which only models take that say so.
	APIs []prompt.API
	// Labels are added to the provider's, and count more.
	Labels map[string]string
	// Prices are of this model here; nil: what Options.Prices says of Upstream.
	Prices *price.Prices
	// Prior is what is expected before anything was measured.
	Prior Prior
}

// Support says whether a model can do something.
type Support uint8

// What is known of it. Requests are kept from a model only if it surely can't.
const (
	SupportUnknown Support = iota
	SupportYes
	SupportNo
)

// Capabilities are what a model can do. What is unknown is looked up in the price list.
type Capabilities struct {
	Images, Documents, Audio, Tools, JSONSchema, Reasoning Support
}
