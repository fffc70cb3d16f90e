package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Gemini says INVALID_ARGUMENT to all of these, and puts errors into lists.
func TestGeminiFailures(t *testing.T) {
	for message, want := range map[string]FailureKind{
		"API key not valid. Please pass a valid API key.":                                         FailAuth,
		"API key expired. Please renew the API key.":                                              FailAuth,
		"The prompt was blocked for safety: PROHIBITED_CONTENT.":                                  FailContent,
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": FailContext,
		"Request contains an invalid argument.":                                                   FailRequest,
	} {
		body := []byte(`[{"error":{"code":400,"message":"` + message + `","status":"INVALID_ARGUMENT"}}]`)
		assert.Equal(t, want, Chat().DecodeFailure(400, nil, body).Kind, message)
	}

	var last Event
	err := Chat().NewStreamDecoder().Decode("", []byte(` [{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`), func(ev *Event) { last = *ev })
	require.NoError(t, err)
	require.Equal(t, Fail, last.Kind)
	assert.Equal(t, FailOverloaded, last.Failure.Kind)

	assert.Error(t, Chat().NewStreamDecoder().Decode("", []byte(`[1]`), func(*Event) {}))
}
