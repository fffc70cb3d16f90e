package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// take does one step.
func (w *world) take(ctx context.Context, s Step) error {
	w.sicken(s)
	switch s.Op {
	case "client", "select", "relic", "pause":
		return w.takeClient(ctx, s)
	case "kill", "revive", "restart", "replace", "reuse":
		return w.takeLife(s)
	case "lose", "burn", "corrupt", "delay", "repeat", "swap", "cut", "reset":
		return w.takeEvents(ctx, s)
	case "bus", "noise", "gateway":
		return w.takeReplicas(ctx, s)
	case "skew", "limits", "sink", "tokenizer", "provider", "discover", "drain", "snapshot", "policy":
		return w.takeRouter(s)
	default:
		return w.takeEngine(s)
	}
}

func (w *world) takeClient(ctx context.Context, s Step) error {
	switch s.Op {
	case "pause":
		for _, c := range w.open {
			glimpse(c.done)
		}
	case "relic":
		return w.leaveRelic(ctx, s)
	case "select":
		c := w.newClient(s.A, s.B)
		c.stage, c.hand = stageNever, true
		w.launch(ctx, c, func(ctx context.Context, c *client) { w.drive(ctx, c, s.B) })
		glimpse(c.done)
	default:
		c := w.newClient(s.A, s.B)
		w.launch(ctx, c, w.send)
		switch s.B % 4 {
		case 0:
		case 1:
			glimpse(c.reached)
		default:
			glimpse(c.done)
		}
	}
	return nil
}

// takeLife ends an engine, and perhaps begins another one.
func (w *world) takeLife(s Step) error {
	at := w.site(s.A)
	switch s.Op {
	case "kill":
		return at.engine.Kill()
	case "revive":
		return at.revive()
	}
	var err error
	switch s.Op {
	case "restart": // in silence
		err = errors.Join(at.engine.Kill(), at.revive())
	case "replace": // with another epoch
		err = errors.Join(at.engine.Kill(), at.revive())
		at.anew()
		w.list(inventoryTells)
	default: // another one at the same address
		if err = at.vacate(); err == nil {
			err = at.occupy()
		}
		at.shaken = false
		w.list(inventoryTells)
	}
	return err
}

// list tells the fleet of all workers, in one of the inventory's ways.
func (w *world) list(state int) {
	list := w.workers()
	if state != inventoryTells {
		w.inventory.put(list, state)
		return
	}
	w.listed = list
	w.inventory.put(list, state)
}

func (w *world) takeEngine(s Step) error {
	at := w.site(s.A)
	f := at.engine.Faults()
	switch s.Op {
	case "hang":
		f.Hang([]fleettest.HangPoint{fleettest.HangBeforeHeaders, fleettest.HangBeforeFirstToken, fleettest.HangMidStream}[s.B%3])
	case "stall":
		f.HangAdmin(true)
	case "slow":
		f.Slow(float64(2 + s.B%50))
	case "refuse":
		return at.engine.Refuse(true)
	case "fail":
		status := []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests}[s.B%3]
		f.Fail(1+s.B%3, status, time.Duration(s.B%2)*time.Second)
	case "die":
		f.DieMidStream(1+s.B%2, s.B%4)
	case "sick":
		f.Unhealthy(true)
	case "nousage":
		f.NoUsage(true)
	case "nometrics":
		f.HideMetrics(true)
	case "freeze":
		f.FreezeMetrics(true)
	default: // mend
		return w.mend(at)
	}
	return nil
}

// mend lifts all faults of an engine.
func (w *world) mend(at *site) error {
	at.clear()
	for _, wire := range at.wires {
		wire.mend()
	}
	if err := at.revive(); err != nil {
		return err
	}
	return w.eventually("listen again", func() error { return at.engine.Refuse(false) })
}

func (w *world) takeEvents(ctx context.Context, s Step) error {
	at := w.site(s.A)
	n, wire := 1+s.B%3, at.wires[s.B/3%len(at.wires)]
	switch s.Op {
	case "lose":
		wire.next(func(u *unfair) { u.lose += n })
	case "repeat":
		wire.next(func(u *unfair) { u.repeat += n })
	case "swap":
		wire.next(func(u *unfair) { u.swap += n })
	case "burn":
		at.shaken = true
		at.engine.Faults().BurnEvents(n)
	case "corrupt":
		at.shaken = true
		at.engine.Faults().CorruptEvents(n)
	case "delay":
		at.engine.Faults().DelayEvents(time.Duration(s.B%20) * time.Millisecond)
	case "cut":
		for _, url := range []string{wire.endpoint.Events, wire.endpoint.Replay} {
			w.cables.cut(strings.TrimPrefix(url, "tcp://"))
		}
	default: // reset
		_ = w.post(ctx, at.engine.URL()+"/reset_prefix_cache", "", 0) // it may be dead
	}
	return nil
}

// post sends something to a rank of an engine itself; the error says that it did not answer.
func (w *world) post(ctx context.Context, url, body string, rank int) error {
	wait := 10 * glance
	if w.mended { // it will come
		wait = w.patience
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if w.setup.ranks > 1 {
		req.Header.Set("X-Data-Parallel-Rank", strconv.Itoa(rank))
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", errDown, resp.StatusCode)
	}
	return nil
}

func (w *world) takeRouter(s Step) error {
	switch s.Op {
	case "skew":
		// As far as all that expires, and back.
		jumps := []time.Duration{-time.Hour, -time.Minute, -time.Second, time.Second, 10 * time.Second, 2 * time.Minute, time.Hour}
		if s.A%len(w.clocks) == 2 {
			w.gate.jumped()
		}
		w.clocks[s.A%len(w.clocks)].jump(jumps[s.B%len(jumps)])
	case "limits":
		w.gate.mode.Store(int32(s.A) % gateModes)
	case "sink":
		w.vault.mode.Store(int32(s.A) % vaultModes)
	case "tokenizer":
		w.tokenizer.mode.Store(int32(s.A) % tokenizerModes)
	case "provider":
		w.provides.Store(int32(s.A))
	case "discover":
		w.list(s.A % inventoryStates)
	case "drain":
		for _, g := range w.gateways {
			g.drain(w.site(s.A), s.B%2 == 0)
		}
	case "snapshot":
		return w.takeSnapshot(s)
	default:
		return w.takePolicy(s)
	}
	return nil
}

// takePolicy writes the policy's file, and has it read.
func (w *world) takePolicy(s Step) error {
	good, bad := goodPolicies(), badPolicies()
	if s.A%2 == 0 {
		if err := os.WriteFile(w.policyPath(), []byte(good[s.B%len(good)]), 0o600); err != nil {
			return err
		}
		if err := w.source.Reload(); err != nil {
			return fmt.Errorf("a good policy is refused: %w", err)
		}
		w.version = w.source.Status().Version
		return nil
	}
	err := os.Remove(w.policyPath())
	if i := s.B % (len(bad) + 1); i < len(bad) {
		err = os.WriteFile(w.policyPath(), []byte(bad[i]), 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_ = w.source.Reload() // whether it noticed shows in what is in force
	return nil
}

// providerWorks is a mode in which the provider answers.
const providerWorks = 7

// mischief is what the provider does to a request.
func (w *world) mischief(*providertest.Request) providertest.Answer {
	n := int(w.provides.Load())
	a := providertest.Answer{Text: fmt.Sprintf("<ans-%s-%d> from outside", providerName, w.provided.Add(1))}
	switch n % 8 {
	case 0:
		faults := []providertest.Fault{
			providertest.RateLimited, providertest.Overloaded, providertest.ServerError, providertest.BadGateway, providertest.Hangup,
		}
		a.Fault = faults[n/8%len(faults)]
	case 1:
		a.Frames.DieAt = 1 + n/8%9
	case 2:
		a.Frames.FailAt, a.Frames.Fault = 1+n/8%9, providertest.Overloaded
	case 3:
		a.Frames.StallAt = 2 + n/8%6
	case 4:
		a.NoUsage = true
	default:
	}
	return a
}

// takeSnapshot damages a snapshot of an index and has another one read it: what is damaged
// is refused, and nothing of it is known then.
func (w *world) takeSnapshot(s Step) error {
	const owners = 3
	from := kvcache.NewIndex(kvcache.Options{})
	for i := range owners {
		_, tokens := w.prompt(s.A + i)
		tokens = tokens[:len(tokens)/blockSize*blockSize]
		e := kvcache.Event{Kind: kvcache.Stored, Tokens: tokens, BlockSize: blockSize}
		for block := range len(tokens) / blockSize {
			e.Hashes = append(e.Hashes, kvcache.EngineHash(1+block+100*i))
		}
		from.Apply(from.Join(fmt.Sprint("w", i)), &e)
	}
	var file bytes.Buffer
	if err := from.Export(&file); err != nil {
		return err
	}
	raw := file.Bytes()
	damaged := slices.Clone(raw)
	switch at := s.B % len(raw); s.A % 3 {
	case 0:
		damaged = damaged[:at]
	case 1:
		damaged[at] ^= 1 << (s.B % 8)
	default:
		damaged = append(damaged[:at], damaged[min(at+1+s.A%9, len(raw)):]...)
	}
	to := kvcache.NewIndex(kvcache.Options{})
	_, err := to.Import(bytes.NewReader(damaged), func(name string, _ int) kvcache.Owner { return to.Join(name) })
	if known := to.Stats().Pairs; err == nil || known > 0 {
		w.noted = violation(NoOvercount, "of a snapshot that was damaged %d pairs are known (error: %v)", known, err)
	}
	return nil
}

// relic is a prompt that is sent once and never again: no worker but the one that computed
// it may ever seem to have it.
type relic struct {
	tokens   []uint32
	instance string
	rank     int
	gateway  int
}

// leaveRelic sends a prompt that nothing else begins like, and remembers who has it.
func (w *world) leaveRelic(ctx context.Context, s Step) error {
	if len(w.relics) >= 4 {
		return nil
	}
	tokens := fleettest.Tokenize(canary + " " + fleettest.Text(w.plan.Seed<<8+uint64(len(w.relics))+1<<62, 64))
	ctx, cancel := context.WithTimeout(ctx, glance*10)
	defer cancel()
	g := w.gateways[s.B%len(w.gateways)]
	sel, err := g.router.Select(ctx, &kvsteer.Request{
		API: kvsteer.Completions, Model: model, TokenIDs: tokens, WorkersOnly: true, Tags: w.tags(s.A%2 == 0),
	})
	if err != nil {
		return nil // there may be nobody to leave it with
	}
	w.relics = append(w.relics, relic{tokens, sel.Target().Instance, sel.Target().Rank, g.index})
	sel.FirstToken()
	sel.Done(kvsteer.Usage{})
	return nil
}

// at reports whether a rank of an instance of a gateway's fleet is the one that has the relic.
func (r *relic) at(g *gateway, instance string, rank int) bool {
	if r.gateway == g.index {
		return instance == r.instance && rank == r.rank
	}
	return shared(instance) == shared(r.instance) && rank == r.rank // each fleet numbers what comes back by itself
}

// stale returns what is wrong with where the relics seem to be.
func (g *gateway) stale(ctx context.Context) *Violation {
	w := g.world
	for i := range w.relics {
		r := &w.relics[i]
		d, err := g.router.Explain(ctx, &kvsteer.Request{API: kvsteer.Completions, Model: model, TokenIDs: r.tokens, Tags: w.tags(false)})
		if err != nil {
			continue
		}
		for k := range d.Candidates {
			if c := &d.Candidates[k]; c.CachedTokens > 0 && !r.at(g, c.Instance, c.Rank) {
				return violation(ByInstance, "%s, rank %d, seems to have %d tokens of a prompt that only %s, rank %d, was ever sent",
					c.Instance, c.Rank, c.CachedTokens, r.instance, r.rank)
			}
		}
	}
	return nil
}

// told says how the fleet differs from what it was told.
func (g *gateway) told() error {
	var missing []string
	w, s := g.world, g.fleet.Snapshot()
	for i := range w.listed {
		l := &w.listed[i]
		switch m := s.Member(l.Name); {
		case m == nil || m.URL().String() != l.URL:
			missing = append(missing, l.Name+"@"+l.Epoch)
		case !strings.HasPrefix(m.Epoch(), l.Epoch):
			return fmt.Errorf("%w: %s is listed with epoch %s", errEpoch, m.ID(), l.Epoch)
		}
	}
	if len(missing) > 0 || len(s.Members()) != len(w.listed) {
		return fmt.Errorf("%w: the fleet has not %s but %s", errWaiting, strings.Join(missing, ", "), instances(s))
	}
	return nil
}

func instances(s *fleet.Snapshot) string {
	var list []string
	for _, m := range s.Members() {
		list = append(list, m.ID())
	}
	return strings.Join(list, ", ")
}
