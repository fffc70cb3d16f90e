package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// canary stands in every prompt of the demo, and must be nowhere on the console.
const canary = "the-canary-sings-at-midnight"

// houseTokens are at the beginning of most prompts.
const (
	houseTokens = 1200
	houseSeed   = 7001
)

// client is a kind of request that comes again and again.
type client struct {
	tenant, class string
	prefix        int // tokens that its prompts have in common
	own           int // tokens of each
	every         time.Duration
	pii           bool
	leaves        bool // before the answer is complete
}

func clients() []client {
	return []client{
		{tenant: "acme", class: "interactive", prefix: 6000, own: 120, every: 120 * time.Millisecond},
		{tenant: "acme", class: "interactive", prefix: 2400, own: 80, every: 170 * time.Millisecond, pii: true},
		{tenant: "globex", class: "batch", prefix: 9000, own: 400, every: 230 * time.Millisecond},
		{tenant: "initech", class: "interactive", prefix: 1500, own: 60, every: 150 * time.Millisecond},
		{tenant: "umbrella", class: "batch", prefix: 4000, own: 900, every: 310 * time.Millisecond, leaves: true},
		{tenant: "hooli", prefix: 0, own: 700, every: 260 * time.Millisecond},
		{tenant: "trial", class: "interactive", prefix: 300, own: 40, every: 1700 * time.Millisecond},
	}
}

// ask lets clients ask and engines fail until ctx ends.
func (r *rig) ask(ctx context.Context) {
	var wg sync.WaitGroup
	for i, c := range clients() {
		wg.Go(func() { r.keepAsking(ctx, uint64(i+1), c) })
	}
	if len(r.engines) > 4 { // not in the small fleets of tests
		r.engines[len(r.engines)-2].Faults().Unhealthy(true) // the last of the fleet's
		wg.Go(func() { r.loseEvents(ctx) })
	}
	wg.Wait()
}

// loseEvents makes one engine's cache be known in part for a while, now and then.
func (r *rig) loseEvents(ctx context.Context) {
	const every = 12 * time.Second
	for n := 0; pause(ctx, every/4); n++ {
		r.engines[0].Faults().LoseEvents(2)
		if n == 1 {
			r.engines[3].Faults().BurnEvents(3) // numbers that no replay brings back
		}
		if !pause(ctx, every) {
			return
		}
	}
}

func (r *rig) keepAsking(ctx context.Context, seed uint64, c client) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, 12)
	between := func() time.Duration { return time.Duration(float64(c.every) * (0.5 + rand.Float64())) } //nolint:gosec // a client's whim
	for n := uint64(1); pause(ctx, between()); n++ {
		select {
		case slots <- struct{}{}:
		default:
			continue // its earlier ones take long enough
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r.askOnce(ctx, seed, n, c)
		})
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (r *rig) askOnce(ctx context.Context, seed, n uint64, c client) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var messages []map[string]string
	if c.prefix > 0 { // the house's own rules first, then what the client is about
		system := fleettest.Text(houseSeed, houseTokens) + " " + fleettest.Text(seed, c.prefix)
		messages = append(messages, map[string]string{"role": "system", "content": system})
	}
	messages = append(messages, map[string]string{
		"role": "user", "content": canary + " " + fleettest.Text(seed<<32+n, c.own),
	})
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "messages": messages})
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Demo-Tenant", c.tenant)
	req.Header.Set("X-Demo-Class", c.class)
	if c.pii {
		req.Header.Set("X-Demo-Pii", "yes")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if c.leaves && n%3 == 0 {
		const some = 400 // bytes
		_, _ = io.CopyN(io.Discard, resp.Body, some)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
}

// policyText is the demo's policies.
func policyText(spared string) []byte {
	return fmt.Append(nil, strings.ReplaceAll(rules, "SPARED", spared))
}
