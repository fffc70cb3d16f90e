package fleettest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// inBubble runs a test in virtual time with one engine on a Network.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, e *Engine, c *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := cfg
		cfg.Network = NewNetwork()
		e := New(t, cfg)
		tr := cfg.Network.Transport()
		t.Cleanup(tr.CloseIdleConnections)
		test(t, e, &http.Client{Transport: tr})
	})
}

// since rounds a virtual duration to milliseconds.
func since(start time.Time) time.Duration { return time.Since(start).Round(time.Millisecond) }

func TestTimePassesAsModelled(t *testing.T) {
	t.Parallel()
	inBubble(t, Config{}, func(t *testing.T, e *Engine, c *http.Client) {
		t.Helper()
		body := user(Text(1, 16256-8), "stream", true, "max_tokens", 3)
		for _, test := range []struct{ first, rest time.Duration }{
			{6793 * time.Millisecond, 75 * time.Millisecond}, // eight chunks, then two decodes
			{43 * time.Millisecond, 75 * time.Millisecond},
		} {
			start := time.Now()
			resp := open(t, c, e.URL()+pathChat, body)
			if waited := since(start); waited != 0 {
				t.Errorf("headers took %v, want none before the first token", waited)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
				t.Fatal(err)
			}
			if got := since(start); got != test.first {
				t.Errorf("first token after %v, want %v", got, test.first)
			}
			start = time.Now()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			if got := since(start); got != test.rest {
				t.Errorf("the other two took %v, want %v", got, test.rest)
			}
			_ = resp.Body.Close()
		}
	})
}

func TestSpeedAndSlowness(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		speed, slow float64
		want        time.Duration
	}{{0, 1, 40 * time.Millisecond}, {10, 1, 4 * time.Millisecond}, {10, 5, 20 * time.Millisecond}} {
		inBubble(t, Config{Speed: test.speed}, func(t *testing.T, e *Engine, c *http.Client) {
			t.Helper()
			e.Faults().Slow(test.slow)
			start := time.Now()
			post(t, c, e.URL()+pathChat, user("hello there", "max_tokens", 1))
			if got := since(start); got != test.want {
				t.Errorf("speed %v, slowed %v times: %v, want %v", test.speed, test.slow, got, test.want)
			}
		})
	}
}

func TestHang(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		at      HangPoint
		headers bool
		tokens  bool
	}{
		{"before headers", HangBeforeHeaders, false, false},
		{"before the first token", HangBeforeFirstToken, true, false},
		{"in mid-stream", HangMidStream, true, true},
	} {
		inBubble(t, Config{}, func(t *testing.T, e *Engine, c *http.Client) {
			t.Helper()
			e.Faults().Hang(test.at)
			time.AfterFunc(time.Hour, func() { e.Faults().Hang(HangNever) })
			start := time.Now()
			resp := open(t, c, e.URL()+pathChat, user("hello", "stream", true, "max_tokens", 5))
			if headers := time.Since(start) < time.Hour; headers != test.headers {
				t.Errorf("%s: headers after %v", test.name, time.Since(start))
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
				t.Fatal(err)
			}
			if tokens := time.Since(start) < time.Hour; tokens != test.tokens {
				t.Errorf("%s: first token after %v", test.name, time.Since(start))
			}
			rest, err := io.ReadAll(resp.Body)
			if err != nil || !strings.HasSuffix(string(rest), dataDone) || time.Since(start) < time.Hour {
				t.Errorf("%s: lifted, the rest is %q (%v)", test.name, rest, err)
			}
			_ = resp.Body.Close()
		})
	}
}

func TestAClientThatLeavesFreesItsPlace(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		inBubble(t, Config{}, func(t *testing.T, e *Engine, c *http.Client) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			body := `{"messages":[{"role":"user","content":"hello"}],"max_tokens":1000,"ignore_eos":true,"stream":` + map[bool]string{true: "true", false: "false"}[stream] + `}`
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL()+pathChat, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := c.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the answer ended with %v", err)
			}
			time.Sleep(time.Second) // virtual
			if s := e.Stats(); s.Running != 0 || s.InFlight != 0 || s.UsedBlocks != 0 || s.GeneratedTokens > 10 {
				t.Errorf("stream %v: after the client left: %+v", stream, s)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Speed: fast, OutputTokens: 1})
	c := client(t)
	e.Faults().Fail(1, http.StatusTooManyRequests, 1500*time.Millisecond)
	e.Faults().Fail(2, http.StatusInternalServerError, 0)
	for i, want := range []int{429, 500, 500, 200} {
		status, header, raw := post(t, c, e.URL()+pathChat, user("x"))
		if status != want {
			t.Errorf("request %d: %d, want %d", i, status, want)
		}
		if retry := header.Get("Retry-After"); (want == 429) != (retry == "2") {
			t.Errorf("request %d: Retry-After %q", i, retry)
		}
		if want != 200 && number(t, decode(t, raw), "error", "code") != want {
			t.Errorf("request %d: %s", i, raw)
		}
	}
	e.Faults().FailRate(0.5, http.StatusServiceUnavailable, 0)
	failed := 0
	for range 100 {
		if status, _, _ := post(t, c, e.URL()+pathChat, user("x")); status == 503 {
			failed++
		}
	}
	if failed < 30 || failed > 70 {
		t.Errorf("%d of 100 failed at a rate of one half", failed)
	}
	e.Faults().Clear()
	e.Faults().Unhealthy(true)
	if status, _ := get(t, c, e.URL()+"/health"); status != 503 {
		t.Errorf("unhealthy answers %d", status)
	}
	if status, _, _ := post(t, c, e.URL()+pathChat, user("x")); status != 200 {
		t.Errorf("an unhealthy engine's API answers %d", status)
	}
}

func TestDieMidStream(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tokens int
		chunks int
	}{{0, 0}, {1, 2}, {20, 21}} {
		e := New(t, Config{Speed: fast})
		c := client(t)
		e.Faults().DieMidStream(2, test.tokens)
		resp := open(t, c, e.URL()+pathChat, user("x", "stream", true))
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if data, _, done := sseEvents(t, raw); err == nil || done || len(data) != test.chunks {
			t.Errorf("died after %d tokens: %d chunks, done %v, error %v", test.tokens, len(data), done, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL()+pathChat, strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := c.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Error("an answer that isn't streamed survived")
		}
		if status, _, _ := post(t, c, e.URL()+pathChat, user("x")); status != 200 {
			t.Errorf("the third request: %d", status)
		}
		eventually(t, "the dead requests are gone", func() bool { s := e.Stats(); return s.InFlight == 0 && s.Running == 0 })
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, unseen := range []bool{false, true} {
		hub := follow.NewHub()
		e := New(t, Config{Hub: hub, Speed: fast})
		c := client(t)
		url, before := e.URL(), e.Worker()
		post(t, c, url+pathChat, user(Text(1, 100)))
		hashes := e.CachedHashes(0)
		l := listen(t, hub, e.Endpoints()[0])
		post(t, c, url+pathChat, user(Text(2, 100)))
		eventually(t, "an event", func() bool { _, seqs, _ := l.snapshot(); return len(seqs) > 0 })

		// A request in flight is cut.
		e.Faults().Hang(HangMidStream)
		resp := open(t, c, url+pathChat, user("hello", "stream", true))
		if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
			t.Fatal(err)
		}
		restart := e.Restart
		if unseen {
			restart = e.RestartUnseen
		}
		if err := restart(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Error("a stream survived the restart")
		}
		_ = resp.Body.Close()
		c.CloseIdleConnections() // they were cut too
		e.Faults().Clear()
		if e.URL() != url || e.Worker().Epoch == before.Epoch || e.Stats().CachedBlocks != 0 {
			t.Errorf("after the restart: %s, epoch %s, %d blocks", e.URL(), e.Worker().Epoch, e.Stats().CachedBlocks)
		}
		if !unseen {
			l = listen(t, hub, e.Endpoints()[0])
		}
		_, _, raw := post(t, c, url+pathChat, user(Text(1, 100)))
		if got := number(t, decode(t, raw), "usage", "prompt_tokens_details", "cached_tokens"); got != 0 {
			t.Errorf("%d tokens cached after a restart", got)
		}
		eventually(t, "an event numbered 0", func() bool {
			_, seqs, _ := l.snapshot()
			return slices.Contains(seqs, 0)
		})
		if again := e.CachedHashes(0); slices.Contains(again, hashes[0]) {
			t.Error("two lives give a block the same hash")
		}
	}
}

func TestKillRefuseRevive(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	for _, network := range []*Network{nil, NewNetwork()} {
		e := New(t, Config{Hub: hub, Speed: fast, Network: network})
		tr := &http.Transport{DisableKeepAlives: true}
		if network != nil {
			tr = network.Transport()
			tr.DisableKeepAlives = true
		}
		c := &http.Client{Transport: tr}
		alive := func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL()+"/health", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err == nil
		}
		for _, step := range []struct {
			name string
			do   func() error
			want bool
		}{
			{"start", func() error { return nil }, true},
			{"refuse", func() error { return e.Refuse(true) }, false},
			{"refuse twice", func() error { return e.Refuse(true) }, false},
			{"accept", func() error { return e.Refuse(false) }, true},
			{"kill", e.Kill, false},
			{"kill twice", e.Kill, false},
			{"revive", e.Revive, true},
			{"revive twice", e.Revive, true},
			{"refuse before closing", func() error { return e.Refuse(true) }, false},
			{"close", e.Close, false},
			{"close twice", e.Close, false},
		} {
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			if got := alive(); got != step.want {
				t.Errorf("%s: alive %v, want %v", step.name, got, step.want)
			}
		}
		if err := e.Revive(); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed engine revived: %v", err)
		}
		if e.Publisher(0) != nil || e.Endpoints() != nil || e.CachedHashes(0) != nil {
			t.Error("a closed engine still publishes")
		}
	}
}

func TestCloseWaitsForHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		network := NewNetwork()
		e := New(t, Config{Network: network, Reply: func(Call) string {
			<-release
			return "late"
		}})
		tr := network.Transport()
		defer tr.CloseIdleConnections()
		go func() {
			resp, err := (&http.Client{Transport: tr}).Post(e.URL()+pathChat, "application/json",
				strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
			if err == nil {
				_ = resp.Body.Close()
				t.Error("a closed engine answered")
			}
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- e.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close returned while a request was being handled: %v", err)
		default:
		}
		close(release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// An engine that dies breaks its streams off: to whoever reads one it must not look as if it
// had ended.
func TestKilledEngineBreaksStreamsOff(t *testing.T) {
	c := client(t)
	e := New(t, Config{OutputTokens: 4000})
	resp := open(t, c, e.URL()+"/v1/completions", `{"model":"fake-model","prompt":"a b c","stream":true,"max_tokens":4000}`)
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := e.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream of an engine that was killed ends as if it were whole")
	}
	_ = resp.Body.Close()
}
