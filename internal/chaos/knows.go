package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

// knows compares what the router knows of caches with what is in them, when all bookings
// have expired.
func (w *world) knows(ctx context.Context) *Violation {
	// What is only booked goes, here and what the other has told of: first all clocks.
	for _, g := range w.gateways {
		g.clock().pass(time.Hour)
	}
	for _, g := range w.gateways {
		if v := g.knows(ctx); v != nil {
			return v
		}
	}
	return nil
}

func (g *gateway) knows(ctx context.Context) *Violation {
	w := g.world
	var last *Violation
	tries := 0
	err := w.eventually("caches", func() error {
		tries++
		for _, at := range w.places() {
			var exact bool
			if last, exact = g.compare(ctx, at); last != nil {
				if tries&(tries-1) == 0 { // seldom: what is new drives out what is wrong
					g.again(ctx, at, exact)
				}
				return errWaiting
			}
		}
		return nil
	})
	stats := g.router.Stats()
	w.tally.streams(&stats)
	if err != nil {
		return last
	}
	return nil
}

// reborn restarts an engine in silence whose cache is known, where nothing but its events can
// show it, and waits until nothing of the life before is known.
func (w *world) reborn(ctx context.Context) *Violation {
	if !w.setup.blind {
		return nil
	}
	s := w.sites[0]
	if err := errors.Join(s.engine.Kill(), s.revive()); err != nil {
		w.failed = err
		return nil
	}
	for _, g := range w.gateways {
		clear(g.assured)
	}
	if v := w.heals(ctx); v != nil {
		return v
	}
	return w.knows(ctx)
}

// place is what has a cache: a data-parallel rank of a site's engine.
type place struct {
	*site

	rank int
}

func (w *world) places() (list []place) {
	for _, s := range w.sites {
		for rank := range w.setup.ranks {
			list = append(list, place{s, rank})
		}
	}
	return list
}

// again does what may be missing for g to know what a cache holds.
func (g *gateway) again(ctx context.Context, at place, exact bool) {
	if g.end != nil { // the other may have told of bookings since
		g.clock().pass(time.Hour)
	}
	if at.index != g.world.setup.silent {
		g.nudge(ctx, at, exact)
	}
}

// nudges is how often an engine publishes something for a router that claims to know all and
// does not: it has to notice then, and what came after that would wipe the fault away.
const nudges = 2

// nudge has an engine publish something: only then it shows that the message before was lost.
func (g *gateway) nudge(ctx context.Context, at place, exact bool) {
	w, s := g.world, at.site
	switch {
	case exact && g.assured[at] >= nudges:
		return
	case !exact && s.shaken && s.nudged >= nudges: // nothing else makes good what is lost for good
		_ = w.post(ctx, s.engine.URL()+"/reset_prefix_cache", "", at.rank)
	}
	w.nudges++
	s.nudged++
	if w.nudges%3 == 0 {
		// Whether events come when requests do the router sees by its own requests only, and on
		// which rank they are it draws.
		for i := range 2 * w.setup.ranks {
			c := w.newClient(2, 300+w.nudges+1000*i)
			c.gateway, c.stage, c.tenant, c.among = g, stageNever, "t0", s.served()
			w.send(ctx, c)
		}
	}
	text := "nudge " + fleettest.Text(uint64(w.nudges)<<32+uint64(s.index), 20)
	body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":1}`, model, text)
	if w.post(ctx, s.engine.URL()+"/v1/completions", body, at.rank) == nil && exact {
		g.assured[at]++
	}
}

// compare says how what is known of a cache differs from what is so, and whether the router
// claims to know all of it.
func (g *gateway) compare(ctx context.Context, at place) (found *Violation, exact bool) {
	w, s := g.world, at.site
	silent := s.index == w.setup.silent
	for number := range w.numbers {
		q, tokens := w.known(number)
		d, err := g.router.Explain(ctx, q)
		if err != nil {
			return violation(Heals, "everything is mended and there is nobody for a request: %v", err), false
		}
		list := everyCandidate(d)
		i := slices.IndexFunc(list, func(c kvsteer.DecisionCandidate) bool { return c.Name == s.engine.Name() && c.Rank == at.rank })
		if i < 0 {
			return violation(Heals, "%s, rank %d, is no candidate", s.engine.Name(), at.rank), false
		}
		c, has := &list[i], s.engine.CachedTokens(at.rank, tokens)
		exact = c.Trust == kvcache.Exact
		switch {
		case c.CachedTokens > has && !silent:
			return violation(NoOvercount, "%s, rank %d, is thought to have %d tokens of prompt %d (%s), has %d, and has told of %d",
				c.Instance, c.Rank, c.CachedTokens, number, c.TrustState, has, s.wires[at.rank].told(tokens)), exact
		case silent && c.CachedTokens > 0:
			return violation(NoOvercount, "%s, rank %d, is thought to have %d tokens that were booked an hour ago",
				c.Instance, c.Rank, c.CachedTokens), false
		case silent:
		case c.Trust != kvcache.Exact:
			return violation(Heals, "%s, rank %d, is %s: %s", c.Instance, c.Rank, c.TrustState, c.TrustReason), false
		case c.CachedTokens < has:
			return violation(NoOvercount, "%s, rank %d, is exact, is thought to have %d tokens of prompt %d, and has %d",
				c.Instance, c.Rank, c.CachedTokens, number, has), true
		case has > 0:
			w.tally.add("exact caches")
		default:
		}
	}
	return nil, false
}
