package kvsteer_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// A body that is large in another way than bytes is refused as the client's, and what is
// long but kept is kept short.
func TestBodiesAreBoundedInEveryWay(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(whole)})
	nested := func(n int) string {
		return `{"model":"m","messages":[],"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	var fields strings.Builder
	for i := range jsonscan.MaxFields {
		fmt.Fprintf(&fields, `,"f%d":1`, i)
	}
	long := strings.Repeat("a", 1<<20)
	for what, c := range map[string]struct {
		body string
		code kvsteer.Code
	}{
		"deep":         {nested(jsonscan.DefaultDepth - 2), 0},
		"too deep":     {nested(jsonscan.DefaultDepth + 1), kvsteer.CodeBadRequest},
		"many fields":  {`{"model":"m","messages":[]` + fields.String() + `}`, kvsteer.CodeBadRequest},
		"long model":   {`{"model":"` + long + `","messages":[]}`, kvsteer.CodeUnknownModel},
		"long session": {`{"model":"m","session_id":"` + long + `","messages":[]}`, 0},
		"long salt":    {`{"model":"m","cache_salt":"` + long + `","messages":[]}`, 0},
		"many ids":     {`{"model":"m","prompt":[` + strings.Repeat("1,", 1<<20) + `1]}`, 0},
	} {
		q := &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(c.body)}
		if strings.Contains(c.body, `"prompt"`) {
			q.API = kvsteer.Completions
		}
		sel, err := r.router.Select(t.Context(), q)
		require.Equal(t, c.code, kvsteer.CodeOf(err), what)
		if err != nil {
			require.Less(t, len(err.Error()), 1000, what)
			continue
		}
		d := sel.Decision().String()
		require.Less(t, len(d), 10_000, what)
		sel.Abort(nil)
	}
	r.idle()
}

// What a client's headers may be is for the server that reads them: Go's refuses a megabyte.
func TestHeadersOfClientsAreBoundedByTheServer(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(whole)})
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.gateway.URL+"/v1/chat/completions", strings.NewReader(chatBody("hi", false)))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	for i := range 100 {
		q.Header.Set(fmt.Sprintf("X-Long-%d", i), strings.Repeat("a", 1<<14))
	}
	resp, err := r.gateway.Client().Do(q)
	if err == nil { // it may have closed the connection before all of it was written
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
	}
	require.Zero(t, r.observed.outcomeCount())
	r.idle()
}
