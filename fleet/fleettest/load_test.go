package fleettest

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// longBodies returns streaming chat requests of 16,000 shared and 256 own tokens.
func longBodies(n int) []string {
	bodies := make([]string, n)
	shared := Text(0, 16000)
	for i := range bodies {
		bodies[i] = `{"messages":[{"role":"user","content":"` + shared + ` ` + Text(uint64(1+i), 256) +
			`"}],"stream":true,"max_tokens":4}`
	}
	return bodies
}

func TestHundredsOfLongPromptsAtOnce(t *testing.T) {
	t.Parallel()
	const requests, clients = 150, 32
	hub := follow.NewHub()
	e := New(t, Config{Hub: hub, Speed: 1e6, Record: -1})
	l := listen(t, hub, e.Endpoints()[0])
	tr := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	bodies := longBodies(requests)
	var wg sync.WaitGroup
	var next, good atomic.Int32
	for range clients {
		wg.Go(func() {
			for i := next.Add(1); i <= requests; i = next.Add(1) {
				resp, err := c.Post(e.URL()+pathChat, "application/json", strings.NewReader(bodies[i-1]))
				if err != nil {
					t.Error(err)
					return
				}
				raw, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil && strings.HasSuffix(string(raw), dataDone) {
					good.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if good.Load() != requests {
		t.Errorf("%d of %d answers complete", good.Load(), requests)
	}
	l.agrees(t, e, 0)
	s := e.Stats()
	if rate := s.HitRate(); rate < 0.97 || s.InFlight != 0 || s.Running != 0 || s.MaxInFlight < 2 {
		t.Errorf("hit rate %.3f, %+v", rate, s)
	}
}

// BenchmarkLongPrompt is one request of 16,256 tokens with a warm cache, from the
// client's send to its last byte, at a speed at which the model takes no time.
func BenchmarkLongPrompt(b *testing.B) {
	hub := follow.NewHub()
	e := New(b, Config{Hub: hub, Speed: 1e9, Record: -1})
	bodies := longBodies(64)
	tr := &http.Transport{}
	b.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		resp, err := c.Post(e.URL()+pathChat, "application/json", strings.NewReader(bodies[i%len(bodies)]))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		i++
	}
}
