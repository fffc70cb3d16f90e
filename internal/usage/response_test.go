package usage

import "testing"

// The id is that of the response, not of an item in it or of another API's answer.
func TestResponseID(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		want bool
		data []string
		id   string
	}{
		"whole":        {true, []string{`{"id":"resp_1","object":"response","output":[{"id":"msg_1"}]}`}, "resp_1"},
		"stream":       {true, []string{`{"type":"response.created","response":{"id":"resp_2","object":"response"}}`, `{"type":"x","item":{"id":"msg"}}`}, "resp_2"},
		"first counts": {true, []string{`{"response":{"id":"resp_3"}}`, `{"response":{"id":"resp_4"}}`}, "resp_3"},
		"chat":         {true, []string{`{"id":"chatcmpl-1","object":"chat.completion"}`}, ""},
		"odd":          {true, []string{`{"id":7,"object":"response"}`, `{"response":[]}`}, ""},
		"not wanted":   {false, []string{`{"id":"resp_1","object":"response"}`}, ""},
	} {
		r := Reader{WantResponse: test.want}
		for _, d := range test.data {
			r.Read([]byte(d))
		}
		if r.ResponseID() != test.id {
			t.Errorf("%s: %q, want %q", name, r.ResponseID(), test.id)
		}
	}
}
