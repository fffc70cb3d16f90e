package kvsteer

import (
	"context"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/replica"
)

// tell tells the other routers what has changed, soon after it did, and everything each
// beat, until the router closes; and then that it does.
func (p *replicas) tell() {
	beat := time.NewTicker(p.opts.Beat)
	defer beat.Stop()
	look := time.NewTimer(time.Hour)
	defer look.Stop()
	for {
		select {
		case <-p.router.stop:
			p.bye()
			return
		case <-beat.C:
			p.all.Store(true)
			p.failing = false // once a beat it is tried again
		case <-p.wake:
			select {
			case <-p.router.stop:
				p.bye()
				return
			case <-time.After(gatherTold):
			}
		case <-look.C:
		}
		// Not with the beat only: while publishing hangs, that is rare.
		p.showAll(p.table.Expire(p.router.opts.now()))
		if p.failing {
			continue
		}
		m := p.news()
		if m != nil {
			p.publish(m)
		}
		if !p.failing && (m != nil && len(m.Loads) > 0 || p.busy()) {
			look.Reset(lookTold)
		}
	}
}

// busy reports whether something that was told of is in flight: its end is to be told.
func (p *replicas) busy() bool { return len(p.sent) > 0 }

// news is what the others don't know yet; nil if there is nothing.
func (p *replicas) news() *replica.Message {
	all := p.all.Swap(false)
	m := &replica.Message{
		Version: replica.Version, Router: p.opts.Name, Epoch: p.epoch, Full: all, Bookings: p.outbox.empty(),
	}
	now := p.router.opts.now()
	seen := make(map[replica.Place]bool, len(p.sent))
	for _, member := range p.router.fleet.Snapshot().Members() {
		id := member.SharedID()
		if len(id) > replica.MaxName {
			continue // it has an address that long; its metrics speak for it
		}
		for rank := range min(member.Ranks(), replica.MaxRank+1) {
			at, has := replica.Place{Instance: id, Rank: rank}, member.InFlight(rank)
			before, known := p.sent[at]
			if has.Requests == 0 && !known {
				continue
			}
			seen[at] = true
			if all && has.Requests > 0 || unlike(&before, &has) {
				if len(m.Loads) == replica.MaxLoads {
					p.cut.Add(1)
					continue
				}
				m.Loads = append(m.Loads, loadOf(at, &has, now))
			}
			if p.sent[at] = has; has.Requests == 0 {
				delete(p.sent, at)
			}
		}
	}
	for at := range p.sent {
		if !seen[at] { // it left the fleet
			delete(p.sent, at)
			if !all && len(m.Loads) < replica.MaxLoads {
				m.Loads = append(m.Loads, replica.Load{Instance: at.Instance, Rank: at.Rank})
			}
		}
	}
	if !m.Full && len(m.Loads) == 0 && len(m.Bookings) == 0 {
		return nil
	}
	p.seq++
	m.Seq = p.seq
	return m
}

// unlike reports whether the others would want to know the difference.
func unlike(a, b *fleet.InFlight) bool {
	x, y := *a, *b
	x.Picks, y.Picks = 0, 0
	return x != y
}

func loadOf(at replica.Place, f *fleet.InFlight, now time.Time) replica.Load {
	l := replica.Load{
		Instance: at.Instance, Rank: at.Rank,
		PrefillRequests: min(f.PrefillRequests, replica.MaxAmount), PrefillTokens: min(f.PrefillTokens, replica.MaxAmount),
		PrefillPairs: min(f.PrefillPairs, replica.MaxPairs), DecodeRequests: min(f.DecodeRequests, replica.MaxAmount),
		OutputTokens: min(f.OutputTokens, replica.MaxAmount), ContextTokens: min(f.ContextTokens, replica.MaxAmount),
	}
	if f.PrefillRequests > 0 {
		l.PrefillFor = min(max(now.Sub(f.PrefillSince), 0), replica.MaxTime)
	}
	return l
}

// publish sends a message. One that fails is mended by the next full one.
func (p *replicas) publish(m *replica.Message) {
	ctx, cancel := context.WithTimeout(p.stop, p.opts.Beat)
	defer cancel()
	err := p.exchange.Publish(ctx, m)
	if err != nil {
		p.all.Store(true)
		p.failing = true
		p.link.tells.Store(false)
		p.trouble("telling other routers", err)
		return
	}
	p.told.Add(1)
	if !p.link.tells.Swap(true) {
		p.heal()
	}
}

// bye tells the others that this router ends: what it has in flight goes on, but
// nobody tells of its end any more.
func (p *replicas) bye() {
	m := &replica.Message{Version: replica.Version, Router: p.opts.Name, Epoch: p.epoch, Seq: p.seq + 1, Bye: true}
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), min(p.opts.Beat, patience))
	defer cancel()
	_ = p.exchange.Publish(ctx, m) // else they find out by themselves
}
