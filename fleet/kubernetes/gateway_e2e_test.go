//go:build e2e

package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// The gateway of examples/kubernetes routes requests to engines whose pods are in the
// cluster, with the rights of rbac.yaml,
// and a pod that is being deleted gets nothing more.
func (r *rig) testGateway() {
	engines := map[string]*fleettest.Engine{}
	for _, name := range []string{"a", "b"} {
		e := fleettest.New(r.T, fleettest.Config{Speed: 1000})
		u, err := url.Parse(e.URL())
		require.NoError(r, err)
		pod := newPod(name, "", u.Hostname())
		pod.Annotations["kvsteer.dev/port"] = u.Port()
		r.create(pod)
		engines[name] = e
	}
	program := r.path("gateway")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../examples/kubernetes"
	out, err := build.CombinedOutput()
	require.NoError(r, err, string(out))
	r.write("gateway.kubeconfig", fmt.Sprintf(kubeconfig, r.config.Host, r.config.BearerToken))
	listen := "127.0.0.1:" + freePort(r.T)
	gateway := exec.Command(program, "-listen", listen, "-kubeconfig", r.path("gateway.kubeconfig"), "-policies")
	gateway.Stdout, gateway.Stderr = r.log, r.log
	require.NoError(r, gateway.Start())
	r.T.Cleanup(func() { end(gateway) })

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(prompt string) bool {
		body, err := json.Marshal(map[string]any{"model": "fake-model", "prompt": prompt, "max_tokens": 1})
		require.NoError(r, err)
		resp, err := client.Post("http://"+listen+"/v1/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(text), "choices")
	}
	waitFor(r.T, "the first routed request", func() bool { return ask("hello") })
	served := func(name string) int {
		n := 0
		for _, q := range engines[name].Requests() {
			if q.Path == "/v1/completions" {
				n++
			}
		}
		return n
	}
	r.Logf("a served %d, b served %d", served("a"), served("b"))
	r.must("", "delete", "pod", "-n", ns, "a", "--wait=false")
	waitFor(r.T, "that a gets nothing more", func() bool {
		before := served("a")
		for i := range 5 {
			if !ask(fmt.Sprint("prompt ", i)) {
				return false
			}
		}
		return served("a") == before
	})
	before := served("a")
	for i := range 20 {
		require.True(r, ask(fmt.Sprint("another ", i)))
	}
	require.Equal(r, before, served("a"))
	require.NotZero(r, served("b"))
	end(gateway)
	r.kill("a", "b")
}
