//go:build e2e

package classify_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/fakejudge"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// asked is what a client sent.
type asked struct {
	method, path, contentType string
	body                      map[string]any
}

// TestModerationAsTheSDKHasIt has OpenAI's own SDK ask the fake, and our adapter after
// it. No moderation endpoint that is real can be had without an account.
func TestModerationAsTheSDKHasIt(t *testing.T) {
	env := setUp(t)
	score := func(text string) map[string]float64 {
		if strings.Contains(text, "bad") {
			return map[string]float64{"hate": 0.8, "self-harm/intent": 0.3}
		}
		return nil
	}
	for name, fake := range map[string]fakejudge.Moderation{"omni": {Score: score}, "older": {Score: score, Older: true}} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var all []asked
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				a := asked{method: r.Method, path: r.URL.Path, contentType: r.Header.Get("Content-Type")}
				if err != nil || json.Unmarshal(text, &a.body) != nil {
					t.Errorf("asked: %v, %s", err, text)
				}
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
				r.Body = io.NopCloser(bytes.NewReader(text))
				fake.ServeHTTP(w, r)
			}))
			defer srv.Close()

			texts := []string{"fine", "bad one"}
			var log bytes.Buffer
			args := slices.Concat([]string{"-B", "-P", "openai_client.py", srv.URL + "/v1", "omni-moderation-latest"}, texts)
			cmd := exec.CommandContext(t.Context(), env["KVSTEER_VLLM_PYTHON"], args...)
			cmd.Stderr = &log
			text, err := cmd.Output()
			require.NoError(t, err, "%s", log.String())
			var results []struct {
				Flagged    bool             `json:"flagged"`
				Categories map[string]*bool `json:"categories"`
			}
			require.NoError(t, json.Unmarshal(text, &results), "%s", text)
			require.Len(t, results, len(texts))

			e, _ := endpoint(t, srv.URL+"/v1/moderations")
			rules := []classify.Rule{{Tag: "flagged"}}
			for _, category := range fakejudge.Categories() {
				_, listed := results[0].Categories[category]
				require.True(t, listed, "the SDK has no category %q", category)
				rules = append(rules, classify.Rule{Tag: category, Labels: []string{category}})
			}
			require.Len(t, results[0].Categories, len(fakejudge.Categories()), "the fake has all that the SDK has")
			for i, text := range texts {
				for _, rule := range rules {
					m, err := classify.NewModeration(classify.ModerationOptions{Endpoint: e, Model: "omni-moderation-latest", Rules: []classify.Rule{rule}})
					require.NoError(t, err)
					out, err := judged(t, m, text)
					state := policy.TagAbsent
					verdict := &results[i].Flagged
					if rule.Tag != "flagged" {
						verdict = results[i].Categories[rule.Tag]
					}
					switch {
					case verdict == nil: // the model does not know that category
						require.ErrorIs(t, err, classify.ErrAnswer, rule.Tag)
						state = policy.TagUnknown
					case *verdict:
						require.NoError(t, err, rule.Tag)
						state = policy.TagPresent
					default:
						require.NoError(t, err, rule.Tag)
					}
					require.Equal(t, state, out.State(rule.Tag), "%s of %q", rule.Tag, text)
				}
			}

			m, err := classify.NewModeration(classify.ModerationOptions{Endpoint: e, Model: "omni-moderation-latest", Rules: rules[:1]})
			require.NoError(t, err)
			_, err = judged(t, m, texts...)
			require.NoError(t, err)
			require.Equal(t, all[0], all[len(all)-1], "the adapter asks as the SDK does")
		})
	}
}
