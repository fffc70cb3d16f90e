package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/policy"
)

const (
	model   = "demo-27b"
	engines = 3
	// blocks is each engine's cache: 10 of the 24 shared prefixes. A worker that
	// sees them all forgets most; one that sees its third keeps every one.
	blocks = 10_240
)

// result is one run of a workload through one router. Times are modelled: what
// the wall clock said, times the speed.
type result struct {
	router      string
	ttft, e2e   []time.Duration
	prompt, hit int // tokens
	failed      int
	firstErr    error // of those that failed
	decisions   []*kvsteer.Decision
}

// rig is a fleet of fake engines with a router and a client in front.
type rig struct {
	engines []*fleettest.Engine
	fleet   *fleet.Fleet
	router  *kvsteer.Router
	client  *http.Client
	speed   float64

	mu  sync.Mutex
	res *result
}

// newRig starts everything. seed makes the engines' block hashes differ from
// run to run as real ones do; the router must not care.
func newRig(ctx context.Context, name string, rule policy.Policy, speed float64, seed uint64) (*rig, error) {
	r := &rig{speed: speed, res: &result{router: name}}
	if err := r.start(ctx, rule, seed); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) start(ctx context.Context, rule policy.Policy, seed uint64) error {
	hub := follow.NewHub()
	var workers []fleet.Worker
	for i := range engines {
		e, err := fleettest.Start(fleettest.Config{
			Name: fmt.Sprintf("worker-%d", i), Model: model, Blocks: blocks, Speed: r.speed, Hub: hub, Seed: seed,
		})
		if err != nil {
			return err
		}
		r.engines = append(r.engines, e)
		workers = append(workers, e.Worker())
	}
	var err error
	if r.fleet, err = fleet.New(fleet.Options{
		Discoverer:     fleet.Static(workers...),
		ScrapeInterval: time.Duration(float64(2*time.Second) / r.speed),
	}); err != nil {
		return err
	}
	if r.router, err = kvsteer.New(
		kvsteer.WithFleet(r.fleet), kvsteer.WithEvents(hub),
		kvsteer.WithPolicy(rule), kvsteer.WithHooks(r), kvsteer.WithSeed(seed),
	); err != nil {
		return err
	}
	r.client = &http.Client{Transport: kvsteer.NewTransport(r.router, kvsteer.TransportOptions{})}
	return r.fleet.WaitReady(ctx)
}

func (r *rig) close() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	if r.router != nil {
		_ = r.router.Close()
	}
	if r.fleet != nil {
		_ = r.fleet.Close()
	}
	for _, e := range r.engines {
		_ = e.Close()
	}
}

// OnOutcome counts what the engine itself reported.
func (r *rig) OnOutcome(o *kvsteer.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.prompt += o.Usage.Prompt()
	r.res.hit += o.Usage.CacheRead
	r.res.decisions = append(r.res.decisions, o.Decision)
}

// play runs the workload and calls done after each request.
func (r *rig) play(ctx context.Context, w workload, done func()) (*result, error) {
	slots := make(chan struct{}, max(w.Concurrent, 1))
	var wg sync.WaitGroup
	start := time.Now()
	for i, s := range w.Sessions {
		if w.Concurrent > 0 {
			slots <- struct{}{}
		} else if err := sleepUntil(ctx, start.Add(r.wall(s.Start))); err != nil {
			break
		}
		wg.Go(func() {
			r.converse(ctx, s, i >= w.WarmUp, done)
			if w.Concurrent > 0 {
				<-slots
			}
		})
	}
	wg.Wait()
	return r.res, ctx.Err()
}

func (r *rig) wall(modelled time.Duration) time.Duration {
	return time.Duration(float64(modelled) / r.speed)
}

func (r *rig) modelled(wall time.Duration) time.Duration {
	return time.Duration(float64(wall) * r.speed)
}

// converse runs one session. Only counted ones enter the result's times; hit
// rates are those of the whole run.
func (r *rig) converse(ctx context.Context, s session, counted bool, done func()) {
	var chat []message
	for _, turn := range s.Turns {
		chat = append(chat, message{Role: "user", Content: turn})
		answer, ttft, e2e, err := r.ask(ctx, chat, s.Output)
		chat = append(chat, message{Role: "assistant", Content: answer})
		r.mu.Lock()
		switch {
		case err != nil:
			r.res.failed++
			if r.res.firstErr == nil {
				r.res.firstErr = err
			}
		case counted:
			r.res.ttft = append(r.res.ttft, r.modelled(ttft))
			r.res.e2e = append(r.res.e2e, r.modelled(e2e))
		}
		r.mu.Unlock()
		done()
	}
}

type chatRequest struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"`
	Stream    bool      `json:"stream"`
	IgnoreEOS bool      `json:"ignore_eos"`
}

type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
}

// ask sends one streaming request and measures it as a client would.
func (r *rig) ask(ctx context.Context, chat []message, output int) (answer string, ttft, e2e time.Duration, err error) {
	body, err := json.Marshal(chatRequest{Model: model, Messages: chat, MaxTokens: output, Stream: true, IgnoreEOS: true})
	if err != nil {
		return "", 0, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := r.client.Do(req)
	if err != nil {
		return "", 0, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return "", 0, 0, fmt.Errorf("status %s: %s", resp.Status, bytes.TrimSpace(why))
	}
	var text strings.Builder
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok && !strings.HasPrefix(data, "[DONE]") {
			var c chatChunk
			if json.Unmarshal([]byte(data), &c) == nil && len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
				if ttft == 0 {
					ttft = time.Since(start)
				}
				text.WriteString(c.Choices[0].Delta.Content)
			}
		}
		if err == io.EOF {
			return text.String(), ttft, time.Since(start), nil
		}
		if err != nil {
			return "", 0, 0, err
		}
	}
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
