package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

func examine(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = dispatch(context.Background(), commands(), append([]string{"doctor"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// fakes starts engines and writes a fleet file of them.
func fakes(t *testing.T, n int) ([]*fleettest.Engine, string) {
	t.Helper()
	var list struct {
		Workers []fleet.Worker `json:"workers"`
	}
	engines := make([]*fleettest.Engine, n)
	for i := range engines {
		engines[i] = fleettest.New(t, fleettest.Config{
			Name: fmt.Sprintf("gpu-%d", i), Speed: math.Inf(1), ZMQ: true, Render: true, APIKey: "canary-1234",
		})
		list.Workers = append(list.Workers, engines[i].Worker())
	}
	b, err := json.Marshal(list)
	require.NoError(t, err)
	return engines, write(t, "fleet.json", string(b))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDoctor(t *testing.T) {
	engines, fleetFile := fakes(t, 2)
	key := write(t, "key", "canary-1234\n")
	code, out, errs := examine("-fleet", fleetFile, "-key", key, "-probe")
	require.Zero(t, code, out+errs)
	assert.Empty(t, errs)
	for _, want := range []string{"gpu-0  " + engines[0].URL(), "gpu-1  " + engines[1].URL(), "2 workers: 0 faults, 0 warnings, 22 ok"} {
		assert.Contains(t, out, want)
	}
	assert.NotContains(t, out, "\x1b")
	assert.NotContains(t, out, "canary")

	code, out, errs = examine("-key", key, "-json", engines[0].URL(), strings.TrimPrefix(engines[1].URL(), "http://"))
	require.Zero(t, code, out+errs)
	var r struct {
		Version int
		Status  string
		Workers []struct{ Name, URL string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, 1, r.Version)
	assert.Equal(t, "ok", r.Status)
	require.Len(t, r.Workers, 2)
	assert.Equal(t, engines[1].URL(), r.Workers[1].URL)
	assert.Equal(t, "http://"+r.Workers[1].Name, r.Workers[1].URL)

	code, out, _ = examine(fleetFile) // without the key
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, out, "it wants a key")
}

func TestDoctorCannotLook(t *testing.T) {
	t.Parallel()
	_, fleetFile := fakes(t, 1)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"two files":        {[]string{"-fleet", fleetFile, fleetFile}, "usage: kvsteer doctor"},
		"nothing":          {nil, "usage: kvsteer doctor"},
		"both":             {[]string{"-fleet", fleetFile, "http://127.0.0.1:1"}, "usage: kvsteer doctor"},
		"no time":          {[]string{"-timeout", "0s", "-fleet", fleetFile}, "usage: kvsteer doctor"},
		"unknown flag":     {[]string{"-frob"}, "frob"},
		"a flag too late":  {[]string{fleetFile, "-probe"}, "write flags before"},
		"late, with URLs":  {[]string{"http://127.0.0.1:1", "-json"}, "write flags before"},
		"files":            {[]string{"-fleet", fleetFile, "-files", "model"}, "want MODEL=DIR"},
		"no fleet file":    {[]string{"-fleet", "none.yaml"}, "-fleet none.yaml: "},
		"empty fleet":      {[]string{"-fleet", write(t, "a.yaml", "workers: []")}, "it lists no workers"},
		"wrong fleet":      {[]string{"-fleet", write(t, "b.yaml", "workers: [{name: a, url: 'ftp://a'}]")}, "url"},
		"no key file":      {[]string{"-key", "none", "-fleet", fleetFile}, "-key: "},
		"a wrong address":  {[]string{"http://127.0.0.1:99999"}, "port"},
		"a secret address": {[]string{"http://me:canary@127.0.0.1:1"}, "user name or password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := examine(c.args...)
			assert.Equal(t, exitUsage, code)
			assert.Empty(t, out)
			assert.Contains(t, errs, c.says)
			assert.NotContains(t, errs, "canary")
		})
	}
	code, _, errs := examine("-h")
	assert.Zero(t, code)
	assert.Contains(t, errs, "docs/doctor.md")
}

// Engines behind one host are told apart by their paths.
func TestDoctorOneHost(t *testing.T) {
	t.Parallel()
	workers := workersAt([]string{"http://gw:8000/a/", "gw:8000/b", "http://gw:8001"})
	require.NoError(t, fleet.Validate(workers))
	var names []string
	for i := range workers {
		names = append(names, workers[i].Name)
	}
	assert.Equal(t, []string{"gw:8000/a", "gw:8000/b", "gw:8001"}, names)
}

// A warning is no fault, unless one says so.
func TestDoctorStrict(t *testing.T) {
	t.Parallel()
	e := fleettest.New(t, fleettest.Config{Speed: math.Inf(1)}) // publishes no events
	code, out, _ := examine(e.URL())
	assert.Equal(t, exitOK, code, out)
	assert.Contains(t, out, "routing is approximate")
	code, _, _ = examine("-strict", e.URL())
	assert.Equal(t, exitFailed, code)
}

func TestDoctorInterrupted(t *testing.T) {
	t.Parallel()
	_, fleetFile := fakes(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	assert.Equal(t, exitUsage, runDoctor(ctx, []string{"-fleet", fleetFile}, &out, &errs))
	assert.Empty(t, out.String())
	assert.Contains(t, errs.String(), "interrupted")
}
