//go:build e2e

package vllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// diagnosis is the part of kvsteer doctor's report that is looked at.
type diagnosis struct {
	Status string `json:"status"`
	Counts struct {
		Skipped int `json:"skipped"`
	} `json:"counts"`
	Workers []struct {
		Checks []struct {
			Check   string `json:"check"`
			Status  string `json:"status"`
			Summary string `json:"summary"`
		} `json:"checks"`
	} `json:"workers"`
}

// of returns how a check went.
func (d *diagnosis) of(check string) (status, summary string) {
	for _, c := range d.Workers[0].Checks {
		if c.Check == check {
			return c.Status, c.Summary
		}
	}
	return "", ""
}

// diagnose runs kvsteer doctor as a user would.
func diagnose(t *testing.T, binary string, args ...string) (d diagnosis, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, binary, append([]string{"doctor", "-timeout", "60s", "-json"}, args...)...).Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	} else {
		require.Equal(t, 1, exit.ExitCode(), "%s", exit.Stderr)
	}
	require.NoError(t, json.Unmarshal(text, &d))
	require.Len(t, d.Workers, 1)
	t.Logf("kvsteer doctor %v:\n%s", args, text)
	return d, exitCode(exit)
}

func exitCode(exit *exec.ExitError) int {
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

// TestDoctor examines a real engine with nothing wrong, then with what can be wrong
// about its description, then dead.
func TestDoctor(t *testing.T) {
	script(t, time.Hour, "setup.sh")
	binary := filepath.Join(outDir(t), "kvsteer")
	script(t, 20*time.Minute, "-c", "cd ../../.. && go build -o '"+binary+"' ./cmd/kvsteer")
	model := strings.TrimSpace(runScript(t, "-c", `. ./common.sh && echo "$model_dir"`))
	ports := freePorts(t, 3)
	w := &worker{name: "vllm-doctor", port: ports[0], events: ports[1], replay: ports[2]}
	w.start(t)
	w.waitHealthy(t)
	fleet := func(events, replay int, more string) string {
		path := filepath.Join(t.TempDir(), "fleet.yaml")
		text := fmt.Sprintf("workers:\n  - name: vllm\n    url: %s\n    events:\n      - {events: 'tcp://127.0.0.1:%d', replay: 'tcp://127.0.0.1:%d'}\n%s",
			w.url(), events, replay, more)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := fleet(w.events, w.replay, "")

	for _, args := range [][]string{
		{"-fleet", good, "-probe", "-files", modelName + "=" + model}, // before and after there are events
		{"-fleet", good, "-probe", "-files", modelName + "=" + model},
	} {
		d, code := diagnose(t, binary, args...)
		assert.Zero(t, code)
		assert.Equal(t, "ok", d.Status)
		assert.Zero(t, d.Counts.Skipped, "everything is looked at")
		_, summary := d.of("probe")
		assert.Contains(t, summary, "as predicted")
		assert.Contains(t, summary, "the engine's token ids are those known here")
	}
	d, code := diagnose(t, binary, "-probe", w.url())
	assert.Zero(t, code)
	assert.Equal(t, "ok", d.Status, "the engine says where it publishes")

	spoilt := t.TempDir()
	require.NoError(t, os.CopyFS(spoilt, os.DirFS(model)))
	template := filepath.Join(spoilt, "chat_template.jinja")
	require.NoError(t, os.WriteFile(template, []byte("{% for m in messages %}{{ m.content }}{% endfor %}"), 0o600))
	for check, args := range map[string][]string{
		"files":  {"-fleet", good, "-files", modelName + "=" + spoilt},
		"events": {"-fleet", fleet(w.replay, w.events, "")},
		"ranks":  {"-fleet", fleet(w.events, w.replay, "      - {events: 'tcp://127.0.0.1:1'}\n    dataParallel: 2\n")},
		"blocks": {"-fleet", fleet(w.events, w.replay, "    blockSize: 16\n")},
		"engine": {"-fleet", fleet(w.events, w.replay, "    engine: sglang\n")},
		"models": {"-fleet", fleet(w.events, w.replay, "    models: [other]\n")},
	} {
		d, code := diagnose(t, binary, args...)
		status, summary := d.of(check)
		assert.Equal(t, 1, code, check)
		assert.Equal(t, "fault", status, "%s: %s", check, summary)
	}

	w.process.kill()
	d, code = diagnose(t, binary, "-fleet", good)
	assert.Equal(t, 1, code)
	status, _ := d.of("health")
	assert.Equal(t, "fault", status)
}

// runScript is script with its output.
func runScript(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", argv...).Output()
	require.NoError(t, err)
	return string(out)
}
