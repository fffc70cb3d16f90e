package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// Engines are asked where they publish, if nobody says.
func TestDiscover(t *testing.T) {
	t.Parallel()
	for ranks := range 3 {
		w := engine(t, func(c *fleettest.Config) { c.Ranks = ranks }).Worker()
		w.Events, w.DataParallel = nil, 0
		r := oneWorker(t, w, func(o *Options) { o.Discover = true })
		assert.Equal(t, OK, r.Status)
		assert.Zero(t, r.Counts.Warning)
	}
}

// With the key an engine that wants one is healthy, and nobody reads the key.
func TestKey(t *testing.T) {
	t.Parallel()
	const key = "canary-1234"
	e := engine(t, func(c *fleettest.Config) { c.APIKey = key })
	r := oneWorker(t, e.Worker(), func(o *Options) { o.Key = key })
	assert.Equal(t, OK, r.Status)
	wrong := oneWorker(t, e.Worker(), func(o *Options) { o.Key = key + "5" })
	assert.Equal(t, Fault, wrong.Status)
	for _, each := range []*Report{r, wrong} {
		b, err := json.Marshal(each)
		require.NoError(t, err)
		assert.NotContains(t, string(b), key)
	}
}

// Two workers, one of them ill: each has its own findings, in the fleet's order.
func TestFleetOfTwo(t *testing.T) {
	t.Parallel()
	good, bad := engine(t), engine(t, func(c *fleettest.Config) { c.Name = "gpu-1" })
	require.NoError(t, bad.Kill())
	r := examine(t, Options{Workers: []fleet.Worker{good.Worker(), {Name: "gpu-1", URL: bad.URL()}}})
	require.Len(t, r.Workers, 2)
	assert.Equal(t, []Status{OK, Fault}, []Status{r.Workers[0].Status, r.Workers[1].Status})
	assert.Equal(t, Fault, r.Status)
	assert.Len(t, r.Workers[1].Checks, len(checks()))
}

// What there was no time for is said, and is a fault: it was not found to be well.
func TestNoTimeLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := Run(ctx, Options{Workers: []fleet.Worker{engine(t).Worker()}})
	require.NoError(t, err)
	assert.Equal(t, Fault, r.Status)
	assert.Equal(t, len(checks()), r.Counts.Fault)
}

func TestInvalidFleet(t *testing.T) {
	t.Parallel()
	_, err := Run(context.Background(), Options{Workers: []fleet.Worker{{Name: "a"}}})
	assert.ErrorIs(t, err, fleet.ErrInvalidWorker)
}

// fixture is a report of all statuses.
func fixture() *Report {
	p := &patient{worker: fleet.Worker{Name: "gpu-0", URL: "http://10.0.0.7:8000"}, engine: fleet.EngineVLLM, version: "0.32.0"}
	p.found = []Finding{
		{Check: "health", Status: OK, Summary: "/health answers in 1ms", Facts: Facts{"status": 200}},
		{
			Check: "events", Subject: "tcp://10.0.0.7:5557", Status: Fault, Summary: "event stream not connected: connection refused",
			Advice: "Does the engine publish, and on this port? vLLM binds an address with a star only (tcp://*:5557); others it connects to: " + vllmEvents,
		},
		{Check: "caching", Status: Warning, Summary: "so-so"},
		{Check: "probe", Status: Skipped, Summary: "not asked for"},
	}
	files := []Finding{{Check: "files", Subject: "qwen3", Status: OK, Summary: "/models/qwen3: qwen3, content 3300e680764b"}}
	return newReport(time.Date(2026, 11, 30, 4, 5, 6, 7, time.UTC), files, []*patient{p})
}

func TestText(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, fixture().WriteText(&b, false))
	golden(t, "testdata/report.txt", b.Bytes())
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(line, "enable_kv_cache_events") { // words that are to be copied stay whole
			assert.LessOrEqual(t, len(line), width+1, line)
		}
	}
	b.Reset()
	require.NoError(t, fixture().WriteText(&b, true))
	assert.Contains(t, b.String(), "\x1b[1;31mFAULT  \x1b[0m events")
	plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAll(b.Bytes(), nil)
	golden(t, "testdata/report.txt", plain)
}

// What an engine says of itself does not control the terminal.
func TestTextIsPrintable(t *testing.T) {
	t.Parallel()
	r := fixture()
	r.Workers[0].Version = "0.32\x1b[2J"
	r.Workers[0].Checks[0].Summary = "serves \x1b]0;title\x07 \u009b2J"
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b, false))
	assert.NotContains(t, b.String(), "\x1b")
	assert.NotContains(t, b.String(), "\u009b")
}

// The JSON form is what docs/doctor.md describes; programs rely on it.
func TestJSON(t *testing.T) {
	t.Parallel()
	b, err := json.MarshalIndent(fixture(), "", "  ")
	require.NoError(t, err)
	golden(t, "testdata/report.json", append(b, '\n'))
}

// golden compares with a file; to write it anew, remove it and run the test.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		require.NoError(t, os.WriteFile(name, got, 0o600))
		t.Fatalf("%s was written: look at it", name)
	}
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

const page = "../../../../docs/doctor.md"

// The page explains each check under a heading of its own, in their order.
func TestPageHasEachCheck(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	var headings []string
	for _, m := range regexp.MustCompile("(?m)^### `([a-z]+)`").FindAllStringSubmatch(string(b), -1) {
		headings = append(headings, m[1])
	}
	var want []string
	for _, c := range checks() {
		want = append(want, c.name)
	}
	assert.Equal(t, want, headings)
}

// What is called tested is what docs/compat.md has tests for.
func TestTestedRangesAreThoseOfCompat(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../../docs/compat.md")
	require.NoError(t, err)
	_, vllm, _ := strings.Cut(string(b), "\n## vLLM: events\n")
	vllm, sglang, _ := strings.Cut(vllm, "\n## SGLang: events\n")
	sglang, _, _ = strings.Cut(sglang, "\n|")
	for engine, text := range map[fleet.Engine]string{fleet.EngineVLLM: vllm, fleet.EngineSGLang: sglang} {
		var seen [][2]int
		for _, v := range regexp.MustCompile(`\b0\.\d+\.\d+\b`).FindAllString(text, -1) {
			n, numbered := majorMinor(v)
			require.True(t, numbered)
			seen = append(seen, n)
		}
		require.NotEmpty(t, seen)
		compare := func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }
		versions, _ := tested(engine)
		assert.Equal(t, slices.MaxFunc(seen, compare), versions.to, engine)
		if engine == fleet.EngineSGLang {
			assert.Equal(t, slices.MinFunc(seen, compare), versions.from, engine)
		} else { // the page also says what came before
			assert.Contains(t, seen, versions.from)
		}
	}
}
