//go:build e2e

package prompt_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// TestProof has a Prover ask real engines: it confirms each model's own files, and
// finds the difference when an engine serves another model under the same name.
func TestProof(t *testing.T) {
	script(t, "../vllm/setup.sh")
	all := subjects(t)
	url := renderServer(t, "render", all)
	for i, sub := range all {
		t.Run(sub.name, func(t *testing.T) {
			sub.model.MaxModelLen = 32768
			own := proof(t, sub.model, url+"/"+sub.name)
			t.Log(own)
			assert.Equal(t, prompt.ProofPassed, own.State)
			assert.GreaterOrEqual(t, own.Compared, 30)
			other := all[(i+1)%len(all)]
			if other.name == sub.name {
				return
			}
			swapped := proof(t, sub.model, url+"/"+other.name)
			t.Logf("on %s: %s", other.name, swapped)
			assert.Equal(t, prompt.ProofFailed, swapped.State)
		})
	}
}

// proof proves files against the engine at a URL.
func proof(t *testing.T, m local.Model, url string) *prompt.ProofReport {
	t.Helper()
	src, err := local.New(local.Options{Models: map[string]local.Model{modelName: m}, Reload: -1})
	require.NoError(t, err)
	defer func() { _ = src.Close() }()
	reports := make(chan *prompt.ProofReport, 1)
	p := prompt.NewProver(src, prompt.ProverOptions{
		Timeout:  time.Minute,
		OnReport: func(r *prompt.ProofReport) { reports <- r },
	})
	defer func() { _ = p.Close() }()
	p.Join(prompt.Engine{ID: "engine", BaseURL: url}, []string{modelName})
	select {
	case r := <-reports:
		return r
	case <-time.After(5 * time.Minute):
		require.Fail(t, "no report", "%v", p.Status())
		return nil
	}
}
