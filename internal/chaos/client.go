package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

const (
	model = "m"
	// canary is a word of every prompt, secret what every client shows: neither may be
	// found anywhere.
	canary = "zqcanaryqz"
	secret = "sk-zqsecretqz" //nolint:gosec // nobody takes it
	// providerKey is what the router shows the provider.
	providerKey = "pk-zqproviderqz"

	headerID      = "X-Chaos-Id"
	headerPrivate = "X-Chaos-Private"
	headerTenant  = "X-Chaos-Tenant"
	headerAmong   = "X-Chaos-Among"

	families = 5  // prompts that begin alike
	prefix   = 80 // tokens that they share
)

// client is one request, and whoever sent it.
type client struct {
	id      int
	gateway *gateway
	path    string
	body    string
	tokens  []uint32 // nil where they are not known here
	stream  bool
	asked   bool // for usage
	private bool
	tenant  string
	among   string        // the only workers for it, with commas between them
	stage   int           // when the client leaves
	after   int           // how far into that
	met     weather       // while it waited
	hand    bool          // it is a Selection driven by hand
	leave   func()        // at its stage, if that is one of two workers'
	left    atomic.Bool   // it has
	reached chan struct{} // the answer has begun, or nothing more will come
	done    chan struct{}
	status  int
	text    string
	err     error
}

// Stages at which a client leaves.
const (
	stageNever = iota
	stageBefore
	stageSoon    // within some milliseconds, wherever the request is
	stageHeaders // when the answer begins
	stageMiddle  // after some bytes of it
	stageLast    // after all bytes, without having seen the end
	stages

	// Of requests that two workers serve; who is served by one stays to the end.
	stagePrompt    = iota // before the first of them is asked
	stageComputing        // when it is
	stageHanded           // when it has answered, before the other one is asked
)

const legStages = 3

// prompt is the text of a request and its token ids.
func (w *world) prompt(number int) (string, []uint32) {
	family := number % families
	text := canary + " " + fleettest.Text(w.plan.Seed*families+uint64(family), prefix) + " " +
		fleettest.Text(w.plan.Seed^uint64(number)<<20, 10+number%60)
	return text, fleettest.Tokenize(text)
}

// newClient makes the client of a step.
func (w *world) newClient(a, b int) *client {
	w.clients++
	c := &client{
		gateway: w.gateways[w.clients%len(w.gateways)],
		id:      w.clients, path: "/v1/completions", stream: a%3 > 0, private: a%4 == 1, stage: stageNever,
		tenant: "t" + strconv.Itoa(b%3), after: b, reached: make(chan struct{}), done: make(chan struct{}),
	}
	if a%5 > 2 {
		c.stage = a / 5 % stages
	}
	if w.setup.split && a%5 == 2 {
		c.stage = stagePrompt + a/5%legStages
	}
	text, tokens := w.prompt(b)
	var prompt string
	if a%7 == 0 {
		c.path, prompt = "/v1/chat/completions", fmt.Sprintf(`"messages":[{"role":"user","content":%q}]`, text)
	} else {
		c.tokens, prompt = tokens, fmt.Sprintf(`"prompt":%q`, text)
	}
	options := ""
	if c.stream && a%11 == 0 {
		c.asked, options = true, `,"stream_options":{"include_usage":true}`
	}
	w.bodies[c.id] = requestBody(prompt, fmt.Sprintf(`,"stream":%t%s`, c.stream, options), 3+b%6)
	w.prompts[c.id] = requestBody(prompt, "", 1)
	c.body = w.bodies[c.id]
	if c.tokens != nil {
		w.numbers[b] = true
	}
	return c
}

// requestBody has numbers and doubles that do not survive being read and written again.
func requestBody(prompt, stream string, most int) string {
	return fmt.Sprintf(`{"temperature":1.0, "model":%q,"seed":9007199254740993,%s%s,`+
		`  "top_p":1.0,"max_tokens":%d,"seed":9007199254740993}`, model, prompt, stream, most)
}

// clientTime is how long a client waits: longer than the end of the world waits for clients,
// and than a router may take that tries silent workers one after the other.
func (w *world) clientTime() time.Duration { return (slowest + 1) * w.patience }

// errHung: a client has waited for as long as it would, though it would not have left.
var errHung = errors.New("chaos: it hangs")

// send is the client's goroutine.
func (w *world) send(ctx context.Context, c *client) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.clientTime(), errHung)
	defer cancel()
	defer close(c.done)
	defer c.hangs(ctx)
	defer func() {
		select {
		case <-c.reached:
		default:
			close(c.reached)
		}
	}()
	switch c.stage {
	case stageBefore:
		cancel()
	case stageSoon:
		timer := time.AfterFunc(time.Duration(c.after%40)*100*time.Microsecond, cancel)
		defer timer.Stop()
	case stagePrompt, stageComputing, stageHanded:
		c.leave = cancel
		w.leavers.Store(strconv.Itoa(c.id), c)
	default:
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.gateway.server.URL+c.path, strings.NewReader(c.body))
	if err != nil {
		c.err = err
		return
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer " + secret},
		headerID: {strconv.Itoa(c.id)}, headerTenant: {c.tenant},
	}
	if c.among != "" {
		req.Header.Set(headerAmong, c.among)
	}
	if c.private {
		req.Header.Set(headerPrivate, "1")
	}
	resp, err := w.http.Do(req)
	if err != nil {
		c.err = err
		return
	}
	close(c.reached)
	c.status = resp.StatusCode
	var text []byte
	stage := c.stage
	if c.status != http.StatusOK {
		stage = stageNever // what it says is wanted
	}
	switch stage {
	case stageHeaders:
	case stageMiddle:
		text, c.err = io.ReadAll(io.LimitReader(resp.Body, int64(c.after)))
	case stageLast:
		text, c.err = io.ReadAll(io.LimitReader(resp.Body, max(resp.ContentLength, 1)))
	default:
		text, c.err = io.ReadAll(resp.Body)
	}
	c.text = string(text)
	if err := resp.Body.Close(); c.err == nil {
		c.err = err
	}
}

// hangs notes what a client has left for, if that is that nothing came.
func (c *client) hangs(ctx context.Context) {
	if c.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.err = errors.Join(errHung, c.err)
	}
}

// whole reports whether the client stayed to the end and got it.
func (c *client) whole() bool {
	return c.stage == stageNever && c.err == nil && c.status == http.StatusOK
}

// check says what is wrong with what the client got; it has ended.
func (c *client) check() *Violation {
	if c.status == 0 || c.hand {
		return nil
	}
	switch c.status {
	case http.StatusOK, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusForbidden: // nobody is left that may have it
	default:
		return violation(Available, "client %d got status %d for a request that is all right: %.300s", c.id, c.status, c.text)
	}
	if word := leaked(c.text); word != "" {
		return violation(Secret, "client %d got %s with status %d: %.300s", c.id, word, c.status, c.text)
	}
	if c.status != http.StatusOK {
		return nil
	}
	if n := len(answers(c.text)); n > 1 || n == 0 && c.whole() && !c.broken() {
		return violation(OneAnswer, "client %d got %d answers in one: %.300s", c.id, n, c.text)
	}
	if n := strings.Count(c.text, "[DONE]"); n > 1 || (n == 0 && c.stream && c.whole() && !c.broken()) {
		return violation(OneAnswer, "client %d got %d ends of its stream: %.300s", c.id, n, c.text)
	}
	if c.stream && !c.asked && strings.Contains(c.text, `"choices":[]`) {
		return violation(OneAnswer, "client %d got a chunk of usage that it did not ask for: %.300s", c.id, c.text)
	}
	if strings.Contains(c.text, "remote_block_ids") {
		return violation(Legs, "client %d got what one worker tells another: %.300s", c.id, c.text)
	}
	return nil
}

// broken reports whether the answer says itself that it is not whole.
func (c *client) broken() bool { return strings.Contains(c.text, `"error"`) }

// drive uses the Router by hand, as no one should.
func (w *world) drive(ctx context.Context, c *client, calls int) {
	defer close(c.done)
	ctx, cancel := context.WithTimeoutCause(ctx, w.clientTime(), errHung)
	defer cancel()
	defer c.hangs(ctx)
	tags := w.tags(c.private)
	s, err := c.gateway.router.Select(ctx, &kvsteer.Request{
		API: kvsteer.Completions, Body: []byte(c.body), Tags: tags, Tenant: c.tenant,
	})
	close(c.reached)
	if err != nil {
		c.err = err
		c.refused(err)
		return
	}
	c.status = http.StatusOK
	w.driven.Add(1)
	if w.setup.split {
		c.driveLegs(w, s, calls)
	}
	for n := calls; n > 0; n /= 5 {
		if c.private && w.barred(s.Target()) {
			c.err = errBarred
		}
		switch n % 5 {
		case 0:
			s.FirstToken()
		case 1:
			_ = s.Next(ctx, errDown) // whatever comes of it, the end is ours
		case 2:
			s.Sent()
		case 3:
			s.Touch()
		default:
			_ = s.Body()
		}
	}
	if calls%3 == 0 {
		s.Done(kvsteer.Usage{})
	}
	s.Abort(nil)
	if calls%2 == 0 {
		s.Done(kvsteer.Usage{})
		s.FirstToken()
	}
}
