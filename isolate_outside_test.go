package kvsteer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// outsideFirst asks workers after one provider.
const outsideFirst = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: outside first}
spec:
  rules:
  - name: any
    route:
      select:
      - {type: Provider, order: [bedrock]}
      - {type: Local, minimize: PredictedTTFT}
`

// A salt is for workers: services outside refuse fields that they don't know, and are not
// to hear of tenants. They get what the client sent, but for the model's name.
func TestSaltsStayInside(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user", "content":"hello there"}]`
	for name, c := range map[string]struct {
		path, body, want string
		salted           bool
	}{
		"none of the client's": {"/v1/chat/completions", `{"model":"m" , ` + messages + ` }`, `{"model":"up-b" , ` + messages + ` }`, true},
		"one of the client's": {
			"/v1/chat/completions", `{"cache_salt":"theirs", "model":"m", ` + messages + `,"cache_salt":"again"}`, `{"model":"up-b", ` + messages + `}`, true,
		},
		"a stream": {
			"/v1/chat/completions", `{"model":"m","stream":true,` + messages + `}`,
			`{"model":"up-b","stream":true,` + messages + `,"stream_options":{"include_usage":true}}`, true,
		},
		"without a Salter": {"/v1/chat/completions", `{"model":"m","cache_salt":"theirs",` + messages + `}`, `{"model":"up-b","cache_salt":"theirs",` + messages + `}`, false},
		"no prompt":        {"/v1/rerank", `{"model":"only-outside", "query":"q","documents":["d"] }`, `{"model":"only-outside", "query":"q","documents":["d"] }`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutsiders(t)
			tenants := kvsteer.TenancyOptions{Identify: testIdentities()}
			if c.salted {
				tenants.Salter = testSalter(t)
			}
			r := burstRig(t, o, kvsteer.WithTenancy(tenants))
			free := r.busy(3)
			defer free()
			r.as("a", c.path, c.body)
			sent := append(o.bedrock.Requests(), o.databricks.Requests()...)
			require.Len(t, sent, 1)
			require.Equal(t, c.want, string(sent[0].Body))
		})
	}
}

// Who is asked after a provider has failed is another's tenant again.
func TestSaltsComeBack(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	var at seen
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithPolicy(load(t, outsideFirst)), kvsteer.WithProviders(o.set),
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), Salter: testSalter(t)}),
	}}, worker{serve: prompts(at.serve(whole))})
	o.bedrock.Script(providertest.Answer{Fault: providertest.Overloaded})
	require.Equal(t, http.StatusOK, r.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
	require.NotContains(t, string(o.bedrock.Requests()[0].Body), "cache_salt")
	sent, _ := at.last(t)
	require.Contains(t, sent, `"cache_salt":"`)
}
