package dialect

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Services quote what the client sent: words there about the gateway's account are the
// client's, be it a value or the name of a field.
func TestQuotedWordsAreTheClients(t *testing.T) {
	type codec interface {
		DecodeFailure(status int, h http.Header, body []byte) *Failure
	}
	for _, words := range []string{
		"Your credit balance is too low", "credit balance", "You have reached your specified API usage limits.", "usage limits",
		"This organization has been disabled.", "organization has been disabled", "API key not valid. Please", "API key expired",
		"Invalid access token",
	} {
		for _, message := range []string{
			"tools.0: Input tag '" + words + "' found using 'type' does not match any of the expected tags",
			"Invalid value: '" + words + "'. Supported values are: 'a'.",
			words + ": Extra inputs are not permitted",
			" " + words,
		} {
			body, err := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": message}})
			require.NoError(t, err)
			for _, c := range []codec{Messages(), Chat()} {
				for _, status := range []int{0, 400, 422} {
					f := c.DecodeFailure(status, nil, body)
					assert.Equal(t, FailRequest, f.Kind, "%T %d: %s", c, status, message)
					assert.False(t, f.Credential, "%T %d: %s", c, status, message)
				}
			}
		}
		f := Chat().DecodeFailure(http.StatusForbidden, nil, []byte(`{"error":{"message":"no access to model '`+words+`'"}}`))
		assert.Equal(t, FailAuth, f.Kind)
		assert.False(t, f.Credential, words)
	}
}
