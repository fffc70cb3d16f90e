//go:build e2e

package kvsteercaddy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/record"
)

// A real Caddy, built from this module, does all that a gateway meets: one process, one
// thing after the other, and nothing is left in flight.
func TestE2E(t *testing.T) {
	p := startCaddy(t, "60s")
	for _, step := range []struct {
		name string
		run  func(t *testing.T, p *process)
	}{
		{"APIs", apis},
		{"LongStreams", longStreams},
		{"LargePrompts", largePrompts},
		{"DecisionsAreTheRouters", decisions},
		{"Disconnects", disconnects},
		{"EngineDeath", engineDeath},
		{"Reloads", reloads},
		{"SIGTERM", sigterm},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			p.t = t
			step.run(t, p)
		}) {
			break // later steps would only say so again
		}
	}
	p.t = t
}

func apis(t *testing.T, p *process) {
	t.Helper()
	for path, body := range map[string]string{
		chatPath:          chat("hi", false),
		"/v1/completions": `{"model":"m","prompt":"hi"}`,
		"/v1/messages":    `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses":   `{"model":"m","input":"hi"}`,
		"/v1/embeddings":  `{"model":"m","input":"hi"}`,
	} {
		a, err := p.post(t.Context(), p.fast, path, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", path, a.body)
	}
	status, models := p.get(p.fast, "/v1/models")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, models, `"m"`)
	status, _ = p.get(p.fast, "/metrics")
	require.Equal(t, http.StatusNotFound, status)
	p.idle()
}

func longStreams(t *testing.T, p *process) {
	t.Helper()
	const tokens = 400
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"%d"}]}`, tokens, i)
			a, err := p.post(t.Context(), p.fast, chatPath, body)
			if err != nil || a.status != http.StatusOK || !strings.Contains(a.body, "[DONE]") || strings.Count(a.body, "data:") < tokens {
				t.Errorf("stream %d: %v, status %d, %d chunks", i, err, a.status, strings.Count(a.body, "data:"))
			}
		})
	}
	wg.Wait()
	p.idle()
}

func largePrompts(t *testing.T, p *process) {
	t.Helper()
	for _, path := range []string{chatPath, "/v1/completions", "/v1/messages"} {
		text := strings.Repeat("lorem ipsum dolor sit amet ", 5<<20/27)
		body := `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"` + text + `"}]}`
		if path == "/v1/completions" {
			body = `{"model":"m","max_tokens":5,"prompt":"` + text + `"}`
		}
		a, err := p.post(t.Context(), p.fast, path, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.status, "%s: %.200s", path, a.body)
	}
	resp, err := p.begin(t.Context(), p.fast, "/v1/completions", `{"model":"m","prompt":"`+strings.Repeat("x", kvsteer.DefaultMaxBody)+`"}`)
	if err == nil { // the connection may be closed before the client has sent everything
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	}
	p.idle()
}

// decisions compares where Caddy sends requests with what a router of our own, that
// follows the same engines, selects at the same moment.
func decisions(t *testing.T, p *process) {
	t.Helper()
	workers, err := fleet.New(fleet.Options{Discoverer: &file.Discoverer{Path: p.slow.fleet}})
	require.NoError(t, err)
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithEvents(&zmtp.Transport{}))
	require.NoError(t, err)
	defer func() {
		require.NoError(t, router.Close())
		require.NoError(t, workers.Close())
	}()
	direct := func(body string) (d *kvsteer.Decision) {
		require.Eventually(t, func() bool {
			var err error
			d, err = router.Explain(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body)})
			for i := range d.Candidates {
				if d.Candidates[i].Trust != kvcache.Exact {
					return false
				}
			}
			return err == nil && len(d.Candidates) == len(p.slow.engines) && d.TokenSource != "bytes"
		}, patience, moment)
		return d
	}
	direct(chat("are we there", false))
	require.Eventually(t, func() bool {
		a, err := p.post(t.Context(), p.slow, chatPath, chat("are we there", false))
		return err == nil && a.header.Get("X-Trust") == kvcache.Exact.String()
	}, patience, moment)

	// Conversations that grow: all but their first turns have one right place.
	compared := 0
	for conversation := range 12 {
		text := fleettest.Text(uint64(100+conversation), 3000)
		for turn := range 4 {
			p.idle()
			body := chat(text, false)
			d := direct(body)
			if turn > 0 {
				// Events of the turn before may still be on their way. Only now is it selected:
				// what is booked where it does not go would be believed to be there.
				require.Eventually(t, func() bool { return direct(body).Winner().CachedTokens > 2500 }, patience, moment)
				sel, err := router.Select(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body)})
				require.NoError(t, err)
				d = sel.Decision()
				sel.Abort(nil)
			}
			a, err := p.post(t.Context(), p.slow, chatPath, body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, a.status, a.body)
			if turn > 0 {
				require.Equal(t, d.Winner().Name, a.header.Get("X-Worker"), "conversation %d, turn %d", conversation, turn)
				compared++
			}
			require.Equal(t, strconv.Itoa(d.Winner().CachedTokens), a.header.Get("X-Cached"), "conversation %d, turn %d", conversation, turn)
			text += " " + fleettest.Text(uint64(1000+10*conversation+turn), 100)
		}
	}
	t.Logf("%d decisions are those of a direct Select", compared)
	p.idle()
}

func disconnects(t *testing.T, p *process) {
	t.Helper()
	for _, e := range p.fast.engines {
		e.Faults().Hang(fleettest.HangMidStream)
	}
	ctx, leave := context.WithCancel(t.Context())
	var begun sync.WaitGroup
	var open atomic.Int32
	for i := range 30 {
		begun.Go(func() {
			resp, err := p.begin(ctx, p.fast, chatPath, chat(strconv.Itoa(i), true))
			if err != nil {
				t.Error(err)
				return
			}
			if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data:") {
				t.Errorf("%q, %v", line, err)
			}
			open.Add(1)
			context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
		})
	}
	begun.Wait()
	require.EqualValues(t, 30, open.Load())
	inFlight := 0
	for _, r := range p.status() {
		inFlight += r.InFlight
	}
	require.Equal(t, 30, inFlight)
	leave()
	p.idle() // though the engines still hang
	for _, e := range p.fast.engines {
		e.Faults().Clear()
	}
}

func engineDeath(t *testing.T, p *process) {
	t.Helper()
	stop := make(chan struct{})
	var served, failed atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a, err := p.post(t.Context(), p.slow, chatPath, chat(fmt.Sprintf("%d %d", i, n), false))
				if err != nil || a.status != http.StatusOK {
					failed.Add(1)
					t.Errorf("%v, status %d: %.200s", err, a.status, a.body)
				}
				served.Add(1)
			}
		})
	}
	victim := p.slow.engines[1]
	require.Eventually(t, func() bool { return victim.Stats().InFlight > 0 }, patience, time.Millisecond)
	require.NoError(t, victim.Kill())
	after := served.Load()
	require.Eventually(t, func() bool { return served.Load() > after+50 }, patience, moment)
	require.NoError(t, victim.Revive())
	require.Eventually(t, func() bool { return victim.Stats().InFlight > 0 }, patience, time.Millisecond, "it is used again")
	close(stop)
	wg.Wait()
	t.Logf("%d requests over the death of an engine, %d failed", served.Load(), failed.Load())
	p.idle()
}

// reloads loads configurations under load: the same, and others in turn.
func reloads(t *testing.T, p *process) {
	t.Helper()
	p.idle()
	before := p.goroutines()
	stop := make(chan struct{})
	var answers, streams atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				stream := i%2 == 0
				a, err := p.post(t.Context(), p.slow, chatPath, chat(fmt.Sprintf("%d %d", i, n), stream))
				switch {
				case err != nil || a.status != http.StatusOK:
					t.Errorf("%v, status %d: %.300s", err, a.status, a.body)
				case stream && !strings.Contains(a.body, "[DONE]"):
					t.Errorf("a stream without end: %.300s", a.body)
				case stream:
					streams.Add(1)
				default:
					answers.Add(1)
				}
			}
		})
	}
	most := 0
	for n := range 20 {
		seen := answers.Load() + streams.Load()
		options := "max_attempts 3"
		if n%2 == 0 {
			options = fmt.Sprintf("max_attempts %d", 4+n)
		}
		if n%4 == 3 {
			options = "max_attempts 3\nidle_timeout 5m" // the router stays
		}
		p.reload(options)
		most = max(most, len(p.status()))
		require.Eventually(t, func() bool { return answers.Load()+streams.Load() > seen+6 }, patience, moment, "it goes on")
	}
	p.reload("")
	close(stop)
	wg.Wait()
	p.idle()
	require.Eventually(t, func() bool { return p.goroutines() <= before+10 }, 2*patience, 20*moment,
		"goroutines: %d before, %d now", before, p.goroutines())
	t.Logf("20 reloads: %d answers, %d streams, at most %d routers at once; goroutines: %d before, %d after",
		answers.Load(), streams.Load(), most, before, p.goroutines())
}

// sigterm ends the process under ten streams: readiness goes first, streams come to
// their end, and what came of them is on record.
func sigterm(t *testing.T, p *process) {
	t.Helper()
	for _, e := range p.slow.engines {
		e.Faults().Hang(fleettest.HangMidStream)
	}
	var streams []io.ReadCloser
	for i := range 10 {
		resp, err := p.begin(t.Context(), p.slow, chatPath, chat(strconv.Itoa(i), true)) //nolint:bodyclose // below
		require.NoError(t, err)
		streams = append(streams, resp.Body)
	}
	p.terminate()
	require.Eventually(t, func() bool {
		status, _ := p.get(p.slow, "/healthz")
		return status == http.StatusServiceUnavailable
	}, patience, moment, "not ready, and still there to say so")
	for _, e := range p.slow.engines {
		e.Faults().Clear()
	}
	for _, body := range streams {
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Contains(t, string(text), "[DONE]")
	}
	require.NoError(t, <-p.ended)
	log, err := os.Open(filepath.Join(p.dir, "slow.log"))
	require.NoError(t, err)
	defer log.Close()
	type key struct {
		run string
		id  uint64
	}
	chosen, ended, known := 0, 0, 0
	open := map[key]bool{}
	require.NoError(t, record.Read(log, func(e *record.Entry) error {
		require.Empty(t, e.Damage)
		switch {
		case e.Decision != nil && e.Decision.Chosen >= 0:
			if e.Decision.Attempt == 1 {
				chosen++
			}
			open[key{e.Run, e.Decision.ID}] = true
		case e.Outcome != nil:
			ended++
			of := key{e.Run, e.Outcome.Decision}
			require.True(t, open[of], "line %d: an end without its decision, or a second one", e.Line)
			delete(open, of)
			if e.Outcome.Usage.Known {
				known++
			}
		}
		require.Nil(t, e.Lost)
		return nil
	}))
	require.Equal(t, chosen, ended, "each request that was sent has an end on record")
	// Whoever got no answer asked again: had some of those been decided, there were more.
	require.EqualValues(t, p.slow.answers.Load(), chosen, "each request that was decided was answered")
	t.Logf("%d requests on record, %d with usage", chosen, known)
}

// Streams that outlast the grace period are cut off, and have an end on record.
func TestE2EGracePeriod(t *testing.T) {
	p := startCaddy(t, "1s")
	for _, e := range p.slow.engines {
		e.Faults().Hang(fleettest.HangMidStream)
	}
	const n = 5
	for i := range n {
		resp, err := p.begin(t.Context(), p.slow, chatPath, chat(strconv.Itoa(i), true))
		require.NoError(t, err)
		defer resp.Body.Close() //nolint:gocritic // five of them
	}
	p.reload("max_attempts 2") // they are the old router's
	p.terminate()
	<-p.ended //nolint:errcheck // Caddy may call it a failure that it had to wait for so long
	log, err := os.Open(filepath.Join(p.dir, "slow.log"))
	require.NoError(t, err)
	defer log.Close()
	ended := 0
	require.NoError(t, record.Read(log, func(e *record.Entry) error {
		require.Empty(t, e.Damage)
		require.Nil(t, e.Lost)
		if e.Outcome != nil {
			require.Equal(t, "canceled", e.Outcome.Error)
			ended++
		}
		return nil
	}))
	require.Equal(t, n, ended)
	for _, e := range p.slow.engines {
		e.Faults().Clear()
	}
}
