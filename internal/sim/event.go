package sim

// EventKind says what happened to the blocks of an [Event].
type EventKind uint8

// The kinds of event, named as the engines name them.
const (
	// BlockStored: blocks became reusable.
	BlockStored EventKind = iota + 1
	// BlockRemoved: blocks were evicted.
	BlockRemoved
	// AllBlocksCleared: the whole prefix cache was reset.
	AllBlocksCleared
)

// Event is one change of the prefix cache. Its slices belong to the engine or to
// the request and must not be changed.
type Event struct {
	Kind EventKind
	// Hashes names the blocks, in chain order for BlockStored. A hash may be
	// stored twice before it is removed twice: engines keep duplicate blocks.
	Hashes []uint64
	// Parent is the block before Hashes[0], meaningful when HasParent.
	Parent    uint64
	HasParent bool
	// First is the index of Hashes[0] within its request's chain.
	First int
	// Tokens holds BlockSize ids per hash of a BlockStored, nil when the request
	// carried none.
	Tokens    []uint32
	BlockSize int
	// Request is whose computation stored the blocks; nil for other kinds.
	Request *Request
}

// eventLog collects events between two calls of TakeEvents. Two halves are used
// in turn, so that what was taken stays valid while new events are recorded.
type eventLog struct {
	off    bool
	events [2][]Event
	hashes [2][]uint64
	half   int
}

func (l *eventLog) add(e Event) {
	if !l.off {
		l.events[l.half] = append(l.events[l.half], e)
	}
}

func (l *eventLog) removed(hash uint64) {
	if l.off {
		return
	}
	// When append moves the buffer, events recorded earlier keep the old one.
	buf := &l.hashes[l.half]
	*buf = append(*buf, hash)
	n := len(*buf)
	l.add(Event{Kind: BlockRemoved, Hashes: (*buf)[n-1 : n : n]})
}

func (l *eventLog) take() []Event {
	taken := l.events[l.half]
	l.half ^= 1
	clear(l.events[l.half]) // let go of the requests
	l.events[l.half] = l.events[l.half][:0]
	l.hashes[l.half] = l.hashes[l.half][:0]
	return taken
}
