package chaos

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer"
)

// weather is what was wrong at some time while a request was under way: what it may have
// failed for. Only the world's own goroutine touches it.
type weather struct {
	sites    []bool
	provider bool
	// lives are the workers that stood at the sites last, others how many stood there before
	// them: each of them may have cost an attempt.
	lives  []string
	others []int
	// fails: the limits could not be reached; limits: they were in force.
	fails, limits bool
	// closed: the gateway was.
	closed bool
	// late is how late the world's pulse was by then, all in all.
	late time.Duration
}

// weather is what is wrong now for who asks a gateway.
func (g *gateway) weather() weather {
	w := g.world
	now := weather{
		sites: make([]bool, len(w.sites)), provider: w.provides.Load()%8 <= 3,
		lives: make([]string, len(w.sites)), others: make([]int, len(w.sites)),
		closed: w.gateways[g.index] != g,
		fails:  w.gate.mode.Load() == gateFails, limits: w.gate.mode.Load() == gateOpen,
	}
	for i, s := range w.sites {
		now.sites[i] = s.ill || !g.routable(s)
		now.lives[i] = s.engine.Name() + "@" + s.epoch
	}
	return now
}

// pulse is a goroutine that wakes up again and again, to see how slow the machine is: one that
// runs others instead for seconds makes engines that are well seem silent.
type pulse struct{ sum atomic.Int64 }

func (p *pulse) late() time.Duration { return time.Duration(p.sum.Load()) }

// beat runs until stop is closed.
func (p *pulse) beat(stop <-chan struct{}) {
	ticks := time.NewTimer(glance)
	defer ticks.Stop()
	for due := time.Now().Add(glance); ; due = time.Now().Add(glance) {
		select {
		case <-stop:
			return
		case <-ticks.C:
		}
		p.sum.Add(int64(max(time.Since(due), 0)))
		ticks.Reset(glance)
	}
}

// routable reports whether the fleet has what is at a site, and takes it for well.
func (g *gateway) routable(s *site) bool {
	snap := g.fleet.Snapshot()
	m := snap.Member(s.engine.Name())
	// The router chooses by the Snapshot, which comes a moment after the state that it shows.
	return m != nil && strings.HasPrefix(m.Epoch(), s.epoch) && m.Routable() && slices.Contains(snap.ForModel(model), m)
}

// meet adds what is wrong now to what every request under way has met.
func (w *world) meet() {
	for _, c := range w.open {
		now := c.gateway.weather()
		c.met.add(&now)
	}
}

func (m *weather) add(now *weather) {
	for i, wrong := range now.sites {
		m.sites[i] = m.sites[i] || wrong
		if now.lives[i] != m.lives[i] {
			m.lives[i] = now.lives[i]
			m.others[i]++
		}
	}
	m.provider = m.provider || now.provider
	m.fails = m.fails || now.fails
	m.limits = m.limits || now.limits
	m.closed = m.closed || now.closed
}

// sicken notes that a step has made a site one that a request may fail at. Steps that only
// hide what the router knows do not: it must serve all the same.
func (w *world) sicken(s Step) {
	switch s.Op {
	case "kill", "revive", "restart", "replace", "reuse", "hang", "stall", "slow", "refuse", "fail", "die", "sick":
		w.site(s.A).ill = true
	case "mend":
		w.site(s.A).ill = false
	default:
	}
}

// well counts the workers that a request might have gone to all the time, and those at which
// it could have failed.
func (w *world) well(c *client) (well, bad int) {
	for i, wrong := range c.met.sites {
		switch {
		case c.private && i == w.setup.shared:
		case wrong:
			bad += 1 + c.met.others[i]
		case w.sites[i].computes(): // for others
		default:
			well++
		}
	}
	if w.setup.outside && c.met.provider && !c.private {
		bad++
	}
	return well, bad
}

// excused says why a request that ended so need not have been served: what of it the faults
// that were on while it was under way do not explain is a violation.
func (w *world) excused(c *client) *Violation {
	if errors.Is(c.err, errHung) {
		return violation(Heals, "client %d has waited for %s, and nobody has told it anything", c.id, w.clientTime())
	}
	if c.stage == stageBefore || c.stage == stageSoon || c.left.Load() || c.met.closed {
		return nil
	}
	well, bad := w.well(c)
	// So many are tried. An engine that is well may seem silent to a router in haste, and to
	// one on a machine that stands still.
	hasty := w.setup.hasty || w.pulse.late()-c.met.late > w.silence()/4
	sure := well > 0 && bad < kvsteer.DefaultMaxAttempts && !hasty
	if sure {
		w.tally.add("a request that nothing excused")
	}
	if c.status == http.StatusOK {
		if sure && bad == 0 && c.stage == stageNever && (c.err != nil || c.broken()) {
			return violation(Available, "nothing was wrong while client %d waited, and its answer broke off: %v: %.300s", c.id, c.err, c.text)
		}
		return nil
	}
	why := code(c.text)
	may := !sure
	switch why {
	case "unavailable":
		may = c.met.fails
	case "limited":
		may = c.met.limits && c.tenant == tightTenant
	case "saturated":
		may = w.setup.queue
	case "no_candidates", "rejected_by_policy":
		may = well == 0
	case "router_closed", "unknown_model", "bad_request", "not_forwarded", "request_too_large", "unauthenticated", "forbidden", "canceled":
		may = false
	default: // upstream_failed, or what a worker or a provider said
	}
	if may {
		return nil
	}
	return violation(Available, "client %d (private %t, tenant %s) got status %d, %q, %v, which nothing explains: "+
		"%d workers were well and %d not while it waited: %.300s",
		c.id, c.private, c.tenant, c.status, why, c.err, well, bad, c.text)
}

// code is that of an error in a body, "" if there is none.
func code(text string) string {
	var body struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &body) != nil {
		return ""
	}
	s, _ := body.Error.Code.(string)
	return s
}

// refused turns the error of a Select into what a Transport would have answered.
func (c *client) refused(err error) {
	var e *kvsteer.Error
	if !errors.As(err, &e) {
		return
	}
	body, marshalErr := json.Marshal(map[string]any{"error": map[string]string{
		"code": strings.ReplaceAll(e.Code.String(), " ", "_"), "message": e.Message,
	}})
	if marshalErr == nil {
		c.status, c.text = e.HTTPStatus(), string(body)
	}
}

// answers are the different answers that the body of one is made of: an engine and a
// provider put a name into each.
func answers(body string) []string {
	var names []string
	for _, part := range strings.Split(content(body), "<")[1:] {
		if name, _, ok := strings.Cut(part, ">"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// content is what a body says, in one piece.
func content(body string) string {
	var all strings.Builder
	for line := range strings.Lines(body) {
		var part struct {
			Choices []struct {
				Text  string `json:"text"`
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &part) != nil {
			continue
		}
		for i := range part.Choices {
			p := &part.Choices[i]
			all.WriteString(p.Text + p.Delta.Content + p.Message.Content)
		}
	}
	return all.String()
}
