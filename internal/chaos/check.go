package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// Invariant is what must hold; the numbers are those of docs/DESIGN.md.
type Invariant string

// The invariants.
const (
	NoOvercount Invariant = "1 no overcount, exact when in order"
	Released    Invariant = "2 released exactly once, zero at the end"
	SameBytes   Invariant = "3 bodies as sent"
	Policy      Invariant = "4 no attempt against the policy"
	Available   Invariant = "5 never failed because the cache is unknown"
	Accounts    Invariant = "6 reserved = settled + refunded + in flight"
	Ends        Invariant = "7 closing waits for everything"
	ByInstance  Invariant = "8 keyed by instance"
	//nolint:gosec // no credential: the name of an invariant
	Secret    Invariant = "9 no prompt, no key anywhere"
	OneAnswer Invariant = "one answer, whole or broken off"
	Listed    Invariant = "the last good list stays in force"
	Heals     Invariant = "what is mended serves again"
	Peers     Invariant = "of other routers counts what they have"
	Limits    Invariant = "limits let through what fits into them"
	Drained   Invariant = "who is drained gets nothing new"
	Legs      Invariant = "one computes the prompt, the other answers"
)

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant Invariant
	What      string
	// Step is after which of the plan's steps it was seen, counted from 1; 0 is at the end.
	Step int
	// Journal is what the router and the rest have logged, in lines of JSON.
	Journal string
}

// String says what did not hold, and when.
func (v *Violation) String() string {
	when := "at the end"
	if v.Step > 0 {
		when = "after step " + strconv.Itoa(v.Step)
	}
	return fmt.Sprintf("invariant %q, %s: %s", v.Invariant, when, v.What)
}

func violation(i Invariant, format string, args ...any) *Violation {
	return &Violation{Invariant: i, What: fmt.Sprintf(format, args...)}
}

// errWaiting is wrapped by what does not hold yet.
var errWaiting = errors.New("not yet")

// eventually tries until it works; the error is the last one. For as long as the machine stands
// still nobody can do anything, so that does not count, but for a bound.
func (w *world) eventually(what string, try func() error) error {
	began, late := time.Now(), w.pulse.late()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := try()
		if err == nil {
			return nil
		}
		lived := time.Since(began)
		if lived-(w.pulse.late()-late) >= w.patience || lived >= slowest*w.patience {
			return fmt.Errorf("%s: %w", what, err)
		}
		<-time.After(pause)
	}
}

// glimpse waits for what mostly happens soon.
func glimpse(done <-chan struct{}) { glimpseFor(done, glance) }

func glimpseFor(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// always checks what must hold at every instant.
func (w *world) always(ctx context.Context) *Violation {
	if w.noted != nil {
		return w.noted
	}
	w.reap()
	for _, c := range w.ended[w.checked:] {
		w.checked++
		if errors.Is(c.err, errBarred) {
			return violation(Policy, "a Selection of the private request %d was for a worker or a provider that is not for it", c.id)
		}
		if v := c.check(); v != nil {
			return v
		}
		if v := w.excused(c); v != nil {
			return v
		}
	}
	for _, m := range w.everyMember() {
		for rank := range m.Ranks() {
			f := m.InFlight(rank)
			if min(f.PrefillRequests, f.PrefillTokens, f.DecodeRequests, f.OutputTokens, f.ContextTokens) < 0 || f.PrefillPairs < 0 {
				return violation(Released, "what is in flight on %s is less than nothing: %+v", m.ID(), f)
			}
		}
	}
	for _, got := range []string{w.source.Status().Version, w.source.Set().Version()} {
		if got != w.version {
			return violation(Policy, "policy %q is in force, where nothing but %s was ever good", got, w.version)
		}
	}
	for _, g := range w.gateways {
		if v := g.keeps(); v != nil {
			return v
		}
		if v := g.stale(ctx); v != nil {
			return v
		}
		if v := g.drains.check(); v != nil {
			return v
		}
	}
	if v := w.gate.check(); v != nil {
		return v
	}
	return w.quiet()
}

// everyMember are those that any gateway has or had.
func (w *world) everyMember() (list []*fleet.Member) {
	for _, g := range w.everyGateway() {
		list = append(list, g.observer.everyMember()...)
	}
	return list
}

// keeps checks that whoever is listed, and was in the fleet, is there. It may just have been
// told to the observer, and come to the Snapshot in a moment.
func (g *gateway) keeps() *Violation {
	for i := range g.world.listed {
		name := g.world.listed[i].Name
		if !g.everListed(name) {
			continue
		}
		err := g.world.eventually(name, func() error {
			if g.fleet.Snapshot().Member(name) == nil {
				return errWaiting
			}
			return nil
		})
		if err != nil {
			return violation(Listed, "%s is not in the fleet any more, though no list was without it", name)
		}
	}
	return nil
}

// everListed reports whether the fleet has been seen to have a worker.
func (g *gateway) everListed(name string) bool {
	return slices.ContainsFunc(g.observer.everyMember(), func(m *fleet.Member) bool { return m.Name() == name })
}

// reap takes the clients that have ended from the open ones.
func (w *world) reap() {
	w.meet()
	w.open = slices.DeleteFunc(w.open, func(c *client) bool {
		select {
		case <-c.done:
			w.ended = append(w.ended, c)
			return true
		default:
			return false
		}
	})
}

// quiet checks that nothing was said that must not be.
func (w *world) quiet() *Violation {
	for _, word := range secrets() {
		if line := w.journal.line(word); line != "" {
			return violation(Secret, "the log has %s: %.300s", word, line)
		}
	}
	for _, g := range w.everyGateway() {
		if leaked := g.observer.leak(); leaked != "" {
			return violation(Secret, "%s", leaked)
		}
		if text := fmt.Sprintf("%+v", g.router.Stats()); leaked(text) != "" {
			return violation(Secret, "the figures have %s: %.300s", leaked(text), text)
		}
	}
	for _, m := range w.everyMember() {
		if err := m.Health().Err; err != nil && leaked(err.Error()) != "" {
			return violation(Secret, "the health of %s has %s: %.300s", m.ID(), leaked(err.Error()), err)
		}
	}
	return nil
}

// settle mends everything, waits until nothing happens any more, and checks all invariants.
func (w *world) settle(ctx context.Context) (*Violation, error) {
	if err := w.mendAll(); err != nil {
		return nil, err
	}
	for _, check := range []func(context.Context) *Violation{
		w.allEnd, w.always, w.balanced, w.agrees, w.recorded, w.sent, w.heals, w.knows, w.balanced, w.agrees, w.reborn,
	} {
		if v := check(ctx); v != nil {
			return v, nil
		}
	}
	return nil, w.failed
}

func (w *world) mendAll() error {
	w.mended = true
	for _, s := range w.sites {
		if err := w.mend(s); err != nil {
			return err
		}
		s.ill = false
		for _, g := range w.gateways {
			g.drain(s, false)
		}
	}
	w.mendBus()
	w.list(inventoryTells)
	w.gate.mode.Store(gateOpen)
	w.vault.mode.Store(vaultOpen)
	w.tokenizer.mode.Store(tokenizerWorks)
	w.provides.Store(providerWorks)
	return w.takePolicy(Step{})
}

// allEnd waits for every client.
func (w *world) allEnd(context.Context) *Violation {
	err := w.eventually("clients", func() error {
		if w.reap(); len(w.open) > 0 {
			return fmt.Errorf("%w: %d clients have no end of their answer though everything is mended", errWaiting, len(w.open))
		}
		return nil
	})
	if err != nil {
		return violation(Heals, "%v", err)
	}
	return nil
}

// balanced waits until nothing is in flight, and compares what was taken with what came back.
func (w *world) balanced(context.Context) *Violation {
	if err := w.eventually("in flight", w.idle); err != nil {
		return violation(Released, "%v", err)
	}
	for _, g := range w.everyGateway() {
		if v := g.ended(); v != nil {
			return v
		}
	}
	err := w.eventually("limits", func() error {
		if n := w.gate.to.Totals().Running; n != 0 {
			return fmt.Errorf("%w: %d requests under way, and none is", errWaiting, n)
		}
		return nil
	})
	if err != nil {
		return violation(Accounts, "%v", err)
	}
	t := w.gate.to.Totals()
	for m := range t.Reserved {
		if t.Reserved[m] != t.Settled[m]+t.Refunded[m] || t.Running != 0 {
			return violation(Accounts, "meter %d: %d reserved, %d settled, %d refunded, %d running", m,
				t.Reserved[m], t.Settled[m], t.Refunded[m], t.Running)
		}
	}
	return nil
}

// ended waits until the hooks were told of every end: a moment after nothing is in flight.
func (g *gateway) ended() *Violation {
	var begun, ended, wrong int
	err := g.world.eventually("outcomes", func() error {
		if begun, ended, wrong = g.observer.ended(); begun > ended {
			return errWaiting
		}
		return nil
	})
	if err != nil || begun != ended || wrong > 0 {
		return violation(Released, "%d Selections began and %d ended, %d of them otherwise than once", begun, ended, wrong)
	}
	g.observer.mu.Lock()
	reaped := g.observer.reaped
	g.observer.mu.Unlock()
	if reaped > 0 {
		return violation(Released, "%d Selections had to be reaped", reaped)
	}
	return nil
}

// idle says what is still in flight.
func (w *world) idle() error {
	for _, g := range w.everyGateway() {
		if n := g.router.InFlight(); n != 0 {
			return fmt.Errorf("%w: %d Selections", errWaiting, n)
		}
		if n := g.router.Waiting(); n != 0 {
			return fmt.Errorf("%w: %d in line", errWaiting, n)
		}
		if n := g.fleet.InFlight(); n != 0 {
			return fmt.Errorf("%w: %d bookings", errWaiting, n)
		}
	}
	for _, m := range w.everyMember() {
		for rank := range m.Ranks() {
			f := m.InFlight(rank)
			if f.Requests != 0 || f.PrefillTokens != 0 || f.OutputTokens != 0 || f.ContextTokens != 0 || f.PrefillPairs != 0 {
				return fmt.Errorf("%w: %+v on %s", errWaiting, f, m.ID())
			}
		}
	}
	if w.set != nil {
		for _, o := range w.set.All() {
			if n := o.Standing(w.clocks[3].now()).InFlight; n != 0 {
				return fmt.Errorf("%w: %d at %s", errWaiting, n, o.Provider())
			}
		}
	}
	return nil
}

// recorded checks the ledger: of each attempt it was recorded how it began and, once, how it
// ended, and no request is paid twice.
func (w *world) recorded(ctx context.Context) *Violation {
	ctx, cancel := context.WithTimeout(ctx, slowest*w.patience)
	defer cancel()
	if err := w.ledger.Flush(ctx); err != nil {
		return violation(Accounts, "the sink is mended and does not get what there is: %v", err)
	}
	w.losses.mu.Lock()
	lost := w.losses.lost
	w.losses.mu.Unlock()
	records, stats := w.vault.all(), w.ledger.Stats()
	if lost > 0 || uint64(len(records)) != stats.Appended {
		return violation(Accounts, "%d records were taken, the sink has %d, %d are lost", stats.Appended, len(records), lost)
	}
	states := make(map[string][]ledger.State)
	settled := make(map[string]int)
	for i := range records {
		r := &records[i]
		if text := fmt.Sprintf("%+v", *r); leaked(text) != "" {
			return violation(Secret, "the ledger has %s: %.300s", leaked(text), text)
		}
		key := r.ID + "/" + strconv.Itoa(r.Attempt)
		states[key] = append(states[key], r.State)
		if r.State == ledger.Settled {
			settled[r.ID]++
		}
	}
	for key, list := range states {
		if len(list) != 2 || list[0] != ledger.Reserved || list[1] == ledger.Reserved {
			return violation(Accounts, "the records of attempt %s are %v", key, list)
		}
	}
	for id, n := range settled {
		if n != 1 {
			return violation(Accounts, "request %s is paid %d times", id, n)
		}
	}
	return nil
}

// asking is what the router adds to the body of a stream on its own account.
const asking = `"stream_options":{"include_usage":true}`

// sent compares what engines got with what clients sent, and with the policy.
func (w *world) sent(context.Context) *Violation {
	for _, s := range w.sites {
		for _, e := range s.engines() {
			for _, r := range e.Requests() {
				id, err := strconv.Atoi(r.Header.Get(headerID))
				if err != nil {
					continue // it is not a client's
				}
				if v := s.got(e, &r, id); v != nil {
					return v
				}
			}
		}
	}
	for _, r := range w.provider.Requests() {
		if r.Header.Get(headerPrivate) != "" {
			return violation(Policy, "the private request %s was sent to a provider", r.Header.Get(headerID))
		}
	}
	return nil
}

// got says what is wrong with what the engine of a site got for a client.
func (s *site) got(e *fleettest.Engine, r *fleettest.Request, id int) *Violation {
	if r.Header.Get(headerPrivate) != "" && s.zone() == zoneShared {
		return violation(Policy, "the private request %d was sent to %s", id, e.Name())
	}
	if v := s.legs(e, r, id); v != nil {
		return v
	}
	want, got := s.world.bodies[id], withoutTransfer(string(r.Body))
	if s.computes() {
		want = s.world.prompts[id]
	}
	if want != got && want != without1(got, asking) {
		return violation(SameBytes, "client %d sent\n%s\nand %s got\n%s", id, want, e.Name(), r.Body)
	}
	return nil
}

// without1 takes a member of an object out of a text once, with its comma.
func without1(text, member string) string {
	if less := strings.Replace(text, ","+member, "", 1); less != text {
		return less
	}
	return strings.Replace(text, member+",", "", 1)
}

// heals waits until each fleet is what it was told to be and its gateway serves.
func (w *world) heals(ctx context.Context) *Violation {
	for _, g := range w.gateways {
		if v := g.heals(ctx); v != nil {
			return v
		}
	}
	return nil
}

func (g *gateway) heals(ctx context.Context) *Violation {
	w := g.world
	err := w.eventually("the fleet", func() error {
		if err := g.told(); err != nil {
			return err
		}
		if n := g.fleet.Snapshot().Routable(); n != len(w.sites) {
			return fmt.Errorf("%w: %d workers of %d take requests", errWaiting, n, len(w.sites))
		}
		return nil
	})
	if errors.Is(err, errEpoch) {
		return violation(ByInstance, "%v", err)
	}
	if err != nil {
		return violation(Heals, "%v", err)
	}
	// A busy machine may be too slow for one of them, never for all.
	var last *client
	err = w.eventually("a request", func() error {
		last = w.newClient(1, 1) // a stream, private, to its end
		last.gateway, last.stage, last.tenant = g, stageNever, "t0"
		if w.send(ctx, last); !last.whole() {
			return errWaiting
		}
		return nil
	})
	if err != nil {
		return violation(Heals, "everything is mended and a request gets status %d, %v: %.300s", last.status, last.err, last.text)
	}
	return last.check()
}
