//go:build e2e

package sdk

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	// asked is what clients call the model.
	asked = "house-model"
	// key is the services', which clients behind a gateway don't have.
	key = "upstream-key"
	// patience is for what happens soon.
	patience = 30 * time.Second
)

// outside is a policy that uses providers only.
const outside = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: outside}
spec:
  rules:
  - name: outside
    route:
      select: [{type: Provider, minimize: PredictedTTFT}]
`

// way is how a client reaches a fake.
type way struct {
	name    string
	dialect providertest.Dialect
	// kind is the gateway's for the fake; nil: there is no gateway.
	kind providers.Kind
	// apis are those that the fake is said to take; nil: the kind's.
	apis []prompt.API
	// model is the service's name for the model; "": one that takes most of what there is.
	model string
}

// upstream is what the service calls the model.
func (w *way) upstream() string {
	switch {
	case w.model != "":
		return w.model
	case w.dialect == providertest.Anthropic:
		return "claude-sonnet-4-5"
	case w.dialect == providertest.Gemini:
		return "gemini-2.5-flash"
	default:
		return "gpt-4.1"
	}
}

// adaptive reports whether the service's model decides itself how much it thinks: those of
// Anthropic's since 4.6, of which here all have another name than the usual one.
func (w *way) adaptive() bool { return w.dialect == providertest.Anthropic && w.model != "" }

// place is a way that is set up.
type place struct {
	fake *providertest.Server
	// url is the base for Anthropic's SDK, v1 for OpenAI's; key and model are the client's.
	url, v1, key, model string
	// adaptive: who wants thinking asks for it as newer models of Anthropic's have it.
	adaptive bool
	client   *http.Client
}

func (w *way) open(t *testing.T) *place {
	t.Helper()
	p := &place{fake: providertest.New(t, w.dialect, providertest.Options{Key: key}), key: key, model: w.upstream(), adaptive: w.adaptive()}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p.client = &http.Client{Transport: transport}
	p.url, p.v1 = p.fake.BaseURL(), p.fake.BaseURL()
	if w.kind != nil {
		p.key, p.model = "client-key", asked
		p.url = w.gateway(t, p.fake)
		p.v1 = p.url + "/v1"
	}
	return p
}

// gateway puts a router in front of the fake, and returns where it listens.
func (w *way) gateway(t *testing.T, fake *providertest.Server) string {
	t.Helper()
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, workers.Close()) })
	set, err := providers.New([]providers.Provider{{
		Name: "service", Kind: w.kind, URL: fake.BaseURL(), Credentials: providers.Static(key), APIs: w.apis,
		Models: []providers.Model{{Name: asked, Upstream: w.upstream()}},
	}}, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	rules, err := policy.Load("outside.yaml", []byte(outside), policy.Options{})
	require.NoError(t, err)
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithProviders(set), kvsteer.WithPolicy(rules))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, router.Close()) })
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {},
		Transport:    kvsteer.NewTransport(router, kvsteer.TransportOptions{Base: base}),
		ErrorHandler: kvsteer.WriteError,
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}
