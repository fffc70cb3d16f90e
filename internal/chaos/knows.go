package chaos

import (
	"context"
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
		for _, s := range w.sites {
			var exact bool
			if last, exact = g.compare(ctx, s); last != nil {
				if tries&(tries-1) == 0 { // seldom: what is new drives out what is wrong
					g.again(ctx, s, exact)
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

// again does what may be missing for g to know what a site's cache holds.
func (g *gateway) again(ctx context.Context, s *site, exact bool) {
	if g.end != nil { // the other may have told of bookings since
		g.clock().pass(time.Hour)
	}
	if s.index != g.world.setup.silent {
		g.nudge(ctx, s, exact)
	}
}

// nudges is how often an engine publishes something for a router that claims to know all and
// does not: it has to notice then, and what came after that would wipe the fault away.
const nudges = 2

// nudge has an engine publish something: only then it shows that the message before was lost.
func (g *gateway) nudge(ctx context.Context, s *site, exact bool) {
	w := g.world
	switch {
	case exact && g.assured[s] >= nudges:
		return
	case !exact && s.shaken && s.nudged >= nudges: // nothing else makes good what is lost for good
		_ = w.post(ctx, s.engine.URL()+"/reset_prefix_cache", "")
	}
	w.nudges++
	s.nudged++
	if w.nudges%3 == 0 {
		// Whether events come when requests do the router sees by its own requests only.
		c := w.newClient(2, 300+w.nudges)
		c.gateway, c.stage, c.tenant, c.among = g, stageNever, "t0", s.engine.Name()
		w.send(ctx, c)
	}
	text := "nudge " + fleettest.Text(uint64(w.nudges)<<32+uint64(s.index), 20)
	if w.post(ctx, s.engine.URL()+"/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":1}`, model, text)) == nil && exact {
		g.assured[s]++
	}
}

// compare says how what is known of a site differs from what is so, and whether the router
// claims to know all of it.
func (g *gateway) compare(ctx context.Context, s *site) (found *Violation, exact bool) {
	w := g.world
	silent := s.index == w.setup.silent
	for number := range w.numbers {
		_, tokens := w.prompt(number)
		d, err := g.router.Explain(ctx, &kvsteer.Request{API: kvsteer.Completions, Model: model, TokenIDs: tokens, Tags: w.tags(false)})
		if err != nil {
			return violation(Heals, "everything is mended and there is nobody for a request: %v", err), false
		}
		i := slices.IndexFunc(d.Candidates, func(c kvsteer.DecisionCandidate) bool { return c.Name == s.engine.Name() })
		if i < 0 {
			return violation(Heals, "%s is no candidate", s.engine.Name()), false
		}
		c, has := &d.Candidates[i], s.engine.CachedTokens(0, tokens)
		exact = c.Trust == kvcache.Exact
		switch {
		case c.CachedTokens > has && !silent:
			return violation(NoOvercount, "%s is thought to have %d tokens of prompt %d (%s), has %d, and has told of %d",
				c.Instance, c.CachedTokens, number, c.TrustState, has, s.wire.told(tokens)), exact
		case silent && c.CachedTokens > 0:
			return violation(NoOvercount, "%s is thought to have %d tokens that were booked an hour ago", c.Instance, c.CachedTokens), false
		case silent:
		case c.Trust != kvcache.Exact:
			return violation(Heals, "%s is %s: %s", c.Instance, c.TrustState, c.TrustReason), false
		case c.CachedTokens < has:
			return violation(NoOvercount, "%s is exact, is thought to have %d tokens of prompt %d, and has %d",
				c.Instance, c.CachedTokens, number, has), true
		case has > 0:
			w.tally.add("exact caches")
		default:
		}
	}
	return nil, false
}
