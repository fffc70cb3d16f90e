package kvsteer_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// stores answers /v1/responses with ids of its own, and what is stored to who asks.
func stores(name string, asked *atomic.Int32) worker {
	var n atomic.Int32
	return worker{serve: prompts(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		id := fmt.Sprintf("resp_%s_%d", name, n.Add(1))
		if r.URL.Query().Has("stream") {
			sseEvents(
				`{"type":"response.created","response":{"id":"`+id+`","object":"response"}}`,
				`{"type":"response.completed","response":{"id":"`+id+`","object":"response","usage":{"input_tokens":3,"output_tokens":1}}}`,
			)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"response","id":%q,"output":[],"usage":{"input_tokens":3,"output_tokens":1}}`, id)
	})}
}

// Who goes on from a response comes to the engine that has it, whatever the load and
// the policy's turn; so does who asks for it by name.
func TestResponsesStayWithTheirEngine(t *testing.T) {
	t.Parallel()
	var asked [3]atomic.Int32
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithPolicy(new(policy.RoundRobin))}},
		stores("s0", &asked[0]), stores("s1", &asked[1]), stores("s2", &asked[2]))
	post := func(query, previous string) (by string, id string) {
		body := `{"model":"m","input":"x"`
		if previous != "" {
			body += `,"previous_response_id":"` + previous + `"`
		}
		n := r.observed.outcomeCount()
		a := r.post("/v1/responses"+query, body+"}")
		require.Equal(t, http.StatusOK, a.status)
		_, rest, _ := strings.Cut(a.body, `"id":"`)
		id, _, _ = strings.Cut(rest, `"`)
		return r.observed.nextOutcome(t, n).Decision.Winner().Name, id
	}
	for _, query := range []string{"", "?stream"} {
		first, id := post(query, "")
		for range 4 { // each turn goes on from the one before
			var by string
			by, id = post(query, id)
			require.Equal(t, first, by)
			require.Contains(t, id, first)
		}
		var before [3]int32
		for i := range asked {
			before[i] = asked[i].Load()
		}
		for _, path := range []string{"/v1/responses/" + id, "/v1/responses/" + id + "/input_items"} {
			require.Equal(t, http.StatusOK, r.get(path).status)
		}
		for i := range asked {
			want := before[i]
			if first == fmt.Sprintf("s%d", i) {
				want += 2
			}
			require.Equal(t, want, asked[i].Load())
		}
	}

	// Where it is not known, or gone, the request is sent all the same, and the decision
	// says what to expect.
	lost := func(previous string) string {
		d, err := r.router.Explain(t.Context(), &kvsteer.Request{
			API: kvsteer.Responses, Body: []byte(`{"model":"m","input":"x","previous_response_id":"` + previous + `"}`),
		})
		require.NoError(t, err)
		return strings.Join(d.Degradations, "\n")
	}
	first, id := post("", "")
	require.NotContains(t, lost(id), "previous response")
	require.Contains(t, lost("resp_nobody"), "previous response: no worker is known to have it")
	require.NoError(t, r.fleet.Drain(first, true))
	require.Contains(t, lost(id), "previous response: no worker is known to have it")
	by, _ := post("", id)
	require.NotEqual(t, first, by)
}
