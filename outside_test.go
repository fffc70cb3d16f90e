package kvsteer_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// burstPolicy uses providers when more than two prompts wait at each worker.
const burstPolicy = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: burst}
spec:
  rules:
  - name: burst
    route:
      exclude:
      - name: overloaded
        drop: {backend: {type: Local}, queuedPrompts: {greaterThan: 2}}
      select:
      - {type: Local, minimize: PredictedTTFT}
      - {type: Provider, order: [bedrock, databricks]}
`

// outsiders are two providers that are really fakes of an OpenAI-compatible service.
type outsiders struct {
	bedrock, databricks *providertest.Server
	set                 *providers.Set
}

func newOutsiders(t *testing.T, change ...func(p []providers.Provider)) *outsiders {
	t.Helper()
	o := &outsiders{
		bedrock:    providertest.New(t, providertest.OpenAI, providertest.Options{Key: "key-b"}),
		databricks: providertest.New(t, providertest.OpenAI, providertest.Options{Key: "key-d"}),
	}
	list := []providers.Provider{
		{
			Name: "bedrock", Kind: providers.OpenAI{}, URL: o.bedrock.URL(), Credentials: providers.Static("key-b"),
			Models: []providers.Model{{Name: testModel, Upstream: "up-b", Prices: &price.Prices{Input: 3_000_000, Output: 15_000_000}}},
		},
		{
			Name: "databricks", Kind: providers.OpenAI{}, URL: o.databricks.URL(), Credentials: providers.Static("key-d"),
			Models: []providers.Model{{Name: testModel, Upstream: "up-d"}, {Name: "only-outside", ContextWindow: 1000}},
		},
	}
	for _, c := range change {
		c(list)
	}
	var err error
	o.set, err = providers.New(list, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.set.Close()) })
	return o
}

// idle requires that nothing is booked at providers.
func (o *outsiders) idle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, offer := range o.set.All() {
			if offer.Standing(time.Now()).InFlight != 0 {
				return false
			}
		}
		return true
	}, wait, time.Millisecond)
}

func burstRig(t *testing.T, o *outsiders, more ...kvsteer.Option) *rig {
	t.Helper()
	opts := append([]kvsteer.Option{kvsteer.WithPolicy(load(t, burstPolicy)), kvsteer.WithProviders(o.set)}, more...)
	return newScripted(t, rigConfig{options: opts}, worker{serve: prompts(whole)})
}

// busy books so many requests on workers, and returns what lets them go.
func (r *rig) busy(n int) (free func()) {
	r.t.Helper()
	var held []*kvsteer.Selection
	for range n {
		sel, err := r.router.Select(r.t.Context(), chatRequest("x", true))
		require.NoError(r.t, err)
		require.Empty(r.t, sel.Target().Provider)
		held = append(held, sel)
	}
	return func() {
		for _, sel := range held {
			sel.Abort(nil)
		}
	}
}

func (r *rig) ask(model string, stream bool) (int, string) {
	r.t.Helper()
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"hello there"}]}`
	if stream {
		body = `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"hello there"}]}`
	}
	resp, err := http.Post(r.gateway.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(text)
}

// With local queues above two the first provider gets the request, the second when the
// first cools down, and workers when the queues have drained.
func TestBurst(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	served := func() (string, string) {
		t.Helper()
		before := r.observed.outcomeCount()
		status, text := r.ask(testModel, false)
		require.Equal(t, http.StatusOK, status, text)
		return r.observed.nextOutcome(t, before).Served.Worker, text
	}
	who, _ := served()
	require.Equal(t, "s0", who)

	free := r.busy(3)
	who, text := served()
	require.Equal(t, "bedrock", who)
	require.Contains(t, text, `"model":"`+testModel+`"`, "the name that the client has for it")
	require.Equal(t, "up-b", o.bedrock.Requests()[0].Model)

	o.bedrock.Script(providertest.Answer{Fault: providertest.RateLimited, RetryAfter: time.Minute})
	who, _ = served()
	require.Equal(t, "databricks", who, "the attempt goes on there")
	asked := len(o.bedrock.Requests())
	who, _ = served()
	require.Equal(t, "databricks", who)
	require.Len(t, o.bedrock.Requests(), asked, "it is left alone while it cools down")
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	require.Equal(t, "bedrock", d.Unready[0].Name)
	require.Positive(t, d.Unready[0].RetryAfter)
	require.Contains(t, d.String(), "bedrock as \"m\": not now: ")

	free()
	who, _ = served()
	require.Equal(t, "s0", who)
	o.idle(t)
}

// The published policy, with the names of its providers.
func TestThePublishedBurst(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../shared/policies/burst-policy.yaml")
	if err != nil {
		t.Skip("the published policies are not here")
	}
	set, err := policy.Load("burst-policy.yaml", text, policy.Options{})
	require.NoError(t, err)
	o := newOutsiders(t)
	r := burstRig(t, o, kvsteer.WithPolicy(set))
	r.ask(testModel, false)
	require.Equal(t, "s0", r.observed.nextOutcome(t, 0).Served.Worker)
	free := r.busy(3)
	defer free()
	r.ask(testModel, false)
	require.Equal(t, "bedrock", r.observed.nextOutcome(t, 1).Served.Worker)
}

// What must stay goes nowhere else, on no attempt, and says whether it is unknown.
func TestPrivateRequestsStay(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	private := strings.Replace(burstPolicy, "      select:\n", "      - {name: private, if: {tag: private}, drop: {backend: {type: Provider}}}\n      select:\n", 1)
	r := burstRig(t, o, kvsteer.WithTags("private"), kvsteer.WithPolicy(load(t, private)))
	free := r.busy(3)
	defer free()
	for _, state := range []policy.TagState{policy.TagPresent, policy.TagUnknown} {
		req := chatRequest("x", false)
		req.Tags = []policy.Tag{{Name: "private", State: state}}
		_, err := r.router.Select(t.Context(), req)
		require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err), state.String())
	}
	require.Empty(t, o.bedrock.Requests())
	require.Empty(t, o.databricks.Requests())
}

// Without a policy that says so nothing goes to a provider, and nothing is listed.
func TestProvidersAreNotUsedByDefault(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithProviders(o.set)}}, worker{serve: prompts(whole)})
	status, text := r.ask("only-outside", false)
	require.Equal(t, http.StatusForbidden, status, text)
	require.NotContains(t, r.get("/v1/models").body, "only-outside")
}

// Models of workers, of providers, and what the policy calls them.
func TestModelsOfProviders(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	both := burstPolicy + `  - name: alias
    matches: [{model: clever}]
    route:
      consider: [{models: {names: [only-outside]}}]
`
	both = strings.Replace(both, "  - name: burst\n", "  - name: burst\n    matches: [{model: m}, {model: only-outside}]\n", 1)
	r := burstRig(t, o, kvsteer.WithPolicy(load(t, both)))
	var list struct {
		Data []struct {
			ID  string `json:"id"`
			Max int    `json:"max_model_len"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.get("/v1/models").body), &list))
	require.Len(t, list.Data, 3)
	require.Equal(t, []string{testModel, "only-outside", "clever"}, []string{list.Data[0].ID, list.Data[1].ID, list.Data[2].ID})
	require.Equal(t, 1000, list.Data[1].Max)
	require.Contains(t, r.get("/v1/models/only-outside").body, `"id":"only-outside"`)

	status, text := r.ask("clever", false)
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `"model":"clever"`)
	require.Equal(t, "only-outside", o.databricks.Requests()[0].Model)
	status, text = r.ask("no-such", false)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, text, "only-outside")
}

// A context window that is too narrow is known before anything is sent.
func TestPromptsThatExceedAProvider(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	_, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Model: "only-outside", TokenIDs: make([]uint32, 1001)})
	require.Equal(t, kvsteer.CodeBadRequest, kvsteer.CodeOf(err), "it never can: nothing to try again")
	require.ErrorContains(t, err, "context window")
}

// Who may use which provider is the identity's to say.
func TestWhoMayUseProviders(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	for _, c := range []struct {
		may  []string
		want string
	}{{nil, "bedrock"}, {[]string{"databricks"}, "databricks"}, {[]string{}, ""}} {
		req := chatRequest("x", false)
		req.Identity = &tenancy.Identity{Tenant: "t", Providers: c.may}
		sel, err := r.router.Select(t.Context(), req)
		if c.want == "" {
			require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, sel.Target().Provider)
		require.NotNil(t, sel.Target().Via)
		sel.Abort(nil)
	}
	req := chatRequest("x", false)
	req.WorkersOnly = true
	_, err := r.router.Select(t.Context(), req)
	require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(err), "whoever sends it can't speak to providers")
}

// A client of one API is served by a provider of another, streamed, and is told what was
// left out; what it used is known as ever.
func TestTranslatedOnTheWay(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	o.bedrock.Script(providertest.Answer{Text: "Hello to you", Usage: providertest.Usage{Input: 12, CacheRead: 4, Output: 3}})
	body := `{"model":"m","max_tokens":50,"stream":true,"top_k":5,"system":"be brief","messages":[{"role":"user","content":"hi"}]}`
	resp, err := http.Post(r.gateway.URL+"/v1/messages", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	text := rest(resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	require.Contains(t, text, "event: message_start")
	require.Contains(t, text, "event: message_stop")
	require.Contains(t, text, `"model":"m"`)
	require.NotContains(t, text, "[DONE]")
	sent := o.bedrock.Requests()[0]
	require.Equal(t, "/v1/chat/completions", sent.Path)
	require.Equal(t, "Bearer key-b", sent.Header.Get("Authorization"))
	out := r.observed.nextOutcome(t, 0)
	require.NoError(t, out.Err)
	require.Equal(t, kvsteer.Usage{Uncached: 8, CacheRead: 4, Output: 3, Known: true, CachedKnown: true}, out.Usage)
	require.Positive(t, out.TTFT)
	require.Contains(t, strings.Join(out.Decision.Degradations, "\n"), "not carried over: top_k")
	o.idle(t)
}

// What no provider can be asked in its API is the client's to change.
func TestUntranslatable(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) { p[0].Kind, p[1].Kind = providers.Anthropic{}, providers.Anthropic{} })
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	resp, err := http.Post(r.gateway.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","n":3,"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	text := rest(resp)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, text)
	require.Contains(t, text, "n can't be carried over")
	require.Empty(t, o.bedrock.Requests())
	o.idle(t)
}

// How long a prompt is where nobody who would serve it can say: the router does.
func TestCountsForProviders(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	ask := func(body string) (status int, header http.Header, text string) {
		resp, err := http.Post(r.gateway.URL+"/v1/messages/count_tokens", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		return resp.StatusCode, resp.Header, rest(resp)
	}
	status, header, text := ask(`{"model":"only-outside","messages":[{"role":"user","content":"how long is this?"}]}`)
	require.Equal(t, http.StatusOK, status, text)
	var n struct {
		Tokens int `json:"input_tokens"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &n))
	require.InDelta(t, 7, n.Tokens, 3)
	require.Equal(t, "bytes", header.Get(kvsteer.HeaderTokenSource))
	status, _, text = ask(`{"model":"only-outside","messages":[{"role":"user","content":[{"type":"nonsense"}]}]}`)
	require.Equal(t, http.StatusBadRequest, status, text)
	require.Empty(t, o.databricks.Requests())
	o.idle(t)
}

// Who serves Anthropic's API counts for itself.
func TestProvidersCount(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	service := providertest.New(t, providertest.Anthropic, providertest.Options{Key: "key-d"})
	require.NoError(t, o.set.Update([]providers.Provider{{
		Name: "databricks", Kind: providers.Anthropic{}, URL: service.URL(), Credentials: providers.Static("key-d"),
		Models: []providers.Model{{Name: "only-outside"}},
	}}))
	r := burstRig(t, o)
	resp, err := http.Post(r.gateway.URL+"/v1/messages/count_tokens", "application/json",
		strings.NewReader(`{"model":"only-outside","messages":[{"role":"user","content":"one two three"}]}`))
	require.NoError(t, err)
	text := rest(resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	require.Contains(t, text, `"input_tokens":3`)
	require.Equal(t, "/v1/messages/count_tokens", service.Last().Path)
	require.Empty(t, resp.Header.Get(kvsteer.HeaderTokenSource))
}
