package kvsteer_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// The rank is the router's to choose. SGLang takes it from the body, too.
func TestClientsDontChooseTheRank(t *testing.T) {
	t.Parallel()
	var at seen
	r := newScripted(t, rigConfig{}, worker{serve: prompts(at.serve(whole))})
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/embeddings", "/v1/score", "/v1/audio/speech"} {
		for _, c := range [][2]string{
			{`{"routed_dp_rank":1,"model":"m","messages":[],"prompt":"x","input":"x"}`, `{"model":"m","messages":[],"prompt":"x","input":"x"}`},
			{`{"model":"m","data_parallel_rank":"1","messages":[],"prompt":"x","input":"x"}`, `{"model":"m","messages":[],"prompt":"x","input":"x"}`},
			{`{"model":"m","messages":[],"prompt":"x","input":"x","disagg_prefill_dp_rank":0}`, `{"model":"m","messages":[],"prompt":"x","input":"x"}`},
			{`{"routed_dp_rank":1,"routed_dp_r\u0061nk":2,"data_parallel_rank":null,"model":"m","messages":[],"prompt":"x","input":"x"}`, `{"model":"m","messages":[],"prompt":"x","input":"x"}`},
			{"{ \"model\" : \"m\",\n\"messages\":[],\"prompt\":\"x\",\"input\":\"x\",\"metadata\":{\"routed_dp_rank\":1},\"dp_rank\":1 } ", ""}, // not a byte is touched
		} {
			want := c[1]
			if want == "" {
				want = c[0]
			}
			require.Equal(t, http.StatusOK, r.post(path, c[0]).status, "%s %s", path, c[0])
			got, _ := at.last(t)
			require.Equal(t, want, got, "%s %s", path, c[0])
		}
	}
	// What Python reads and we can't may have one.
	for _, body := range []string{`{"routed_dp_rank":1,"model":"m","x":NaN}`, `{"x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"routed_dp_rank":1}`} {
		require.Equal(t, http.StatusBadRequest, r.post("/v1/score", body).status)
	}
	r.idle()

	// Gateways that send by themselves get it from Body.
	sel, err := r.router.Select(t.Context(), &kvsteer.Request{
		API: kvsteer.ChatCompletions, Body: []byte(`{"model":"m","messages":[],"routed_dp_rank":1}`),
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"m","messages":[]}`, string(sel.Body()))
	sel.Abort(nil)
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/score", strings.NewReader("{"))
	p, err := r.router.Place(&kvsteer.Forward{HTTP: q, Body: []byte(`{"model":"m","routed_dp_rank":1}`)})
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"m"}`, string(p.Body()))
	p.End()
}
