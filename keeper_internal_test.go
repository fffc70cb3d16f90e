package kvsteer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// A path is what it is about behind whatever prefix.
func TestWhatPathsAreAbout(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		stateful bool
		response string
	}{
		"/v1/files": {true, ""}, "/v1/files/": {true, ""}, "/v2/v1/files/x": {true, ""}, "/v1/v1/files": {true, ""},
		"/v1//files": {true, ""}, "/v1/x/../files": {true, ""}, "/v1/messages/batches": {true, ""},
		"/v1/messages/count_tokens": {}, "/v1/filesystem": {}, "/v1": {}, "": {}, "/": {}, "/files": {}, "/v2/files": {},
		"/v1/responses": {}, "/v1/responses/": {}, "/v1/responses/r": {false, "r"}, "/v2/v1/responses/r/cancel": {false, "r"},
		"/v1/responses//r": {false, "r"},
	} {
		assert.Equal(t, want.stateful, stateful(path), path)
		assert.Equal(t, want.response, responseIn(path), path)
	}
}

// What of a service's account a body names is found wherever it stands, and what only looks
// like it isn't taken for it.
func TestNamesKept(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"conversation":"conv_1"}`:                                                                                                      true,
		`{"conversation":{"id":"conv_1"}}`:                                                                                               true,
		`{"\u0063onversation":"conv_1"}`:                                                                                                 true,
		`{"conversation":null,"conversation":"conv_1"}`:                                                                                  true,
		`{"prompt":{"id":"pmpt_1","version":"2"}}`:                                                                                       true,
		`{"container":"cntr_1"}`:                                                                                                         true,
		`{"container":{"id":"container_1"}}`:                                                                                             true,
		`{"container":{"skills":[{"type":"custom","skill_id":"s"}]}}`:                                                                    true,
		`{"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}`:                                                                 true,
		`{"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]}`:                                           true,
		`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}`:                                                    true,
		`{"input":[{"type":"item_reference","id":"msg_1"}]}`:                                                                             true,
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`:                                              true,
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`:                          true,
		`{"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}`:                                                                   true,
		`{"messages":[{"role":"user","content":"file_id conversation"}]}`:                                                                false,
		`{"prompt":"text","conversation":null,"container":{"type":"auto","file_ids":[]}}`:                                                false,
		`{"audio":{"voice":"alloy","format":"wav"},"previous_response_id":"resp_1"}`:                                                     false,
		`{"tools":[{"type":"function","function":{"parameters":{"properties":{"file_id":{"type":"string"}},"file_id":"x"}}}]}`:           false,
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"read","input":{"file_id":"of the client"}}]}]}`: false,
		`{"input":[{"id":"msg_1"}]}`:                                                                                                     true,
		`{"input":[{"id":"msg_1","type":null}]}`:                                                                                         true,
		`{"input":[{"id":"ig_1","type":"image_generation_call"}]}`:                                                                       true,
		`{"input":[{"id":"ig_1","type":"image_generation_call","result":"aGk="}]}`:                                                       false,
		`{"input":[{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`:                   false,
		`{"input":[{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}`:                                     false,
		`{"extra_body":{"google":{"cached_content":"cachedContents/1"}}}`:                                                                true,
		`{"data_sources":[{"type":"azure_search","parameters":{"index_name":"hr"}}]}`:                                                    true,
		`{"x":` + strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40) + `}`:                                                                true,
		`{"metadata":{"conversation":"c"}}`:                                                                                              false,
	} {
		o, err := jsonscan.Parse([]byte(body), 0)
		require.NoError(t, err, body)
		assert.Equal(t, want, namesKept(o), body)
	}
}
