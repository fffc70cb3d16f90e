package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sampleTrace = "internal/simulate/testdata/trace.jsonl"

func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = dispatch(context.Background(), commands(), append([]string{"simulate"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// The keys and names that others parse.
func TestSimulateJSON(t *testing.T) {
	code, out, errs := runCommand(t, "-workload", sampleTrace, "-workers", "4", "-cache-tokens", "300000", "-prefill-rate", "20000", "-json")
	require.Equal(t, exitOK, code, errs)
	require.Empty(t, errs)
	var got struct {
		Workload string           `json:"workload"`
		Rows     []map[string]any `json:"rows"`
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&got))
	require.Equal(t, "trace", got.Workload)
	var names []string
	for _, row := range got.Rows {
		require.Len(t, row, 9)
		name, ok := row["router"].(string)
		require.True(t, ok)
		names = append(names, name)
		for _, key := range []string{
			"ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "itl_p50_ms", "e2e_p50_s", "goodput_per_min",
		} {
			v, ok := row[key].(float64)
			require.True(t, ok, key)
			require.Positive(t, v, key)
		}
		require.GreaterOrEqual(t, row["hit_rate"], 0.0)
	}
	require.Equal(t, []string{
		"random", "round-robin", "least-requests", "power-of-two", "session-hash", "sglang", "llm-d", "dynamo",
		"lowest-ttft", "bound", "kvsteer",
	}, names)
}

func TestSimulateTable(t *testing.T) {
	args := []string{
		"-workload", "multi-turn", "-rate", "2", "-duration", "30s", "-rules", "random, kvsteer", "-prefill-rate", "10000",
		"-event-loss", "0.01", "-stale", "5s", "-slow", "3", "-repeat", "2",
	}
	code, out, errs := runCommand(t, args...)
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "Simulation of multi-turn")
	require.Contains(t, out, "kvsteer")
	_, again, _ := runCommand(t, args...)
	require.Equal(t, out, again)
	_, other, _ := runCommand(t, append(args, "-seed", "7")...)
	require.NotEqual(t, out, other)
}

func TestSimulateSweepWithPlots(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := runCommand(t, "-workload", "shared-prefix", "-concurrency", "2,4", "-duration", "60s", "-prefill-rate", "20000",
		"-rules", "random,kvsteer", "-json", "-plot", dir)
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, 2, strings.Count(out, "\n"), "an object a line")
	require.Contains(t, out, `"workload":"shared-prefix@2"`)
	for _, name := range []string{"shared-prefix-goodput", "shared-prefix@2-ttft", "shared-prefix@4-hits"} {
		data, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		require.NoError(t, err)
		require.Contains(t, string(data), "kvsteer")
	}
}

func TestSimulateFleetFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(path, []byte("workers:\n- {count: 2, block_size: 64, prefill_rate: 9000}\n- {block_size: 64, class: old, speed: 0.5}\n"), 0o600))
	code, out, errs := runCommand(t, "-fleet", path, "-workload", sampleTrace, "-rules", "kvsteer")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "kvsteer")
}

func TestSimulateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"flag":        {[]string{"-nonsense"}, exitUsage, "nonsense"},
		"argument":    {[]string{"x"}, exitUsage, `"x"`},
		"rule":        {[]string{"-rules", "best", "-rate", "1"}, exitFailed, "best"},
		"file":        {[]string{"-workload", "no-such-file"}, exitFailed, "neither a name nor a file"},
		"fleet":       {[]string{"-fleet", "no-such-file"}, exitFailed, "fleet"},
		"concurrency": {[]string{"-concurrency", "4,x"}, exitFailed, "x"},
		"slow":        {[]string{"-slow", "0"}, exitFailed, "-slow"},
		"repeat":      {[]string{"-rate", "1", "-repeat", "0"}, exitFailed, "-repeat"},
		"workers":     {[]string{"-rate", "1", "-workers", "0"}, exitFailed, "-workers"},
		"arrivals":    {nil, exitFailed, "a rate or a concurrency"},
	} {
		code, _, errs := runCommand(t, c.args...)
		require.Equal(t, c.code, code, name)
		require.Contains(t, errs, c.want, name)
	}
	code, _, errs := runCommand(t, "-h")
	require.Equal(t, exitOK, code)
	require.Contains(t, errs, "simulation, not a measurement")
}

func TestSimulateGrid(t *testing.T) {
	args := []string{
		"-workload", sampleTrace, "-limit", "20", "-rules", "dynamo,sglang,bound,kvsteer", "-prefill-rate", "20000", "-grid",
	}
	code, out, errs := runCommand(t, args...)
	require.Equal(t, exitOK, code, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2+27)
	for _, line := range lines {
		require.Equal(t, strings.Count(lines[0], "|"), strings.Count(line, "|"), line)
	}
	require.Contains(t, lines[0], "| bound mean | kvsteer mean | of it | p99 | of it |")
	require.True(t, strings.HasPrefix(lines[2], "| 4 | 0.4M | x0.5 | "), lines[2])
	code, _, _ = runCommand(t, append(args, "-json")...)
	require.Equal(t, exitFailed, code)
}
