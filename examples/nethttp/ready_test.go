package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// anywhere lets requests go to every candidate.
type anywhere struct{}

func (anywhere) Evaluate(_ *policy.Request, c []policy.Candidate, p *policy.Plan) {
	for i := range c {
		p.Order = append(p.Order, i)
	}
}

// Without a worker a gateway is ready while a provider is.
func TestReadyByProviders(t *testing.T) {
	service := providertest.New(t, providertest.OpenAI, providertest.Options{Key: "k"})
	keeps := providers.Provider{Name: "keeps", Kind: providers.OpenAI{}, URL: service.URL(), Credentials: providers.Static("k"), Paths: []string{"/v1/files"}}
	serves := providers.Provider{
		Name: "serves", Kind: providers.OpenAI{}, URL: service.URL(), Credentials: providers.Static("k"), Models: []providers.Model{{Name: "m"}},
	}
	set, err := providers.New([]providers.Provider{serves}, providers.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, set.Close()) }()
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	defer func() { require.NoError(t, workers.Close()) }()
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithProviders(set), kvsteer.WithPolicy(anywhere{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, router.Close()) }()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h := gateway(ctx, router, workers)
	status := func(method, path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)))
		return w.Code
	}
	require.Equal(t, http.StatusOK, status(http.MethodGet, "/healthz"))
	require.Equal(t, http.StatusOK, status(http.MethodPost, "/v1/chat/completions"), "it is true, too")

	service.Script(providertest.Answer{Fault: providertest.RateLimited, RetryAfter: time.Hour})
	require.NotEqual(t, http.StatusOK, status(http.MethodPost, "/v1/chat/completions"))
	require.Equal(t, http.StatusServiceUnavailable, status(http.MethodGet, "/health"), "nobody can take anything")

	require.NoError(t, set.Update([]providers.Provider{keeps}))
	require.Equal(t, http.StatusServiceUnavailable, status(http.MethodGet, "/healthz"), "who keeps files answers no prompts")
	require.NoError(t, set.Update(nil))
	require.Equal(t, http.StatusServiceUnavailable, status(http.MethodGet, "/healthz"))
	serves.Name = "another"
	require.NoError(t, set.Update([]providers.Provider{serves}))
	require.Equal(t, http.StatusOK, status(http.MethodGet, "/healthz"))
	stop()
	require.Equal(t, http.StatusServiceUnavailable, status(http.MethodGet, "/healthz"), "it ends")
}
