package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		"rule":        {[]string{"-rules", "best", "-rate", "1"}, exitFailed, `"best"; there are random, round-robin`},
		"more rules":  {[]string{"-rules", "best", "-rate", "1"}, exitFailed, "bound-fifo, kvsteer-queue"},
		"file":        {[]string{"-workload", "no-such-file"}, exitFailed, "neither a name nor a file"},
		"fleet":       {[]string{"-fleet", "no-such-file"}, exitFailed, "fleet"},
		"concurrency": {[]string{"-concurrency", "4,x"}, exitFailed, "x"},
		"slow":        {[]string{"-slow", "0"}, exitFailed, "-slow"},
		"repeat":      {[]string{"-rate", "1", "-repeat", "0"}, exitFailed, "-repeat"},
		"workers":     {[]string{"-rate", "1", "-workers", "0"}, exitFailed, "-workers"},
		"arrivals":    {nil, exitFailed, "a rate or a concurrency"},
		"roles":       {[]string{"-workers", "3", "-prefill-workers", "2", "-decode-workers", "2"}, exitFailed, "-prefill-workers"},
		"no decoder":  {[]string{"-rate", "1", "-workers", "2", "-prefill-workers", "2"}, exitFailed, "some must decode"},
		"role rules":  {[]string{"-rules", "bound", "-prefill-workers", "1"}, exitFailed, "bound knows no workers of separate roles"},
		"failures":    {[]string{"-failures", "2"}, exitUsage, "-failures"},
		"loss":        {[]string{"-event-loss", "NaN"}, exitUsage, "-event-loss"},
		"replicas":    {[]string{"-rate", "1", "-replicas", "0"}, exitUsage, "-replicas 0: want 1 to 64"},
		"too many":    {[]string{"-rate", "1", "-replicas", "65"}, exitUsage, "-replicas 65"},
		"exchange":    {[]string{"-exchange", "maybe"}, exitUsage, "want on or off"},
		"delay":       {[]string{"-exchange-delay", "-2ms"}, exitUsage, "exchange-delay"},
		"lossy":       {[]string{"-exchange-loss", "1.5"}, exitUsage, "-exchange-loss 1.5: want a share"},
		"replicated":  {[]string{"-rate", "1", "-replicas", "2", "-rules", "bound"}, exitFailed, "bound knows everything"},
		"warmup":      {[]string{"-warmup", "-1s"}, exitUsage, "warmup"},
	} {
		code, _, errs := runCommand(t, c.args...)
		require.Equal(t, c.code, code, name)
		require.Contains(t, errs, c.want, name)
	}
	code, _, errs := runCommand(t, "-h")
	require.Equal(t, exitOK, code)
	require.Contains(t, errs, "simulation, not a measurement")
	require.NotContains(t, errs, "-1ns")
	for _, workload := range []string{"shared-prefix", "multi-turn", "control", "hot-prefix", "agents", "long-prompts"} {
		require.Contains(t, errs, workload)
	}
}

// The examples of the help do what they say, with less load.
func TestSimulateExamples(t *testing.T) {
	_, _, help := runCommand(t, "-h")
	_, examples, _ := strings.Cut(help, "Examples:")
	examples, _, _ = strings.Cut(examples, "Flags:")
	_, fleet, _ := strings.Cut(help, "can be left out:")
	fleet, _, _ = strings.Cut(fleet, "A worker with the role")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(fleet), 0o600))
	trace, err := os.ReadFile(sampleTrace)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "trace.jsonl"), trace, 0o600))
	t.Chdir(dir)
	n := 0
	for line := range strings.Lines(examples) {
		args := strings.Fields(line)
		if len(args) == 0 {
			continue
		}
		n++
		require.Equal(t, []string{"kvsteer", "simulate"}, args[:2])
		args = append(args[2:], "-duration", "2s")
		code, out, errs := runCommand(t, args...)
		require.Equal(t, exitOK, code, "%s: %s", line, errs)
		require.Contains(t, out, "kvsteer")
	}
	require.Greater(t, n, 3)
	plots, err := filepath.Glob(filepath.Join(dir, "out", "*.svg"))
	require.NoError(t, err)
	require.Len(t, plots, 3*2+1)
}

// By default all rules that know roles are compared.
func TestSimulateRoles(t *testing.T) {
	code, out, errs := runCommand(t, "-workload", "multi-turn", "-rate", "4", "-duration", "40s", "-workers", "4", "-prefill-rate", "40000",
		"-prefill-workers", "2", "-decode-workers", "2", "-transfer-rate", "50000", "-block-size", "64", "-failures", "0.3")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "two workers %")
	require.Contains(t, out, "failed %")
	for _, name := range []string{"round-robin", "sglang", "llm-d", "dynamo", "kvsteer"} {
		require.Contains(t, out, name+" ")
	}
	_, table, _ := strings.Cut(out, "\n")
	require.NotContains(t, table, "bound")
	require.NotContains(t, table, "lowest-ttft")
	code, out, errs = runCommand(t, "-rate", "1", "-duration", "10s", "-prefill-rate", "40000", "-block-size", "64", "-failures", "0.3")
	require.Equal(t, exitOK, code, errs)
	_, table, _ = strings.Cut(out, "\n")
	require.NotContains(t, table, "bound")
	require.Contains(t, table, "lowest-ttft")
	require.NotContains(t, table, "two workers")
}

// The bar moves while a simulation is under way, and is gone at the end.
func TestBar(t *testing.T) {
	var b bytes.Buffer
	x := newBar(io.Discard, 2, time.Minute)
	require.Nil(t, x.w, "no terminal")
	x.w = &b
	progress, done := x.run()
	progress(6 * time.Second)
	require.Contains(t, b.String(), "   5%, 0 of 2 runs")
	before := b.Len()
	progress(6*time.Second + time.Millisecond)
	require.Equal(t, before, b.Len(), "nothing has changed")
	progress(time.Hour)
	require.Contains(t, b.String(), "  50%, 0 of 2 runs", "no more than all of it")
	done()
	require.Contains(t, b.String(), "  50%, 1 of 2 runs")
	x.done()
	require.True(t, strings.HasSuffix(b.String(), " \r"))
	before = b.Len()
	progress(0)
	x.done()
	require.Equal(t, before, b.Len())
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

// Several routers: the rows are those of one, and what they are of is said beside.
func TestSimulateReplicas(t *testing.T) {
	args := []string{
		"-workload", "multi-turn", "-rate", "4", "-duration", "20s", "-prefill-rate", "20000", "-block-size", "64", "-stale", "1s",
	}
	type answer struct {
		Workload string           `json:"workload"`
		Replicas int              `json:"replicas"`
		Exchange string           `json:"exchange"`
		Rows     []map[string]any `json:"rows"`
	}
	ask := func(more ...string) (got answer) {
		code, out, errs := runCommand(t, append(append([]string{"-json"}, args...), more...)...)
		require.Equal(t, exitOK, code, errs)
		d := json.NewDecoder(strings.NewReader(out))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&got))
		return got
	}
	one, again := ask("-rules", "kvsteer"), ask("-rules", "kvsteer", "-replicas", "1", "-exchange", "off", "-exchange-loss", "1")
	require.Equal(t, one, again, "one router has nobody to tell")
	require.Zero(t, one.Replicas)
	require.Empty(t, one.Exchange)

	on := ask("-replicas", "4", "-exchange-delay", "2ms", "-exchange-loss", "0.05", "-exchange", "on")
	require.Equal(t, 4, on.Replicas)
	require.Equal(t, "on", on.Exchange)
	names := map[any]bool{}
	for _, row := range on.Rows {
		require.Len(t, row, len(one.Rows[0]))
		names[row["router"]] = true
	}
	require.True(t, names["kvsteer"] && names["dynamo"] && names["round-robin"])
	require.False(t, names["bound"] || names["lowest-ttft"], "they know everything")
	require.Equal(t, on, ask("-replicas", "4", "-exchange-loss", "0.05"), "on and 2ms are what it is without")

	off := ask("-rules", "kvsteer", "-replicas", "4", "-exchange", "off")
	require.Equal(t, "off", off.Exchange)
	require.NotEqual(t, on.Rows[len(on.Rows)-1], off.Rows[0])

	code, out, errs := runCommand(t, append(args, "-rules", "kvsteer", "-replicas", "2")...)
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "seed 1, 2 routers, exchange on: ")
	_, _, help := runCommand(t, "-h")
	for _, flag := range []string{"-replicas many", "-exchange on or off", "-exchange-delay long", "-exchange-loss share", "(default 2ms)"} {
		require.Contains(t, help, flag)
	}
}
