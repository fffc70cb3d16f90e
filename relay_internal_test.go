package kvsteer

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// What a worker says about its KV cache goes into the next request as it is, and
// spoils nothing else there.
func FuzzHandover(f *testing.F) {
	for _, seed := range []string{
		`{"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[1,2],"remote_engine_id":"e","tp_size":1},"usage":{"prompt_tokens":3}}`,
		`{"kv_transfer_params":null}`, `{"kv_transfer_params":[]}`, `{}`, ``, `[]`, `{"kv_transfer_params":{}}`,
		`{"kv_transfer_params":{"x":1},"kv_transfer_params":{"y":"\u2028</script>"}}`,
		`{"kv_transfer_params":{"a":{"b":[{}]}}` + "\n\t }", `{"kv_transfer_params":{"a":1e400}}`,
	} {
		f.Add([]byte(seed))
	}
	const request = `{"model":"m" , "messages":[{"role":"user","content":"x"}],"n":1.0}`
	o, err := jsonscan.Parse([]byte(request), 0)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, answer []byte) {
		params, u, ok := handover(answer)
		require.Equal(t, ok, params != nil)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, u.Prompt(), 0)
		var e jsonscan.Edit
		e.Set(fieldTransfer, params)
		body, err := e.Apply(o)
		require.NoError(t, err)
		next, err := jsonscan.Parse(body, 0)
		require.NoError(t, err)
		require.Equal(t, string(params), string(next.Value(fieldTransfer).Raw()))
		require.Contains(t, string(body), request[:len(request)-1])
		if json.Valid(answer) {
			require.True(t, json.Valid(body), "%s", body)
		}
	})
}

// Clients that spell out the defaults are served as those that don't.
func TestWhichRequestsAreRelayable(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]bool{
		`"n":1,"best_of":1,"echo":false,"use_beam_search":false`:                       true,
		`"n":null,"best_of":null,"echo":null,"kv_transfer_params":null,"prompt":[1,2]`: true,
		`"n":2`: false, `"n":"1"`: false, `"n":1.5`: false, `"best_of":2`: false, `"echo":true`: false, `"echo":0`: false,
		`"use_beam_search":true`: false, `"kv_transfer_params":{}`: false, `"prompt":["a","b"]`: false, `"prompt":[[1],[2]]`: false,
		`"prompt":["a"]`: true, `"prompt":[[1,2]]`: true,
	} {
		p := parsed{api: prompt.Completions, body: []byte(`{` + fields + `}`)}
		require.NoError(t, p.scan())
		require.Equal(t, want, p.relayable(), fields)
	}
}
