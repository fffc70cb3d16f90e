package chaos

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// roles are those of the sites of a world in which two workers may serve a request. Those
// of setup are among them: one that computes prompts is not for private requests, one that
// goes on from there publishes no events.
func roles() []fleet.Role {
	return []fleet.Role{fleet.RoleDecode, fleet.RolePrefill, fleet.RoleDecode, fleet.RolePrefill, fleet.RoleWhole}
}

func (s *site) role() fleet.Role {
	if s.world.setup.split {
		return roles()[s.index]
	}
	return fleet.RoleWhole
}

// computes reports whether the site's engines only compute prompts.
func (s *site) computes() bool { return s.role() == fleet.RolePrefill }

// served names the workers by which a request gets to the site's engine.
func (s *site) served() string {
	names := []string{s.engine.Name()}
	for _, other := range s.world.sites {
		if s.computes() && other.role() == fleet.RoleDecode {
			names = append(names, other.engine.Name())
		}
	}
	return strings.Join(names, ",")
}

// paces predicts that it is worth while to have a prompt computed elsewhere: engines here are
// all as fast as each other.
type paces struct{}

// Predict implements kvsteer.Predictor.
func (paces) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		pace := 5 * time.Millisecond
		switch fleet.Role(in[i].Class) {
		case fleet.RolePrefill:
			pace = time.Millisecond
		case fleet.RoleDecode:
			pace = 10 * time.Millisecond
		default:
		}
		own := time.Duration(in[i].Uncached) * pace
		out[i] = kvsteer.Prediction{TTFT: own + time.Duration(in[i].AheadTokens)*pace, Prefill: own, Externality: own}
	}
}

// Observe implements kvsteer.Predictor.
func (paces) Observe(*kvsteer.Features, time.Duration) {}

// legs is the way from a gateway to workers. A client whose stage is there leaves on it.
type legs struct {
	*http.Transport

	world *world
	to    map[string]bool // who computes prompts, by host:port
}

func (w *world) newLegs() *legs {
	l := &legs{Transport: kvsteer.NewBase(), world: w, to: make(map[string]bool)}
	for _, s := range w.sites {
		if s.computes() {
			l.to[s.addr] = true
		}
	}
	return l
}

// RoundTrip implements http.RoundTripper.
func (l *legs) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.to[r.URL.Host] || r.Method != http.MethodPost {
		return l.Transport.RoundTrip(r)
	}
	l.world.tally.add("a prompt computed for another worker")
	found, ok := l.world.leavers.Load(r.Header.Get(headerID))
	if !ok {
		return l.Transport.RoundTrip(r)
	}
	c := found.(*client) //nolint:forcetypeassert // nothing else is there
	leave := func() {
		l.world.tally.add("left while one computed for another")
		c.left.Store(true)
		c.leave()
	}
	gone := func() { // and the gateway has seen it
		leave()
		glimpseFor(r.Context().Done(), 10*glance)
	}
	switch c.stage {
	case stagePrompt:
		gone()
		return l.Transport.RoundTrip(r)
	case stageComputing:
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }}
		return l.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	default:
		return answered(l.Transport, r, gone)
	}
}

// answered does something when the answer is there, before anybody has read it.
func answered(base http.RoundTripper, r *http.Request, then func()) (*http.Response, error) {
	resp, err := base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if failed := resp.Body.Close(); failed != nil {
		return nil, failed
	}
	then()
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), broken{err}))
	return resp, nil
}

// broken is the end of what was read, as it was.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) {
	if b.err == nil {
		return 0, io.EOF
	}
	return 0, b.err
}

// What one worker is told, so that it computes a prompt for another, and what the other is
// told of it.
var (
	transfer   = regexp.MustCompile(`,"kv_transfer_params":\{[^{}]*\}`)
	transferBy = regexp.MustCompile(`"remote_engine_id":"[^"]*"`)
)

const transferAsked = `"do_remote_decode":true`

func withoutTransfer(body string) string { return transfer.ReplaceAllString(body, "") }

// legs says what is wrong with what the engine of a site was asked for a client.
func (s *site) legs(e *fleettest.Engine, r *fleettest.Request, id int) *Violation {
	told := transfer.FindString(string(r.Body))
	asked := strings.Contains(told, transferAsked)
	switch {
	case s.computes() != asked:
		return violation(Legs, "%s, which is of the role %q, was asked for client %d to compute a prompt for another (%t): %s",
			e.Name(), s.role(), id, asked, r.Body)
	case asked, told == "":
		return nil
	case s.role() != fleet.RoleDecode || !s.world.computed(transferBy.FindString(told), id):
		return violation(Legs, "%s, which is of the role %q, is to go on for client %d from what nobody has computed: %s",
			e.Name(), s.role(), id, told)
	default:
		return nil
	}
}

// computed reports whether the prompt of a client was sent to the engine that is said to have it.
func (w *world) computed(by string, id int) bool {
	for _, s := range w.sites {
		for _, e := range s.engines() {
			if !s.computes() || !strings.HasPrefix(by, `"remote_engine_id":"`+e.Name()+"-") {
				continue
			}
			return slices.ContainsFunc(e.Requests(), func(r fleettest.Request) bool {
				return r.Header.Get(headerID) == strconv.Itoa(id)
			})
		}
	}
	return false
}

// legsOf are the instances that an attempt is sent to.
func legsOf(d *kvsteer.Decision) []string {
	c := d.Winner()
	list := []string{c.Instance}
	if c.PrefillOn != "" && d.Prefill != nil {
		list = append(list, d.Prefill.Candidates[d.Prefill.Chosen].Instance)
	}
	return list
}

// everyCandidate are those for an answer and those that would compute the prompt for it.
func everyCandidate(d *kvsteer.Decision) []kvsteer.DecisionCandidate {
	if d.Prefill == nil {
		return d.Candidates
	}
	return slices.Concat(d.Candidates, d.Prefill.Candidates)
}

// known asks for a prompt, so that all that may have it are candidates.
func (w *world) known(number int) (q *kvsteer.Request, tokens []uint32) {
	text, tokens := w.prompt(number)
	q = &kvsteer.Request{API: kvsteer.Completions, Model: model, TokenIDs: tokens, Tags: w.tags(false)}
	if w.setup.split {
		q.Body = []byte(requestBody(`"prompt":"`+text+`"`, "", 1))
	}
	return q, tokens
}

// driveLegs does with a Selection of two workers what may be done, in one of the orders.
func (c *client) driveLegs(w *world, s *kvsteer.Selection, calls int) {
	t, _, ok := s.Prefill()
	if ok && c.private && w.barred(t) {
		c.err = errBarred
	}
	switch calls / 3 % 5 {
	case 0:
		_ = s.Prefilled([]byte(`{"kv_transfer_params":{"do_remote_prefill":true},"usage":{"prompt_tokens":90,"completion_tokens":1}}`))
	case 1:
		s.Alone()
	case 2:
		_ = s.Prefilled([]byte(`{"choices":[]}`)) // of an engine that has no connector
	case 3:
		s.Alone()
		_ = s.Prefilled([]byte(`{"kv_transfer_params":{}}`))
	default: // nobody computes it, and nobody says so
	}
}
