//go:build e2e

package prompt_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/prompt/requests"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// TestShapes sends requests with one unusual thing each, all that the generator has, to
// models of few tokens: what the engine takes and is answered locally has the same ids.
func TestShapes(t *testing.T) {
	script(t, "../vllm/setup.sh")
	all := subjects(t)
	url := renderServer(t, "render", all)
	shapes := requests.Shapes()
	for _, sub := range all {
		switch sub.name {
		case "llama_new", "gemma": // parts and strings; their templates print all that they see
		default:
			continue
		}
		t.Run(sub.name, func(t *testing.T) {
			src, err := local.New(local.Options{Models: map[string]local.Model{modelName: sub.model}})
			require.NoError(t, err)
			defer func() { _ = src.Close() }()
			s := &server{url: url + "/" + sub.name, http: &http.Client{Timeout: 5 * time.Minute}}
			c := &tally{equal: map[prompt.API]int{}, passed: map[string]int{}}
			for _, r := range shapes {
				if diff := one(t, c, src, s, r); diff != "" {
					t.Error(diff)
				}
			}
			t.Logf("%-12s %d shapes: %s", sub.name, len(shapes), c)
		})
	}
}
