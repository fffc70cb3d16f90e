package kvsteer_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// pools is a rig of two pools with a worker and a model each. The header stands for what a
// gateway has established.
func pools(t *testing.T) *rig {
	t.Helper()
	return newRig(t, rigConfig{
		engines: 2,
		engine:  func(i int, c *fleettest.Config) { c.Model = []string{"chat-a", "chat-b"}[i] },
		worker:  func(i int, w *fleet.Worker) { w.Pool = []string{"a", "b"}[i] },
		options: []kvsteer.Option{kvsteer.WithMaxBody(4096)},
		transport: kvsteer.TransportOptions{Describe: func(h *http.Request, q *kvsteer.Request) {
			q.Pool = h.Header.Get("X-Test-Pool")
		}},
	})
}

func (r *rig) in(pool, method, path, body string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.gateway.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("X-Test-Pool", pool)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.gateway.Client().Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func TestModelsOfAPool(t *testing.T) {
	t.Parallel()
	r := pools(t)
	all := r.in("", http.MethodGet, "/v1/models", "").body
	require.Contains(t, all, `"id":"chat-a"`)
	require.Contains(t, all, `"id":"chat-b"`)
	of := r.in("b", http.MethodGet, "/v1/models", "").body
	require.NotContains(t, of, `"id":"chat-a"`)
	require.Contains(t, of, `"id":"chat-b"`)
	require.Contains(t, of, `"max_model_len":`)
	require.Equal(t, http.StatusOK, r.in("b", http.MethodGet, "/v1/models/chat-b/", "").status)
	require.Contains(t, r.in("none", http.MethodGet, "/v1/models", "").body, `"data":[]`)
}

// Whichever way a model is named that a request can't have, the answer is the same, and
// tells of no other pool's models.
func TestUnknownModelsAreOneAnswer(t *testing.T) {
	t.Parallel()
	r := pools(t)
	for _, pool := range []string{"", "b"} {
		for _, model := range []string{"gpt-x", "chat-a"} {
			if pool == "" && model == "chat-a" {
				continue
			}
			for _, c := range []struct{ method, path, body string }{
				{http.MethodGet, "/v1/models/" + model, ""},
				{http.MethodGet, "/v1/models/" + model + "/", ""},
				{http.MethodPost, "/v1/chat/completions", `{"model":"` + model + `","messages":[]}`},
				{http.MethodPost, "/v1/embeddings", `{"model":"` + model + `","input":"x"}`},
				{http.MethodPost, "/v1/score", `{"model":"` + model + `"}`},
				{http.MethodPost, "/tokenize", `{"model":"` + model + `","prompt":"x"}`},
			} {
				a := r.in(pool, c.method, c.path, c.body)
				require.Equal(t, http.StatusNotFound, a.status, "%s %q: %s", c.path, pool, a.body)
				require.Contains(t, a.body, `"code":"unknown_model"`, c.path)
				if pool == "" {
					require.Contains(t, a.body, "models served: chat-a, chat-b", c.path)
				} else {
					require.Contains(t, a.body, "models served: chat-b", c.path)
				}
			}
		}
	}
	r.idle()
}

// The model in a body of unknown length narrows the choice as well, and one that is longer
// than may be is refused, as if it had said so.
func TestChunkedBodiesAreRead(t *testing.T) {
	t.Parallel()
	r := pools(t)
	chunked := func(kind, body string) answer {
		q := postRequest(t, "/tokenize", body)
		q.Header.Set("Content-Type", kind)
		q.ContentLength, q.Body, q.GetBody = -1, io.NopCloser(strings.NewReader(body)), nil
		q.URL.Host, q.URL.Scheme = strings.TrimPrefix(r.gateway.URL, "http://"), "http"
		resp, err := r.gateway.Client().Do(q)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return answer{resp.StatusCode, resp.Header, string(b)}
	}
	for range 4 {
		a := chunked("application/json", `{"model":"chat-b","prompt":"x"}`)
		require.Equal(t, http.StatusOK, a.status, "the other worker would not know it: %s", a.body)
	}
	long := `{"model":"chat-b","prompt":"` + strings.Repeat("x", 5000) + `"}`
	a := chunked("application/json", long)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	require.Contains(t, a.body, "4096")
	require.Equal(t, http.StatusRequestEntityTooLarge, r.in("", http.MethodPost, "/tokenize", long).status, "nor if it says how long it is")
	require.NotEqual(t, http.StatusRequestEntityTooLarge, chunked("text/plain", long).status, "what names no model is not read")
	r.idle()
}
