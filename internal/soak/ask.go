package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// question is one request of the load.
type question struct {
	path   string
	body   []byte
	tenant string
	class  string
	// adapter is the one that it asks for, "" for none: workers.answered is to be told when it
	// is over.
	adapter string
	extra   http.Header
	// end is what a complete answer ends with, "" for one that does not stream.
	end string
	// status is the one that it should have. 429 is right as well if greedy, and 503 if
	// unknown: while a worker has not been asked yet what it serves, that could be it.
	status          int
	greedy, unknown bool
	// leaves is after how many bytes the client goes away, -1 for never; patience after what
	// time, 0 for never.
	leaves   int
	patience time.Duration
}

// asking makes questions. Which tenants, prefixes and adapters there are moves on with time.
type asking struct {
	config  *config
	workers *workers
	began   time.Time
}

// newest is the number of tenants that there have been until now.
func (a *asking) newest() int {
	return a.config.active + int(time.Since(a.began).Seconds()*a.config.tenants)
}

// question makes the nth.
func (a *asking) question(n uint64) question {
	r := rand.New(rand.NewPCG(n, 1)) //nolint:gosec // the same questions each time
	chance := func(p float64) bool { return r.Float64() < p }
	tenant := a.newest() - 1 - r.IntN(a.config.active)
	q := question{tenant: fmt.Sprintf("tenant-%d", tenant), status: http.StatusOK, leaves: -1, extra: http.Header{}}
	if tenant%50 == 0 {
		q.class, q.greedy = classGreedy, true
	}
	switch kind := r.Float64(); {
	case kind < 0.01:
		q.path = "/v1/models"
		return q
	case kind < 0.015: // a model that nobody has ever had, and never the same
		q.path, q.status, q.unknown = "/v1/completions", http.StatusNotFound, true
		q.body = fmt.Appendf(nil, `{"model":"nobody-has-%d","prompt":"hello"}`, n)
		return q
	case kind < 0.02:
		q.path, q.status = "/v1/chat/completions", http.StatusBadRequest
		q.body = []byte(`{"model":"` + base + `","messages":[`)
		return q
	}
	model := base
	if chance(0.1) {
		if q.adapter = a.workers.ask(r.IntN); q.adapter != "" {
			model = q.adapter
		}
	}
	const prefixes, prefixTokens, newTokens = 2, 160, 24
	prefix := fleettest.Text(uint64(tenant*prefixes+r.IntN(prefixes)), prefixTokens)
	own := fleettest.Text(1<<40+n, newTokens)
	stream := !chance(0.15)
	fields := map[string]any{"model": model, "stream": stream, "max_tokens": outputTokens}
	q.end = "data: [DONE]"
	switch kind := r.Float64(); {
	case kind < 0.8:
		q.path = "/v1/completions"
		fields["prompt"] = prefix + " " + own
	case kind < 0.97:
		q.path = "/v1/chat/completions"
		fields["messages"] = []map[string]string{{"role": "system", "content": prefix}, {"role": "user", "content": own}}
	default:
		q.path, q.end = "/v1/messages", "message_stop"
		fields["system"] = prefix
		fields["messages"] = []map[string]string{{"role": "user", "content": own}}
	}
	if !stream {
		q.end = ""
	}
	if chance(0.3) {
		q.extra.Set(kvsteer.HeaderSession, fmt.Sprintf("session-%d-%d", tenant, r.IntN(4)))
	}
	if chance(0.05) {
		q.extra.Set(kvsteer.HeaderTargetTTFT, "500")
	}
	if chance(0.02) {
		q.leaves = r.IntN(600)
	}
	if chance(0.01) {
		q.patience = time.Duration(1 + r.IntN(int(30*time.Millisecond)))
	}
	q.body, _ = json.Marshal(fields) //nolint:errchkjson // strings and numbers
	return q
}

// outcome is what became of a question.
type outcome uint8

const (
	answered outcome = iota
	refused          // as it should be: an unknown model, a broken body
	limited          // as it should be: a greedy tenant
	left             // the client went away
	injury           // failed, by something that was done to its worker
	failed           // for no reason: this must not be
	outcomes
)

func (o outcome) String() string {
	return [...]string{
		"answered", "refused as they should be", "limited as they should be", "left by the client", "failed by injection", "failed",
	}[o]
}

// ask asks one and says what became of it, and why if it failed. What was tried for it comes
// to be in t.
func (l *load) ask(ctx context.Context, n uint64, q *question, t *trail) (outcome, string) {
	wait := 5 * time.Minute
	if q.patience > 0 {
		wait = q.patience
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	number := strconv.FormatUint(n, 10)
	l.rig.trails.Store(number, t)
	defer l.rig.trails.Delete(number)
	method := http.MethodPost
	if q.body == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+l.rig.address+q.path, bytes.NewReader(q.body))
	if err != nil {
		return failed, err.Error()
	}
	req.Header = q.extra
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(headerNumber, number)
	req.Header.Set(headerTenant, q.tenant)
	if q.class != "" {
		req.Header.Set(headerClass, q.class)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		if q.patience > 0 && ctx.Err() != nil {
			return left, ""
		}
		return failed, err.Error()
	}
	defer resp.Body.Close()
	if q.leaves >= 0 && resp.StatusCode == q.status {
		_, _ = io.CopyN(io.Discard, resp.Body, int64(q.leaves)) // it goes away anyway
		cancel()
		return left, ""
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case q.patience > 0 && ctx.Err() != nil:
		return left, ""
	case q.greedy && resp.StatusCode == http.StatusTooManyRequests:
		return limited, ""
	case q.unknown && resp.StatusCode == http.StatusServiceUnavailable:
		return refused, ""
	case resp.StatusCode != q.status:
		if why := t.injury(); why != "" && resp.StatusCode >= http.StatusInternalServerError {
			return injury, why
		}
		body = body[:min(300, len(body))]
		return failed, fmt.Sprintf("%s: status %d instead of %d: %s: %v", q.path, resp.StatusCode, q.status, body, t)
	case q.status != http.StatusOK:
		return refused, ""
	case err == nil && (q.end == "" && json.Valid(body) || q.end != "" && bytes.Contains(body, []byte(q.end))):
		return answered, ""
	}
	if why := t.injury(); why != "" {
		return injury, why
	}
	return failed, fmt.Sprintf("%s: the answer of %q breaks off after %d bytes: %v: %v", q.path, t.worker(), len(body), err, t)
}
