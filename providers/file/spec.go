package file

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// spec is a provider as it is written.
type spec struct {
	kind, url, region string
	options           map[string]string
	credentials       *credentials
	labels, header    map[string]string
	apis, paths       []string
	maxConcurrent     int
	keepModel         bool
	models            []providers.Model
}

type credentials struct{ file, name, key string }

func credentialFields() []field[credentials] {
	return []field[credentials]{
		textField("file", "", "Path of a file that holds the API key or token and nothing else; from the manifest's directory, "+
			"if it is relative.", func(c *credentials) *string { return &c.file }),
		textField("name", "", "Name of a Kubernetes Secret, where the program can read those.", func(c *credentials) *string { return &c.name }),
		textField("key", "", "The key in that Secret.", func(c *credentials) *string { return &c.key }),
	}
}

func specFields() []field[spec] {
	return []field[spec]{
		textField("kind", "Kind", "The kind of service: OpenAI (and all that have its API), Anthropic, AzureOpenAI, Gemini, "+
			"or one that the program knows. Default OpenAI.", func(s *spec) *string { return &s.kind }),
		mapField("options", "Kind", "What the kind must know besides. AzureOpenAI: apiVersion, entra. Anthropic: bearer. "+
			"OpenAI: maxTokensField (max_tokens or max_completion_tokens).",
			func(s *spec) *map[string]string { return &s.options }),
		textField("url", "URL", "Base address of the service. Default: the kind's own.", func(s *spec) *string { return &s.url }),
		{
			name: "credentials", of: "Credentials", doc: "Where its API key is. Default: none is sent.",
			schema: func() node { return objectSchema(credentialFields()) },
			read: func(p *parser, n *yaml.Node, what string, into *spec) {
				p.Discreet = true // somebody may have written the key itself
				into.credentials = &credentials{}
				object(p, n, what, "", credentialFields(), into.credentials)
				p.Discreet = false
			},
		},
		textField("region", "Labels", "Where it computes; policies can exclude by it. It is the label region.",
			func(s *spec) *string { return &s.region }),
		mapField("labels", "Labels", "Labels for policies to select by.", func(s *spec) *map[string]string { return &s.labels }),
		discreet(mapField("header", "Header", "Headers that are set on every request. Secrets don't belong here.",
			func(s *spec) *map[string]string { return &s.header })),
		apisField("apis", "APIs", "APIs that the service takes natively; requests in others are translated. Default: those of the kind.",
			func(s *spec) *[]string { return &s.apis }),
		wholeField("maxConcurrent", "MaxConcurrent", "Bound of requests of each model at once. Default: learned.",
			func(s *spec) *int { return &s.maxConcurrent }),
		boolField("keepModel", "KeepModel", "Answers keep the service's name of the model. Default: the name that the client asked for.",
			func(s *spec) *bool { return &s.keepModel }),
		listField("paths", "Paths", "Paths whose state lives there, such as /v1/files.", func(s *spec) *[]string { return &s.paths }),
		{
			name: "models", of: "Models", doc: "Models that it serves: names, or mappings.",
			schema: func() node {
				return node{"type": "array", "minItems": 1, "items": node{"anyOf": []any{node{"type": "string"}, objectSchema(modelFields(""))}}}
			},
			read: readModels,
		},
	}
}

// discreet is a field whose values may be secrets.
func discreet(f field[spec]) field[spec] {
	read := f.read
	f.read = func(p *parser, n *yaml.Node, what string, into *spec) {
		p.Discreet = true
		read(p, n, what, into)
		p.Discreet = false
	}
	return f
}

func readModels(p *parser, n *yaml.Node, what string, into *spec) {
	for i, item := range p.list(n, what) {
		at, ok := p.Resolve(item)
		if !ok || len(p.errs) >= maxErrors {
			return
		}
		var m model
		of := index("Models", i) + "."
		p.places[index("Models", i)] = at
		if at.Kind == yaml.ScalarNode {
			p.places[of+"Name"] = at
			p.Text(at, "an entry of models", &m.Name)
		} else {
			object(p, at, "an entry of models", of, modelFields(of), &m)
		}
		m.APIs = apisOf(m.apis)
		if m.prices.given {
			m.Prices = &m.prices.Prices
		}
		into.models = append(into.models, m.Model)
	}
}

// model is one as it is written.
type model struct {
	providers.Model

	apis   []string
	prices prices
}

func modelFields(of string) []field[model] {
	name := textField("name", "Name", "Its name for clients and policies.", func(m *model) *string { return &m.Name })
	name.required = true
	return []field[model]{
		name,
		textField("upstreamName", "Upstream", "Its name for the provider, if that is another: a deployment, an ARN.",
			func(m *model) *string { return &m.Upstream }),
		wholeField("contextWindow", "ContextWindow", "Tokens that prompt and answer may have together.",
			func(m *model) *int { return &m.ContextWindow }),
		wholeField("maxOutput", "MaxOutput", "Tokens that an answer may have.", func(m *model) *int { return &m.MaxOutput }),
		{
			name: "supports", of: "Capabilities", doc: "What it can do; requests that need what is false are kept from it. Left out: not known.",
			schema: func() node { return objectSchema(capabilityFields()) },
			read: func(p *parser, n *yaml.Node, what string, into *model) {
				object(p, n, what, of, capabilityFields(), &into.Capabilities)
			},
		},
		apisField("apis", "APIs", "APIs that it serves. Default: all of the provider's but embeddings, which only models have that say so.",
			func(m *model) *[]string { return &m.apis }),
		mapField("labels", "Labels", "Labels for policies, beside the provider's.", func(m *model) *map[string]string { return &m.Labels }),
		{
			name: "prices", of: "Prices", doc: "What it costs, in the currency of all price lists, per million tokens.",
			schema: func() node { return objectSchema(priceFields()) },
			read: func(p *parser, n *yaml.Node, what string, into *model) {
				into.prices.given = true
				object(p, n, what, of, priceFields(), &into.prices)
			},
		},
		{
			name: "prior", of: "Prior", doc: "What is expected before anything was measured.",
			schema: func() node { return objectSchema(priorFields()) },
			read: func(p *parser, n *yaml.Node, what string, into *model) {
				object(p, n, what, of, priorFields(), &into.Prior)
			},
		},
	}
}

func capabilityFields() []field[providers.Capabilities] {
	support := func(name, doc string, part func(*providers.Capabilities) *providers.Support) field[providers.Capabilities] {
		return field[providers.Capabilities]{
			name: name, doc: doc,
			schema: func() node { return node{"type": "boolean"} },
			read: func(p *parser, n *yaml.Node, what string, into *providers.Capabilities) {
				var yes bool
				if !p.Boolean(n, "supports."+what, &yes) {
					return
				}
				*part(into) = providers.SupportNo
				if yes {
					*part(into) = providers.SupportYes
				}
			},
		}
	}
	return []field[providers.Capabilities]{
		support("images", "Images in prompts.", func(c *providers.Capabilities) *providers.Support { return &c.Images }),
		support("documents", "Documents in prompts.", func(c *providers.Capabilities) *providers.Support { return &c.Documents }),
		support("audio", "Audio in prompts.", func(c *providers.Capabilities) *providers.Support { return &c.Audio }),
		support("tools", "Calls of tools.", func(c *providers.Capabilities) *providers.Support { return &c.Tools }),
		support("jsonSchema", "Answers that keep to a JSON schema.", func(c *providers.Capabilities) *providers.Support { return &c.JSONSchema }),
		support("reasoning", "Reasoning that can be asked for.", func(c *providers.Capabilities) *providers.Support { return &c.Reasoning }),
	}
}

func priorFields() []field[providers.Prior] {
	return []field[providers.Prior]{
		durationField("timeToFirstToken", "", "Time to the first token of a short prompt. Default 700ms.",
			func(r *providers.Prior) *time.Duration { return &r.TTFT }),
		durationField("perThousandTokens", "", "What each thousand tokens of the prompt add to it. Default 60ms.",
			func(r *providers.Prior) *time.Duration { return &r.TTFTPerThousand }),
		durationField("betweenTokens", "", "Time from one token of the answer to the next. Default 20ms.",
			func(r *providers.Prior) *time.Duration { return &r.ITL }),
	}
}

type prices struct {
	price.Prices

	given bool
}

func priceFields() []field[prices] {
	amount := func(name, doc string, required bool, set func(*prices, int64)) field[prices] {
		return field[prices]{
			name: name, doc: doc, required: required,
			schema: func() node { return node{"type": "number", "minimum": 0} },
			read: func(p *parser, n *yaml.Node, what string, into *prices) {
				if v, ok := p.money(n, "prices."+what); ok {
					set(into, v)
				}
			},
		}
	}
	return []field[prices]{
		amount("input", "Tokens of prompts.", true, func(r *prices, v int64) { r.Input = v }),
		amount("output", "Tokens of answers.", true, func(r *prices, v int64) { r.Output = v }),
		amount("cacheRead", "Tokens of prompts that were found in a cache. Default: as input.", false,
			func(r *prices, v int64) { r.CacheRead = price.At(v) }),
		amount("cacheWrite", "Tokens of prompts that are written to one for a price. Default: as input.", false,
			func(r *prices, v int64) { r.CacheWrite = price.At(v) }),
		amount("reasoning", "Tokens of answers that are thought only. Default: as output.", false,
			func(r *prices, v int64) { r.Reasoning = price.At(v) }),
	}
}

const moneyDigits = 6

// money reads an amount of the currency exactly, in millionths.
func (p *parser) money(n *yaml.Node, what string) (int64, bool) {
	const want = "an amount with at most 6 digits after the point, such as 2.50"
	s, ok := p.Scalar(n, what, want)
	if !ok {
		return 0, false
	}
	v, ok := yamlnode.Decimal(s.Value, moneyDigits)
	if !ok || v > price.Max {
		p.fail(s, what+" must be "+want+", found "+yamlnode.KindOf(s))
		return 0, false
	}
	return v, true
}

// apis are the words for those that there are.
func apis() map[string]prompt.API {
	return map[string]prompt.API{
		"chat": prompt.Chat, "completions": prompt.Completions, "messages": prompt.Messages, "responses": prompt.Responses,
		"embeddings": prompt.Embeddings,
	}
}

func apiNames() []string {
	return []string{"chat", "completions", "messages", "responses", "embeddings"}
}

func apisField[T any](name, of, doc string, part func(*T) *[]string) field[T] {
	f := listField(name, of, doc, part)
	f.schema = func() node { return node{"type": "array", "items": node{"enum": apiNames()}, "minItems": 1} }
	f.read = func(p *parser, n *yaml.Node, what string, into *T) {
		for _, item := range p.list(n, what) {
			var s string
			switch {
			case !p.Text(item, "an entry of "+what, &s):
			case !slices.Contains(apiNames(), s):
				p.fail(item, yamlnode.Quote(s)+" is no API; "+yamlnode.Suggest(s, apiNames()))
			default:
				*part(into) = append(*part(into), s)
			}
		}
	}
	return f
}

func apisOf(names []string) []prompt.API {
	var out []prompt.API
	for _, n := range names {
		out = append(out, apis()[n])
	}
	return out
}

// provider makes of what is written what package providers takes.
func (p *parser) provider(name string, s *spec, at *yaml.Node) providers.Provider {
	out := providers.Provider{
		Name: name, URL: s.url, Models: s.models, Labels: s.labels, APIs: apisOf(s.apis), MaxConcurrent: s.maxConcurrent,
		KeepModel: s.keepModel, Paths: s.paths,
	}
	out.Kind = p.kindOf(s, at)
	for key, value := range s.header {
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set(key, value)
	}
	if s.region != "" {
		if other := s.labels["region"]; other != "" && other != s.region {
			p.fail(p.places["Labels"], "region and the label region are different; remove one")
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels["region"] = s.region
	}
	if s.credentials != nil {
		out.Credentials = p.source(s.credentials)
	}
	return out
}

func (p *parser) source(c *credentials) providers.CredentialSource {
	at := p.places["Credentials"]
	secret := c.name != "" || c.key != ""
	switch {
	case secret && c.file != "":
		p.fail(at, "credentials has both a file and a Secret; remove one")
	case secret && (c.name == "" || c.key == ""):
		p.fail(at, "credentials has half of a Secret; give name and key")
	case secret && p.opts.Secret == nil:
		p.fail(at, "a Secret can't be read here; mount it, and give its path as file")
	case secret:
		source, err := p.opts.Secret(c.name, c.key)
		if err != nil {
			p.fail(at, "the Secret can't be used: "+err.Error())
		}
		return source
	case c.file == "":
		p.fail(at, "credentials is empty; give the path of a file as file, or leave it out")
	default:
		path := filepath.FromSlash(c.file)
		if !filepath.IsAbs(path) && !strings.HasPrefix(c.file, "/") {
			path = filepath.Join(filepath.Dir(p.file), path)
		}
		return providers.File(path)
	}
	return nil
}
