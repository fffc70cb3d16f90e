//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// vllmStarts is how long a server may take to start: half a minute on an idle machine.
const vllmStarts = 15 * time.Minute

// Two real vLLM servers behind Envoy, routed by their KV events. They take minutes to
// start and gigabytes, hence KVSTEER_E2E_VLLM=1: make e2e-envoy-vllm. Servers that run
// already, with empty caches, can be given as KVSTEER_E2E_VLLM_AT=PORT:EVENTS:REPLAY,...
func TestVLLMBehindEnvoy(t *testing.T) {
	if os.Getenv("KVSTEER_E2E_VLLM") != "1" {
		t.Skip("NOT RUN: real vLLM servers are used with KVSTEER_E2E_VLLM=1 only (make e2e-envoy-vllm)")
	}
	const scripts = "../../../internal/e2e/vllm/"
	var workers []fleet.Worker
	add := func(p []int) {
		workers = append(workers, fleet.Worker{
			Name: fmt.Sprintf("vllm-%d", len(workers)), URL: fmt.Sprintf("http://127.0.0.1:%d", p[0]),
			Events: []follow.Endpoint{{Events: fmt.Sprintf("tcp://127.0.0.1:%d", p[1]), Replay: fmt.Sprintf("tcp://127.0.0.1:%d", p[2])}},
		})
	}
	if running := os.Getenv("KVSTEER_E2E_VLLM_AT"); running != "" {
		for one := range strings.SplitSeq(running, ",") {
			p := make([]int, 3)
			_, err := fmt.Sscanf(one, "%d:%d:%d", &p[0], &p[1], &p[2])
			require.NoError(t, err)
			add(p)
		}
	} else {
		ctx, cancel := context.WithTimeout(t.Context(), vllmStarts)
		defer cancel()
		out, err := exec.CommandContext(ctx, "bash", scripts+"setup.sh").CombinedOutput()
		require.NoError(t, err, "%s", out)
		for range 2 {
			p := freePorts(t, 3)
			add(p)
			startVLLM(t, scripts, p)
		}
	}
	for _, w := range workers {
		require.Eventually(t, func() bool {
			resp, err := http.Get(w.URL + "/health")
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		}, vllmStarts, time.Second, w.Name)
	}
	r := newRig(t, rigConfig{workers: workers, events: &zmtp.Transport{}})

	// Four conversations, each longer at every turn.
	for turn := range 4 {
		for c := range 4 {
			text := fleettest.Text(uint64(c), 600)
			for i := range turn {
				text += " " + fleettest.Text(uint64(100*c+i), 100)
			}
			body := strings.Replace(chat(text, turn%2 == 0, 8), `"model":"m"`, `"model":"tiny"`, 1)
			a := r.post("/v1/chat/completions", body)
			require.Equal(t, http.StatusOK, a.status, a.body)
			time.Sleep(500 * time.Millisecond) // until the engine's events are here, as between turns of people
		}
	}
	a := r.post("/v1/completions", `{"model":"tiny","prompt":"one two three","max_tokens":4}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	a = r.post("/v1/messages", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	r.idle()
	agree, cached, prompt := 0, 0, 0
	all := r.seen.all()
	for i, o := range all[:16] {
		require.NoError(t, o.Err)
		require.True(t, o.Usage.CachedKnown, "usage was read from the answer")
		if o.Usage.CacheRead == o.CachedPredicted {
			agree++
		}
		cached, prompt = cached+o.Usage.CacheRead, prompt+o.Usage.Prompt()
		if i >= 4 {
			d := o.Decision
			require.Equal(t, d.Candidates[d.Chosen].Name, all[i%4].Decision.Candidates[all[i%4].Decision.Chosen].Name, "a conversation stays where it is cached")
			require.Equal(t, kvcache.Exact, d.Candidates[d.Chosen].Trust)
		}
	}
	t.Logf("%d of 16 predictions of cached tokens equal vLLM's report; %d of %d prompt tokens were cached", agree, cached, prompt)
	require.GreaterOrEqual(t, agree, 14)
}

func startVLLM(t *testing.T, scripts string, p []int) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command("bash", filepath.Join(scripts, "worker.sh"),
		"--port", fmt.Sprint(p[0]), "--events-port", fmt.Sprint(p[1]), "--replay-port", fmt.Sprint(p[2]))
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the end of vLLM's log:\n%s", log.Bytes()[max(0, log.Len()-2000):])
		}
	})
}
