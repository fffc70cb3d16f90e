package kvsteer

// room is how many blocks a rank's engine has memory for, as the index was told last. It is
// guarded by Router.pickMu.
type room struct{ blocks int }

// bound lets no more be booked on an engine that announces nothing than it has room for, by
// its metrics: bookings there last for long, and nothing tells of those that were evicted.
// What it keeps in slower memory is not counted, for nobody says how much that is. The
// caller holds pickMu.
func (r *Router) bound(l *leg) {
	load, h := l.member.Load(), r.residency.of(l.member.ID())
	if load == nil || h == nil || l.rank >= len(h.rooms) || l.block <= 0 {
		return
	}
	blocks := load.Total.CapacityTokens / max(l.member.Ranks(), 1) / l.block
	if blocks == 0 || blocks == h.rooms[l.rank].blocks {
		return // it does not say, or it has not changed
	}
	h.rooms[l.rank].blocks = blocks
	r.index.SetCapacity(l.owner, blocks)
}
