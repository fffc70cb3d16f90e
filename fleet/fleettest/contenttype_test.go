package fleettest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A client that forgets the content type must learn of it with the fake engine,
// not with the real one.
func TestContentTypesAreThoseThatVLLMTakes(t *testing.T) {
	t.Parallel()
	const body = `{"model":"fake-model","messages":[{"role":"user","content":"x"}],"max_tokens":1}`
	for _, test := range []struct {
		dialect Dialect
		kind    string
		status  int
	}{
		{VLLM, "application/json", http.StatusOK},
		{VLLM, "Application/JSON; charset=utf-8", http.StatusOK},
		{VLLM, "application/json ;charset=utf-8", http.StatusBadRequest},
		{VLLM, "", http.StatusBadRequest},
		{VLLM, "text/plain", http.StatusBadRequest},
		{SGLang, "", http.StatusOK},
	} {
		e := New(t, Config{Speed: fast, Dialect: test.dialect})
		for _, path := range []string{pathChat, "/tokenize"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if test.kind != "" {
				req.Header.Set("Content-Type", test.kind)
			}
			resp, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != test.status {
				t.Errorf("%s, %q: %d, %v", path, test.kind, resp.StatusCode, err)
			}
			if refused := strings.Contains(string(answer), "Unsupported Media Type"); refused != (test.status != http.StatusOK) {
				t.Errorf("%s, %q: %s", path, test.kind, answer)
			}
		}
	}
}
