package kvsteer_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy"
)

// Whoever may not use all models can't name one in a form that only an engine reads, nor
// keep a salt of their own in one.
func TestForwardedBodiesCantHideWhatTheySay(t *testing.T) {
	t.Parallel()
	j := `{"model":"m","text_1":"a","cache_salt":"theirs","kv_transfer_params":{"remote_host":"evil"}}`
	wide := func(s string) (out string) {
		for _, c := range s {
			out += string([]byte{byte(c), 0})
		}
		return out
	}
	form := func(model string) string {
		return "--X\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n--X--\r\n"
	}
	for _, salted := range []bool{false, true} {
		var at seen
		o := kvsteer.TenancyOptions{Identify: testIdentities()}
		if salted {
			o.Salter = testSalter(t)
		}
		r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithTenancy(o)}}, worker{serve: at.serve(whole), models: []string{"m", "other-1"}})
		for name, c := range map[string]struct{ kind, body string }{
			"plain": {"application/json", j}, "parameter twice": {"application/json; charset=utf-8; charset=utf-8", j},
			"bad parameter": {"application/json;x", j}, "no type": {"", j}, "another kind of JSON": {"application/x+json", j},
			"upper case": {"Application/JSON", j}, "NaN": {"application/json", `{"model":"m","x":NaN}`},
			"byte order mark": {"application/json", "\xef\xbb\xbf" + j}, "UTF-16": {"application/json", wide(j)},
			"form": {"multipart/form-data; boundary=X", form("m")}, "broken form": {"multipart/form-data", form("other-1")},
		} {
			for _, key := range []string{"b", "a"} { // who may use other* only, and who may use all
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.gateway.URL+"/v1/score", bytes.NewReader([]byte(c.body)))
				require.NoError(t, err)
				req.Header.Set("X-Test-Key", key)
				if c.kind != "" {
					req.Header.Set("Content-Type", c.kind)
				}
				resp, err := r.gateway.Client().Do(req)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
				if key == "b" {
					assert.Equal(t, http.StatusForbidden, resp.StatusCode, name)
				} else if resp.StatusCode == http.StatusOK && salted {
					sent, _ := at.last(t)
					assert.NotContains(t, sent, "theirs", name)
					assert.NotContains(t, sent, "evil", name)
				}
			}
		}
		require.Equal(t, http.StatusOK, r.as("b", "/v1/score", `{"model":"other-1"}`).status)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.gateway.URL+"/v1/audio/transcriptions", strings.NewReader(form("other-1")))
		require.NoError(t, err)
		req.Header.Set("X-Test-Key", "b")
		req.Header.Set("Content-Type", "multipart/form-data; boundary=X")
		resp, err := r.gateway.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
}

func TestClientsCantFetchBlocks(t *testing.T) {
	t.Parallel()
	var at seen
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), Salter: testSalter(t)}),
	}}, worker{serve: prompts(at.serve(whole))})
	r.as("a", "/v1/completions", `{"model":"m","prompt":"x","kv_transfer_params":{"remote_host":"evil"},"bootstrap_room":5,"priority":-99}`)
	sent, _ := at.last(t)
	assert.NotContains(t, sent, "priority")
	assert.NotContains(t, sent, "kv_transfer_params")
	assert.NotContains(t, sent, "bootstrap_room")
}

// Who is known, but as nobody's tenant, is not one with all whom nobody knows.
func TestVerifiedWithoutTenant(t *testing.T) {
	t.Parallel()
	var at seen
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithTenancy(kvsteer.TenancyOptions{
		Identify: names{
			"k1": {Key: "k1", By: "test"}, "k2": {Key: "k2", By: "test"}, "t": {Team: "k1", Key: "k3", By: "test"}, "t2": {Team: "k1", Key: "k4", By: "test"},
			"o": {Org: "k1", By: "test"},
		},
		Salter: testSalter(t),
	})}}, worker{serve: prompts(at.serve(whole))})
	salts := map[string]string{}
	for _, key := range []string{"", "k1", "k2", "t", "t2", "o"} {
		require.Equal(t, http.StatusOK, r.as(key, "/v1/completions", `{"model":"m","prompt":"x"}`).status)
		salts[key], _ = at.last(t)
	}
	assert.Equal(t, salts["t"], salts["t2"], "of one team")
	delete(salts, "t2")
	different := map[string]bool{}
	for _, s := range salts {
		different[s] = true
	}
	assert.Len(t, different, 5)
}

func TestResponsesAreTheirTenants(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities()}),
	}}, worker{serve: prompts(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","output":[],"usage":{"input_tokens":3,"output_tokens":1}}`)
	})})
	require.Equal(t, http.StatusOK, r.as("a", "/v1/responses", `{"model":"m","input":"secret"}`).status)
	r.idle()
	next := `{"model":"m","input":"repeat","previous_response_id":"resp_1"}`
	for key, want := range map[string]int{"a": http.StatusOK, "c": http.StatusNotFound, "": http.StatusNotFound} {
		assert.Equal(t, want, r.send(key, http.MethodGet, "/v1/responses/resp_1", "").status, key)
		assert.Equal(t, want, r.send(key, http.MethodPost, "/v1/responses/resp_1/cancel", "").status, key)
		assert.Equal(t, want, r.as(key, "/v1/responses", next).status, key)
	}
}

func TestModelsOfOthersAreNotNamed(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities()}),
	}}, worker{serve: prompts(whole), models: []string{"secret-project", "other-1"}})
	for _, a := range []answer{
		r.as("b", "/v1/chat/completions", `{"model":"other-z","messages":[]}`), r.send("b", http.MethodGet, "/v1/models/other-z", ""),
	} {
		assert.Equal(t, http.StatusNotFound, a.status)
		assert.Contains(t, a.body, "other-1")
		assert.NotContains(t, a.body, "secret-project")
	}
}

func TestAnonymousByTheGateway(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{RefuseAnonymous: true}),
	}}, worker{serve: prompts(whole)})
	q := chatRequest("x", false)
	q.Identity = tenancy.Anonymous()
	_, err := r.router.Select(t.Context(), q)
	require.Equal(t, kvsteer.CodeUnauthenticated, kvsteer.CodeOf(err))
}
