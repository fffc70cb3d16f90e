//go:build e2e

package vllm_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var kills = flag.Int("heal.kills", 5, "how often TestHeals kills a worker")

const (
	clients = 4
	// healing bounds the time until caches are known again; the machine may be busy.
	healing = 5 * time.Minute
)

// TestHeals kills a real vLLM worker under load, five times, and then the gateway: once it
// may finish, once it is killed. Everything must be known exactly again, and no client may
// see more of it than has to be: an answer that had begun breaks off with its worker, and
// while no gateway runs nobody listens; one that has just started answers 503 until it has
// asked its workers, which its readiness says.
func TestHeals(t *testing.T) {
	out := outDir(t)
	script(t, time.Hour, "setup.sh")
	binary := filepath.Join(out, "nethttp")
	script(t, 20*time.Minute, "-c", "cd ../../../examples/nethttp && go build -o '"+binary+"' .")
	ports := freePorts(t, 3*workers+1)
	fleet := make([]*worker, workers)
	for i := range fleet {
		fleet[i] = &worker{name: fmt.Sprintf("heal-%d", i), port: ports[3*i], events: ports[3*i+1], replay: ports[3*i+2]}
		fleet[i].start(t)
	}
	for _, w := range fleet {
		w.waitHealthy(t)
	}
	own := ports[3*workers]
	for _, name := range []string{"heal", "heal-false", "heal-true"} {
		_ = os.Remove(filepath.Join(out, "decisions-"+name+".jsonl")) // of an earlier run
	}
	g := startGatewayAt(t, binary, "kvsteer", "heal", own, fleet)
	g.waitExact(t, workers, healing)
	load := startClients(t, g.url)
	load.waitAnswered(t, 2*clients)

	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tup after\texact after that\tanswered\tcut off\tnobody ready\tfailed")
	row := func(what string, up, exact time.Duration, n counts) {
		fmt.Fprintf(tw, "%s\t%v\t%v\t%d\t%d\t%d\t%d\n", what, up.Round(100*time.Millisecond), exact.Round(10*time.Millisecond),
			n.answered, n.cutOff, n.nobody, n.failed)
	}
	for n := range *kills {
		victim := fleet[n%workers]
		old := g.instances(t)[victim.name]
		load.take()
		began := time.Now()
		load.killing(func() { victim.process.kill() })
		victim.start(t)
		victim.waitHealthy(t)
		up := time.Now()
		g.waitInstance(t, victim.name, old)
		exact := time.Since(up)
		load.waitAnswered(t, 2*clients)
		got := load.take()
		row(fmt.Sprintf("worker %s, kill -9, %d", victim.name, n+1), up.Sub(began), exact, got)
		assert.Zero(t, got.nobody+got.failed, "clients saw the death of a worker: %v", load.whys())
	}
	for _, hard := range []bool{false, true} {
		what := "gateway, SIGTERM"
		load.take()
		load.gateway(false)
		if hard {
			what = "gateway, kill -9"
			load.killing(g.process.kill)
		} else {
			g.process.stop(t)
		}
		gone := load.take()
		if !hard {
			assert.Zero(t, gone.cutOff+gone.failed, "answers that had begun were not finished: %v", load.whys())
		}
		began := time.Now()
		g = startGatewayAt(t, binary, "kvsteer", fmt.Sprintf("heal-%v", hard), own, fleet)
		up := time.Now()
		load.gateway(true)
		g.waitInstance(t, fleet[0].name, "")
		g.waitInstance(t, fleet[1].name, "")
		exact := time.Since(up)
		load.waitAnswered(t, 2*clients)
		got := load.take()
		got.add(gone)
		row(what, up.Sub(began), exact, got)
		assert.Zero(t, got.failed, "%v", load.whys())
	}
	load.stop()
	require.NoError(t, tw.Flush())
	t.Logf("\n%s", table.String())
	require.NoError(t, os.WriteFile(filepath.Join(out, "heals.txt"), []byte(table.String()), 0o600))
	g.process.stop(t)
}

// instances is which instance of each worker is known exactly, by the latest decision.
func (g *gateway) instances(t *testing.T) map[string]string {
	t.Helper()
	all := g.read(t)
	out := map[string]string{}
	if len(all) > 0 {
		for _, c := range all[len(all)-1].decision.Candidates {
			if c.TrustState == "exact" {
				out[c.Name] = c.Instance
			}
		}
	}
	return out
}

// waitInstance waits until an instance of the worker, other than an old one, is known
// exactly. The clients' requests are what decisions are made about.
func (g *gateway) waitInstance(t *testing.T, name, old string) {
	t.Helper()
	deadline := time.Now().Add(healing)
	for {
		got := g.instances(t)
		if is := got[name]; is != "" && is != old {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not exact within %v: %v\n%s", name, healing, got, tailFile(g.process.log))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// counts are what became of requests.
type counts struct {
	answered int
	cutOff   int // had begun when something was killed
	nobody   int // no connection, or none that anybody took; or the gateway was not ready
	failed   int // anything else
}

func (c *counts) add(o counts) {
	c.answered += o.answered
	c.cutOff += o.cutOff
	c.nobody += o.nobody
	c.failed += o.failed
}

// crowd is clients that ask all the time.
type crowd struct {
	url  string
	stop func()

	mu    sync.Mutex
	n     counts
	total int // answered, ever
	why   []string
	// killed is when something was killed last, ready when the gateway was; zero while it is
	// not.
	killed, ready time.Time
}

func startClients(t *testing.T, url string) *crowd {
	t.Helper()
	c := &crowd{url: url, ready: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	c.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(c.stop)
	for i := range clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.ask(ctx, fmt.Sprintf("%s Now client %d asks for the %dth time.", longPrompt((i+n)%6), i, n))
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	return c
}

// ask streams one answer, over a connection of its own: one that a gateway has left behind
// is not what is looked at here.
func (c *crowd) ask(ctx context.Context, prompt string) {
	body, err := json.Marshal(map[string]any{"model": modelName, "prompt": prompt, "max_tokens": 24, "stream": true, "ignore_eos": true})
	if err != nil {
		c.count(time.Time{}, 0, false, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, healing)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		c.count(time.Time{}, 0, false, err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	asked := time.Now()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: time.Minute}).DialContext}}
	resp, err := client.Do(req)
	if err != nil {
		if context.Cause(ctx) == nil {
			c.count(asked, 0, false, err)
		}
		return
	}
	defer resp.Body.Close()
	begun, done, first := false, false, ""
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if !begun {
			first = lines.Text()
		}
		begun = begun || len(lines.Bytes()) > 0
		done = done || bytes.Equal(lines.Bytes(), []byte("data: [DONE]"))
	}
	switch {
	case resp.StatusCode == http.StatusOK && done:
		c.count(asked, resp.StatusCode, true, nil)
	case context.Cause(ctx) != nil: // the test ends
	default:
		c.count(asked, resp.StatusCode, begun, fmt.Errorf("status %d, what came begins with %q: %w", resp.StatusCode, first, orCut(lines.Err())))
	}
}

func orCut(err error) error {
	if err == nil {
		return fmt.Errorf("the stream ended before its end")
	}
	return err
}

func (c *crowd) count(asked time.Time, status int, begun bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.n.answered++
		c.total++
	case status == http.StatusOK && begun && c.killed.After(asked):
		c.n.cutOff++
	case status == 0 || status == http.StatusServiceUnavailable && (c.ready.IsZero() || c.ready.After(asked)):
		c.n.nobody++
		c.why = append(c.why, err.Error())
	default:
		c.n.failed++
		c.why = append(c.why, err.Error())
	}
}

// gateway notes whether the gateway is ready.
func (c *crowd) gateway(ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = time.Time{}
	if ready {
		c.ready = time.Now()
	}
}

// killing notes that something is killed by fn.
func (c *crowd) killing(fn func()) {
	c.mu.Lock()
	c.killed = time.Now()
	c.mu.Unlock()
	fn()
	c.mu.Lock() // what was asked while it died counts as well
	c.killed = time.Now()
	c.mu.Unlock()
}

// take returns the counts since the last time.
func (c *crowd) take() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = counts{}
	return n
}

func (c *crowd) whys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why[max(0, len(c.why)-5):]
}

// waitAnswered waits for n more answers.
func (c *crowd) waitAnswered(t *testing.T, n int) {
	t.Helper()
	c.mu.Lock()
	before := c.total
	c.mu.Unlock()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.total >= before+n
	}, healing, 20*time.Millisecond, "%v", c.whys())
}
