package kvsteer_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy"
)

// listed may use both providers by name, and one model of theirs; xavier and yolanda are
// not listed.
func listed() names {
	both := []string{"databricks", "bedrock"}
	return names{
		"listed":     {Org: "acme", Tenant: "alice", Key: "k1", By: "test", Providers: both},
		"restricted": {Org: "acme", Tenant: "rita", Key: "k2", By: "test", Providers: both, Models: []string{testModel}},
		"xavier":     {Org: "acme", Tenant: "xavier", Key: "k3", By: "test"},
		"yolanda":    {Org: "acme", Tenant: "yolanda", Key: "k4", By: "test"},
	}
}

// What tenants keep at a shared account no other one reaches by a prompt that names it.
func TestPromptsThatNameWhatIsKept(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, keeps)
	r := burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: listed()}))
	yolandas := r.stored("yolanda")
	free := r.busy(3)
	defer free()
	for _, body := range []string{
		`{"model":"m","input":"x","previous_response_id":"resp_of_another_gateway"}`,
		`{"model":"m","input":"x","conversation":"conv_1"}`,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`,
		`{"model":"m","input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}`,
	} {
		before := o.reached()
		a := r.as("xavier", "/v1/responses", body)
		require.GreaterOrEqual(t, a.status, http.StatusBadRequest, body)
		require.Equal(t, before, o.reached(), body)
		r.as("listed", "/v1/responses", body)
		require.Greater(t, o.reached(), before, body)
	}
	before := o.reached()
	a := r.as("xavier", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+yolandas+`"}`)
	require.Equal(t, http.StatusNotFound, a.status, a.body)
	a = r.send("xavier", http.MethodGet, "/v1/responses/"+yolandas, "")
	require.Equal(t, http.StatusNotFound, a.status, a.body)
	require.Equal(t, before, o.reached())
	a = r.as("yolanda", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+yolandas+`"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, before+1, o.reached())
	a = r.as("xavier", "/v1/responses", `{"model":"m","input":"x"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
}

// Nor does anybody learn how long another's file is.
func TestCountingWhatIsKept(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, func(p []providers.Provider) { p[1].APIs = []kvsteer.API{kvsteer.Messages} })
	r := burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: listed()}))
	const body = `{"model":"only-outside","messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`
	a := r.as("xavier", "/v1/messages/count_tokens", body)
	require.Equal(t, http.StatusForbidden, a.status, a.body)
	require.Zero(t, o.reached())
	r.as("listed", "/v1/messages/count_tokens", body)
	require.Equal(t, 1, o.reached())
}

// Bodies for who keeps things are read, and sent as they are.
func TestBodiesForKeepers(t *testing.T) {
	t.Parallel()
	for _, salted := range []bool{false, true} {
		o := newOutsiders(t, keeps)
		tenants := kvsteer.TenancyOptions{Identify: listed()}
		if salted {
			tenants.Salter = testSalter(t)
		}
		r := burstRig(t, o, kvsteer.WithTenancy(tenants))
		const body = `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h","cache_salt":"mine"}`
		for _, key := range []string{"listed", "restricted"} {
			before := o.reached()
			a := r.as(key, "/v1/batches", body)
			require.Equal(t, before+1, o.reached(), "%v %s: %s", salted, key, a.body)
			require.JSONEq(t, body, string(o.databricks.Last().Body))
		}
		before := o.reached()
		require.Equal(t, http.StatusForbidden, r.as("restricted", "/v1/batches", `{"model":"only-outside"}`).status)
		require.Equal(t, http.StatusForbidden, r.as("xavier", "/v1/batches", body).status, "not listed")
		require.Equal(t, before, o.reached())
	}
}

// Two tenants' keys of idempotency are two at an account that they share.
func TestIdempotencyKeysOfTenants(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	send := func(r *rig, tenant string) string {
		req := chatRequest("x", false)
		req.Identity = &tenancy.Identity{Org: "acme", Tenant: tenant, By: "test"}
		free := r.busy(3)
		defer free()
		sel, err := r.router.Select(t.Context(), req)
		require.NoError(t, err)
		defer sel.Abort(nil)
		h, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x.test/v1/chat/completions", nil)
		require.NoError(t, err)
		h.Header.Set("Idempotency-Key", "k")
		body := sel.Body()
		h.Body, h.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp, err := sel.Target().Via(http.DefaultTransport).RoundTrip(h)
		require.NoError(t, err)
		rest(resp)
		return o.bedrock.Last().Header.Get("Idempotency-Key")
	}
	r := burstRig(t, o)
	require.Equal(t, "k", send(r, "alice"), "nobody shares the account")
	r = burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{}))
	require.NotEqual(t, "k", send(r, "alice"))
	alices := send(r, "alice")
	require.Equal(t, alices, send(r, "alice"))
	require.NotEqual(t, alices, send(r, "bob"))
}
