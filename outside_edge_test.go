package kvsteer_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// What answers take at a provider is learned: the time to the first token, and the pace.
func TestProvidersAreMeasured(t *testing.T) {
	t.Parallel()
	const answers = 30
	o := newOutsiders(t)
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	for range answers {
		o.bedrock.Script(providertest.Answer{Text: strings.Repeat("word ", 20)})
		status, text := r.ask(testModel, true)
		require.Equal(t, http.StatusOK, status, text)
	}
	r.observed.nextOutcome(t, answers-1)
	x := o.set.Offers(testModel)[0].Expect(10, 20)
	require.Equal(t, answers, x.Observations)
	require.NotEqual(t, 20*time.Millisecond, x.ITL, "the prior")
}

// A body that is wrong is the client's mistake, not the provider's.
func TestWrongBodiesAreTheClients(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) { p[0].Kind, p[1].Kind = providers.Anthropic{}, providers.Anthropic{} })
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	a := r.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"wizard","content":"hi"}]}`)
	require.Equal(t, http.StatusBadRequest, a.status, a.body)
	require.Empty(t, o.bedrock.Requests())
}

// What can't be translated uses up no attempt, however many can't.
func TestUnsupportedIsNoAttempt(t *testing.T) {
	t.Parallel()
	last := providertest.New(t, providertest.OpenAI, providertest.Options{})
	var list []providers.Provider
	order := make([]string, 5)
	for i := range order {
		order[i] = fmt.Sprint("a", i)
		p := providers.Provider{
			Name: order[i], Kind: providers.Anthropic{}, URL: "http://127.0.0.1:1", Models: []providers.Model{{Name: testModel}},
		}
		if i == len(order)-1 {
			p.Kind, p.URL = providers.OpenAI{}, last.URL()
		}
		list = append(list, p)
	}
	set, err := providers.New(list, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	text := strings.Replace(burstPolicy, "bedrock, databricks", strings.Join(order, ", "), 1)
	r := burstRig(t, &outsiders{set: set}, kvsteer.WithPolicy(load(t, text)))
	free := r.busy(3)
	defer free()
	a := r.post("/v1/chat/completions", `{"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Len(t, last.Requests(), 1)
}

// How the gateway stands with its providers is for its operator.
func TestClientsAreNotToldOfAccounts(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	r := burstRig(t, o)
	free := r.busy(3)
	defer free()
	o.bedrock.Script(providertest.Answer{Fault: providertest.BadKey})
	o.databricks.Script(providertest.Answer{Fault: providertest.QuotaExhausted})
	for range 4 {
		_, text := r.ask(testModel, false)
		for _, secret := range []string{"bedrock", "databricks", "credential", "quota", "key-"} {
			require.NotContains(t, text, secret)
		}
	}
	_, err := r.router.Select(t.Context(), chatRequest("x", false))
	require.Equal(t, kvsteer.CodeNoCandidates, kvsteer.CodeOf(err))
	require.ErrorContains(t, err, "bedrock", "the operator is")
}

// A pool's requests stay with its workers, and with providers that are said to be of it.
func TestPoolsHaveProviders(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) { p[1].Labels = map[string]string{"pool": "eu"} })
	r := burstRig(t, o, kvsteer.WithPolicy(load(t, strings.Replace(burstPolicy, "      - {type: Local, minimize: PredictedTTFT}\n", "", 1))))
	req := chatRequest("x", false)
	req.Pool = "eu"
	sel, err := r.router.Select(t.Context(), req)
	require.NoError(t, err)
	defer sel.Abort(nil)
	require.Equal(t, "databricks", sel.Target().Provider)
	require.Len(t, sel.Decision().Candidates, 1)
}

// Models that the policy sends to no provider are not listed.
func TestModelsThatNoPolicyReaches(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	never := strings.Replace(burstPolicy, "      select:\n", "      - {name: never, drop: {backend: {type: Provider, name: databricks}}}\n      select:\n", 1)
	r := burstRig(t, o, kvsteer.WithPolicy(load(t, never)))
	require.NotContains(t, r.get("/v1/models").body, "only-outside")
	require.Contains(t, r.get("/v1/models").body, testModel)
}
