package jsonscan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func TestUnescapeIsThatOfJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`a`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u4e2d`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ude00\ud83d`, `x\u0000`, `\ud83d\u0041`} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(`"`+text+`"`), &want))
		require.Equal(t, want, string(jsonscan.Unescape(nil, []byte(text))), text)
	}
	for _, text := range []string{`\`, `\x`, `\u12`, `C:\dir`, `\ug000`} {
		require.Equal(t, text, string(jsonscan.Unescape(nil, []byte(text))), "what is no escape stays")
	}
}
