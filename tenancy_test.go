package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/salt"
)

// names resolves a header to identities, as a resolver of keys would.
type names map[string]*tenancy.Identity

func (n names) Resolve(_ context.Context, p *tenancy.Presented) (*tenancy.Identity, error) {
	name := p.Header.Get("X-Test-Key")
	id, ok := n[name]
	switch {
	case name == "":
		return nil, nil //nolint:nilnil // as Resolver's contract has it
	case name == "down":
		return nil, errors.New("the issuer does not answer")
	case !ok:
		return nil, &tenancy.UnverifiedError{Kind: "test", Reason: "no such key"}
	}
	return id, nil
}

// Headers are those that no worker is to see.
func (names) Headers() []string { return []string{"X-Test-Key", "X-Test-Tenant"} }

func testIdentities() names {
	return names{
		"a": {Org: "acme", Team: "blue", Tenant: "alice", Key: "k1", Class: "gold", Priority: 3, By: "test", Spent: []string{"X-Test-Key"}},
		"b": {Org: "acme", Team: "blue", Tenant: "bob", Key: "k2", By: "test", Models: []string{"other*"}},
		"c": {Org: "other", Tenant: "carol", Key: "k3", By: "test"},
	}
}

// as posts a request with the header that names resolves.
func (r *rig) as(key, path, body string) answer {
	r.t.Helper()
	return r.send(key, http.MethodPost, path, body)
}

func (r *rig) send(key, method, path, body string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.gateway.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-Test-Key", key)
	}
	for _, name := range []string{"X-Test-Tenant", "Authorization", "X-Api-Key", "Api-Key"} {
		req.Header.Set(name, "Bearer of another's")
	}
	resp, err := r.gateway.Client().Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		b = append(b, "\n[broken off]"...)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// seen keeps what workers were sent.
type seen struct {
	mu     sync.Mutex
	bodies []string
	header []http.Header
}

func (s *seen) serve(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.bodies, s.header = append(s.bodies, string(body)), append(s.header, r.Header.Clone())
		s.mu.Unlock()
		next(w, r)
	}
}

func (s *seen) last(t *testing.T) (string, http.Header) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.bodies)
	return s.bodies[len(s.bodies)-1], s.header[len(s.header)-1]
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	var at seen
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities()}),
	}}, worker{serve: prompts(at.serve(whole))})

	body := chatBody("hi", false)
	require.Equal(t, http.StatusOK, r.as("a", "/v1/chat/completions", body).status)
	d := r.observed.lastOutcome(t).Decision
	assert.Equal(t, "test", d.VerifiedBy)
	assert.Equal(t, []any{"alice", "gold", 3}, []any{d.Request.Tenant, d.Request.QoS, d.Request.Priority})
	_, h := at.last(t)
	assert.NotContains(t, h, "X-Test-Key", "the proof is not passed on")

	for _, key := range []string{"", "forged"} {
		require.Equal(t, http.StatusOK, r.as(key, "/v1/chat/completions", body).status)
		_, h = at.last(t)
		for _, name := range []string{"X-Test-Key", "X-Test-Tenant", "Authorization", "X-Api-Key", "Api-Key"} {
			assert.NotContains(t, h, name, "nor what was none")
		}
		d = r.observed.lastOutcome(t).Decision
		assert.Equal(t, []string{"", "", ""}, []string{d.VerifiedBy, d.Request.Tenant, d.Request.QoS}, "anonymous")
	}
	down := r.as("down", "/v1/chat/completions", body)
	assert.Equal(t, http.StatusServiceUnavailable, down.status, "nobody could find out")
	assert.NotEmpty(t, down.header.Get("Retry-After"))
	assert.NotContains(t, down.body, "issuer", "causes are not shown")

	no := r.as("b", "/v1/chat/completions", body)
	assert.Equal(t, http.StatusForbidden, no.status, no.body)
	assert.Equal(t, http.StatusForbidden, r.as("b", "/v1/rerank", `{"model":"m"}`).status, "whatever the path")
	assert.Equal(t, http.StatusForbidden, r.send("b", http.MethodGet, "/v1/models/m", "").status)
	assert.JSONEq(t, `{"object":"list","data":[]}`, r.send("b", http.MethodGet, "/v1/models", "").body)
	assert.Contains(t, r.send("a", http.MethodGet, "/v1/models", "").body, `"m"`)
	r.idle()
}

func TestIdentityIsTheGatewaysIfItSays(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), RefuseAnonymous: true}),
	}}, worker{serve: prompts(whole)})
	q := chatRequest("hi", false)
	_, err := r.router.Explain(t.Context(), q)
	require.Equal(t, kvsteer.CodeUnauthenticated, kvsteer.CodeOf(err))
	q.Tenant = "dora"
	d, err := r.router.Explain(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, []string{"gateway", "dora"}, []string{d.VerifiedBy, d.Request.Tenant})
	q.Identity = &tenancy.Identity{Tenant: "emil", Class: "gold", By: "own"}
	q.QoS = "silver"
	d, err = r.router.Explain(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, []string{"own", "dora", "silver"}, []string{d.VerifiedBy, d.Request.Tenant, d.Request.QoS}, "what is empty is filled in")
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	var at seen
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), RefuseAnonymous: true, RefuseUnverified: true}),
	}}, worker{serve: prompts(at.serve(whole))})
	for _, key := range []string{"", "forged"} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/rerank"} {
			no := r.as(key, path, chatBody("hi", false))
			assert.Equal(t, http.StatusUnauthorized, no.status, path)
			assert.Contains(t, no.body, "authentication_error")
		}
		assert.Equal(t, http.StatusUnauthorized, r.send(key, http.MethodGet, "/v1/models", "").status)
	}
	assert.Empty(t, at.bodies, "nothing reached a worker")
	assert.Len(t, r.observed.rejections(), 4, "hooks hear of those with a prompt")
	assert.Equal(t, http.StatusOK, r.as("a", "/v1/chat/completions", chatBody("hi", false)).status)
}

func testSalter(t testing.TB) *salt.Salter {
	t.Helper()
	s, err := salt.New(salt.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))})
	require.NoError(t, err)
	return s
}

func TestSalts(t *testing.T) {
	t.Parallel()
	var at seen
	s := testSalter(t)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), Salter: s}),
	}}, worker{serve: prompts(at.serve(whole))})
	alice, carol, nobody := s.Salt(&salt.Fields{Org: "acme", Tenant: "alice"}), s.Salt(&salt.Fields{Org: "other", Tenant: "carol"}), s.Salt(&salt.Fields{})
	for _, c := range []struct{ key, path, body, want string }{
		{"a", "/v1/chat/completions", `{"model":"m","messages":[]}`, `{"model":"m","messages":[],"cache_salt":"` + alice + `"}`},
		{"c", "/v1/completions", `{"cache_salt":"` + alice + `","model":"m","prompt":"x"}`, `{"cache_salt":"` + carol + `","model":"m","prompt":"x"}`},
		{"", "/v1/messages", `{"model":"m","cache_salt":null,"messages":[]}`, `{"model":"m","cache_salt":"` + nobody + `","messages":[]}`},
		{"a", "/v1/rerank", `{"model":"m","query":"x"}`, `{"model":"m","query":"x","cache_salt":"` + alice + `"}`},
		{"a", "/v1/audio/speech", `{"model":"m","cache_salt":"` + carol + `"}`, `{"model":"m","cache_salt":"` + alice + `"}`},
		{"a", "/v1/audio/speech", `{"model":"m"}`, `{"model":"m"}`},
	} {
		require.Equal(t, http.StatusOK, r.as(c.key, c.path, c.body).status, c.path)
		got, _ := at.last(t)
		assert.Equal(t, c.want, got, c.path)
	}
	// However often it is there, and however it is spelled, no other one arrives.
	for _, body := range []string{
		`{"cache_salt":"` + carol + `","model":"m","prompt":"x","cache_salt":"` + carol + `"}`,
		`{"model":"m","prompt":"x","cache_s\u0061lt":"` + carol + `"}`,
	} {
		if r.as("a", "/v1/completions", body).status == http.StatusOK {
			got, _ := at.last(t)
			assert.NotContains(t, got, carol)
			assert.Contains(t, got, alice)
		}
	}
}

// B sends what A has sent: nothing that the router tells, or does, is other than if A had not.
func TestTenantsCantSeeEachOthersCaches(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, unseen: true, options: []kvsteer.Option{
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Identify: testIdentities(), Salter: testSalter(t)}),
	}})
	r.waitJoined()
	long := func(i int) string {
		return chatBody(strings.Repeat(fmt.Sprintf("text %d of alice's. ", i), 200), false)
	}
	cached := func(key string, i int) int {
		d, err := r.router.Explain(t.Context(), &kvsteer.Request{
			API: kvsteer.ChatCompletions, Body: []byte(long(i)), Header: http.Header{"X-Test-Key": {key}},
		})
		require.NoError(t, err)
		most := 0
		for _, c := range d.Candidates {
			most = max(most, c.CachedTokens)
		}
		return most
	}
	for i := range 5 {
		require.Equal(t, http.StatusOK, r.as("a", "/v1/chat/completions", long(i)).status)
		assert.Positive(t, cached("a", i))
		for _, key := range []string{"c", "", "forged"} {
			assert.Zero(t, cached(key, i), "%q", key)
		}
	}
	// The engines agree: bob's first request with alice's prompt finds nothing.
	require.Equal(t, http.StatusOK, r.as("c", "/v1/chat/completions", long(0)).status)
	o := r.observed.lastOutcome(t)
	assert.True(t, o.Usage.CachedKnown)
	assert.Zero(t, o.Usage.CacheRead)
	assert.Zero(t, o.CachedPredicted)
	require.Equal(t, http.StatusOK, r.as("a", "/v1/chat/completions", long(0)).status)
	assert.Positive(t, r.observed.lastOutcome(t).Usage.CacheRead)
}
