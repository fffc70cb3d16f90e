//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// TestLoad holds idle streams and sends prompts at a constant rate, to an Envoy without
// the picker and to one with it, in turns, and prints how long they took. If one
// fails, so does the test; how long they take is not judged.
//
//	KVSTEER_LOAD_IDLE=2000 KVSTEER_LOAD_RATE=500 KVSTEER_LOAD_SECONDS=20   the defaults of make bench-envoy
func TestLoad(t *testing.T) {
	idle, rate, seconds := number("KVSTEER_LOAD_IDLE", 200), number("KVSTEER_LOAD_RATE", 50), number("KVSTEER_LOAD_SECONDS", 3)
	r := newRig(t, rigConfig{
		engine:  func(_ int, c *fleettest.Config) { c.Speed, c.OutputTokens, c.MaxRunning, c.Record = 1e6, 1, 4096, 1 },
		options: []kvsteer.Option{kvsteer.WithPredictor(nil)},
	})
	r.seen.brief = true
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
	plain := r.withoutPicker()
	var held []net.Conn
	for range idle {
		held = append(held, hold(t, r.url))
	}
	measured := map[string][]time.Duration{}
	for round := range 2 {
		for name, url := range map[string]string{"without": plain, "with": r.url} {
			measured[name] = append(measured[name], r.fire(url, rate, seconds, round)...)
		}
	}
	for _, conn := range held {
		finish(t, conn)
	}
	for _, name := range []string{"without", "with"} {
		all := measured[name]
		slices.Sort(all)
		t.Logf("%-8s picker: %d requests, p50 %v, p90 %v, p99 %v", name, len(all), at(all, 50), at(all, 90), at(all, 99))
	}
	picks := r.seen.took()
	slices.Sort(picks)
	t.Logf("of that the decisions, asking an engine for token ids included: p50 %v, p99 %v", at(picks, 50), at(picks, 99))
	t.Logf("added: p50 %v, p99 %v; %d idle streams, %d requests/s of 20 kB for 2 x %d s each",
		at(measured["with"], 50)-at(measured["without"], 50), at(measured["with"], 99)-at(measured["without"], 99), idle, rate, seconds)
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(10 * time.Microsecond)
}

// withoutPicker starts an Envoy that goes round-robin over the engines.
func (r *rig) withoutPicker() (url string) {
	r.t.Helper()
	raw, err := os.ReadFile("../../../examples/extproc/envoy-retries.yaml")
	require.NoError(r.t, err)
	yaml := string(raw)
	cut := func(from, to string) {
		i := strings.Index(yaml, from)
		require.Positive(r.t, i, from)
		j := strings.Index(yaml[i:], to)
		require.Positive(r.t, j, to)
		yaml = yaml[:i] + yaml[i+j:]
	}
	cut("                  - name: envoy.filters.http.ext_proc", "                  - name: envoy.filters.http.router")
	cut("      load_balancing_policy:", "      circuit_breakers:")
	ports := freePorts(r.t, 2)
	line := "              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8002 } } }\n"
	yaml = strings.Replace(yaml, line, line+strings.Replace(line, "8002", "8003", 1), 1)
	swap := []string{"port_value: 8080", fmt.Sprint("port_value: ", ports[0]), "port_value: 9901", fmt.Sprint("port_value: ", ports[1])}
	for i, e := range r.engines {
		swap = append(swap, fmt.Sprint("port_value: 800", i+1), "port_value: "+e.URL()[strings.LastIndex(e.URL(), ":")+1:])
	}
	runEnvoy(r.t, strings.NewReplacer(swap...).Replace(yaml), "")
	url = fmt.Sprint("http://127.0.0.1:", ports[0])
	require.Eventually(r.t, func() bool {
		resp, err := r.client.Get(url + "/version")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, wait, 50*time.Millisecond)
	return url
}

// heldBody is what hold sends heldFirst bytes of.
const (
	heldFirst = 9
	heldBody  = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`
)

// hold opens a request and leaves it at a part of its body: a stream of the picker's that
// is idle until finish.
func hold(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: wait}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(heldBody), heldBody[:heldFirst])
	require.NoError(t, err)
	return conn
}

// finish sends the rest. The request must still be there, not refused or cut off.
func finish(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*wait)))
	_, err := io.WriteString(conn, heldBody[heldFirst:])
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, conn.Close())
}

// fire sends requests at a constant rate, however long they take.
func (r *rig) fire(url string, rate, seconds, round int) []time.Duration {
	r.t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	filler := strings.Repeat("lorem ipsum dolor sit amet ", 740)[:19_900]
	for i := range rate * seconds {
		<-tick.C
		body := chat(fmt.Sprintf("%d %d %s", round, i, filler), true, 1)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*wait)
			defer cancel()
			began := time.Now()
			if err := r.once(ctx, url, body); err != nil {
				r.t.Errorf("request %d: %v", i, err)
			}
			d := time.Since(began)
			mu.Lock()
			took = append(took, d)
			mu.Unlock()
		})
	}
	wg.Wait()
	return took
}

// once sends a prompt and reads the answer to its end.
func (r *rig) once(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = bufio.NewReader(resp.Body).WriteTo(io.Discard)
	return err
}
