package kvcachetest

import "github.com/kvsteer/kvsteer/kvcache"

// lostCopy is one copy that events announced and that a bound kept out.
type lostCopy struct {
	hash kvcache.EngineHash
	groupTier
}

func (s *modelOwner) lose(c lostCopy, why kvcache.Reason) {
	if s.short == kvcache.NoReason {
		s.short = why
	}
	s.count(c, 1)
}

// missed takes the removal of what is not held for that of a copy that was lost.
func (s *modelOwner) missed(c lostCopy) {
	if s.short == kvcache.NoReason {
		return
	}
	if s.count(c, -1); len(s.lost) == 0 {
		s.short = kvcache.NoReason
	}
}

func (s *modelOwner) count(c lostCopy, n int) {
	if s.lost[c] += n; s.lost[c] == 0 {
		delete(s.lost, c)
	}
}

func (s *modelOwner) missing() int {
	sum := 0
	for _, n := range s.lost {
		sum += n
	}
	return sum
}

func (s *modelOwner) effective() kvcache.Standing {
	if s.standing.Trust == kvcache.Exact && s.short != kvcache.NoReason {
		return kvcache.Standing{Trust: kvcache.Resyncing, Reason: s.short.String()}
	}
	if s.standing.Trust == kvcache.Exact && s.guess() {
		return kvcache.Standing{Trust: kvcache.Approximate, Reason: "attention of unknown kind"}
	}
	return s.standing
}

// Trust is [kvcache.Index.Trust].
func (m *Model) Trust(o kvcache.Owner) kvcache.Trust { return m.Standing(o).Trust }

// Standing is [kvcache.Index.Standing].
func (m *Model) Standing(o kvcache.Owner) kvcache.Standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil {
		return s.effective()
	}
	return kvcache.Standing{}
}

// SetTrust is [kvcache.Index.SetTrust].
func (m *Model) SetTrust(o kvcache.Owner, t kvcache.Trust) {
	m.SetStanding(o, kvcache.Standing{Trust: t})
}

// SetStanding is [kvcache.Index.SetStanding].
func (m *Model) SetStanding(o kvcache.Owner, st kvcache.Standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil {
		s.standing = st
	}
}

// Short is [kvcache.Index.Short].
func (m *Model) Short(o kvcache.Owner) kvcache.Reason { return m.OwnerStats(o).Short }

// SetPosition is [kvcache.Index.SetPosition].
func (m *Model) SetPosition(o kvcache.Owner, p kvcache.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil {
		s.position, s.placed = p, true
	}
}

// Position is [kvcache.Index.Position].
func (m *Model) Position(o kvcache.Owner) (kvcache.Position, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil && s.placed {
		return s.position, true
	}
	return kvcache.Position{}, false
}
