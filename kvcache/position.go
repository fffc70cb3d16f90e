package kvcache

// Position says how far an owner's event stream has been applied. Whoever follows
// the stream records it after each message, a snapshot keeps it, and a follower in
// another process may go on from there instead of beginning anew.
//
// The contract:
//
//   - [Index.SetPosition] is called when the events of a message have been applied,
//     all of them, for every owner whose stream it is, also those that the message
//     does not name.
//   - [Index.Apply] and [Index.Clear] end the owner's position: what it holds is
//     then of no one place in the stream, until the next SetPosition.
//   - [Index.Export] writes an owner's blocks and its position as of one moment. If
//     a message is being applied, that is when SetPosition is called, which then
//     takes as long as the copying; if that does not happen soon, the owner has no
//     position in the snapshot.
//   - [Index.Import] sets the position of an owner that it took over as a whole, as
//     the last thing it does. What did not fit, and what the snapshot left out, is
//     counted as lost, see [Index.Short], so that a position is right all the same.
//   - A follower that finds a position asks the publisher for the messages from Seq
//     on. If the first is number Seq and has that Proof, the publisher is still the
//     one that was followed, and what comes after number Seq is applied to what the
//     owner holds. Otherwise nothing links the two: Clear, and begin anew.
//
// Nothing of it gives trust: an owner that was imported is [Approximate] until a
// follower has done its part.
type Position struct {
	// Seq is the number of the latest message applied.
	Seq uint64
	// Proof tells that message from others of the same number: a digest of its
	// payload, which has the time in it. Package follow decides which.
	Proof uint64
	// Whole: everything since the cache was empty has been applied, but for what
	// Short tells. Else what is held is a lower bound.
	Whole bool
}

// SetPosition records up to which message o's events have been applied. It does
// nothing for an owner that left.
func (x *Index) SetPosition(o Owner, p Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil {
		return
	}
	s.position, s.placed, s.tracked = p, true, true
	for id, f := range s.awaited {
		delete(s.awaited, id)
		f()
	}
}

// await has f called, under the lock, when s has a position next. It returns f's
// name in s.awaited, where it is until then.
func (x *Index) await(s *owner, f func()) int {
	if s.awaited == nil {
		s.awaited = map[int]func(){}
	}
	x.lastAwait++
	s.awaited[x.lastAwait] = f
	return x.lastAwait
}

// Position returns up to which message o's events have been applied; false if
// nobody recorded it, or not since the last event.
func (x *Index) Position(o Owner) (Position, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil || !s.placed {
		return Position{}, false
	}
	return s.position, true
}
