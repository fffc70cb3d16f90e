package labels

import (
	"cmp"
	"slices"
	"time"
)

// turnOver ends the values whose time has come and, at the end of a window, takes them from
// those that others have outdone. One goroutine does it, the others go on.
func (p *Policy) turnOver(now time.Time) {
	if !p.turn.TryLock() {
		return
	}
	defer p.turn.Unlock()
	p.due.Store(now.Add(minWindow).UnixNano()) // if OnFold panics
	ending := p.ending(now)
	if p.opts.OnFold != nil {
		for _, i := range ending {
			// A retired row changes only here, so that it can be read without p.mu.
			p.opts.OnFold(p.rows[i].value)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range ending {
		p.fold(i)
	}
	for hash, until := range p.awaited {
		if !now.Before(until) {
			delete(p.awaited, hash)
		}
	}
	if !now.Before(p.windowAt) {
		p.retire(now)
		p.windowAt = now.Add(p.opts.Window)
	}
	due := p.windowAt
	for i := range p.rest {
		if r := &p.rows[i]; r.state == retired && r.ends.Before(due) {
			due = r.ends
		}
	}
	p.due.Store(due.UnixNano())
}

// ending are the rows that nobody can be counting in any more.
func (p *Policy) ending(now time.Time) (at []int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i := range p.rest {
		if r := &p.rows[i]; r.state == retired && !now.Before(r.ends) {
			at = append(at, i)
		}
	}
	return at
}

// fold ends a row: what it holds is added to the rest. p.mu is held.
func (p *Policy) fold(i int) {
	for _, c := range p.counters {
		c.fold(i, p.rest)
	}
	r := &p.rows[i]
	r.tenant, r.value, r.given, r.state, r.ends = "", "", time.Time{}, vacant, time.Time{}
	p.free.Add(1)
	p.totals.Folded++
}

// outdone is by how many times another's traffic must be more, and least by how many
// calls: where there are few, more is chance.
const (
	outdone = 2
	least   = 16
)

// retire takes rows from those that others have outdone. p.mu is held.
func (p *Policy) retire(now time.Time) {
	p.seenMu.Lock()
	rivals := slices.Clone(p.seen.items)
	p.seen.reset()
	p.seenMu.Unlock()
	slices.SortFunc(rivals, func(a, b item) int { return cmp.Compare(b.sure(), a.sure()) })

	var weak []int
	for i := range p.rest {
		if r := &p.rows[i]; r.state == held && now.Sub(r.given) >= p.opts.Window {
			weak = append(weak, i)
		}
	}
	slices.SortStableFunc(weak, func(a, b int) int {
		return cmp.Compare(p.rows[a].traffic.Load(), p.rows[b].traffic.Load())
	})
	grace := min(p.opts.Window, maxGrace)
	for n := range min(len(weak), len(rivals)) {
		r := &p.rows[weak[n]]
		if rivals[n].sure() <= outdone*r.traffic.Load()+least {
			break
		}
		delete(p.at, r.tenant)
		r.state, r.ends = retired, now.Add(grace)
		p.awaited[rivals[n].hash] = r.ends.Add(p.opts.Window)
		p.totals.Retired++
	}
	for i := range p.rows {
		p.rows[i].traffic.Store(0)
	}
}
