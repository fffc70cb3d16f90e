package prompt

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// SGLang has no /render: a chat goes to /tokenize. It says of some tokenizers that
// they take any number of tokens, as a number that fits no int64 or as -1.
func TestSGLangTokenizesChats(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{
		"a usual limit": "40960", "no limit": "-1", "beyond int64": "18446744073709551615", "beyond any integer": "1000000000000000019884624838656",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := newEngine(t, map[string]http.HandlerFunc{
				"/tokenize": reply(http.StatusOK, `{"tokens":[1,2,3],"count":3,"max_model_len":`+limit+`}`),
			})
			e := newEncoder(t, Options{})
			enc := encode(t, e, Chat, chatBody, eng.URL)
			assert.Equal(t, []string{"/v1/chat/completions/render", "/tokenize"}, eng.paths())
			assert.Equal(t, SourceTokenize, enc.Source)
			assert.Equal(t, []uint32{1, 2, 3}, enc.Tokens)
			assert.Equal(t, []Degradation{{SourceRender, string(errAbsent)}}, enc.Degraded)
			again := encode(t, e, Chat, chatBody+" ", eng.URL)
			assert.Equal(t, []uint32{1, 2, 3}, again.Tokens)
		})
	}
}
