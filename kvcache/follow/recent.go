package follow

import "github.com/cespare/xxhash/v2"

// mark identifies a message: engines put the time into each payload, so that a
// restarted one does not repeat the marks of its predecessor.
type mark struct {
	seq  uint64
	hash uint64
}

func markOf(m Message) mark { return mark{m.Seq, xxhash.Sum64(m.Payload)} }

// recentSize is how many messages a Follower recognises when they come twice,
// once by replay and once live.
const recentSize = 1024

// recent remembers the marks of the latest messages.
type recent struct {
	marks [recentSize]mark
	set   [recentSize]bool
}

func (r *recent) add(m mark) {
	i := m.seq % recentSize
	r.marks[i], r.set[i] = m, true
}

// hash returns the hash of the message of that number, if it is remembered.
func (r *recent) hash(seq uint64) (uint64, bool) {
	i := seq % recentSize
	if !r.set[i] || r.marks[i].seq != seq {
		return 0, false
	}
	return r.marks[i].hash, true
}

func (r *recent) clear() { r.set = [recentSize]bool{} }
