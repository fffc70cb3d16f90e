package follow

import "strings"

// Defaults of [PipeOptions]; vLLM's own.
const (
	// DefaultReplayBatches is the length of a publisher's replay ring.
	DefaultReplayBatches = 10_000
	// DefaultPipeQueue is the number of messages held for one subscriber.
	DefaultPipeQueue = 100_000
)

// PipeOptions configures a [Pipe]. The zero value is vLLM's defaults.
type PipeOptions struct {
	// ReplayBatches is how many of the latest messages a replay can return. 0
	// means [DefaultReplayBatches]; a negative value keeps none.
	ReplayBatches int
	// QueueSize is how many messages wait for one subscriber before further
	// ones are lost to it. 0 or less means [DefaultPipeQueue].
	QueueSize int
}

// Pipe is one publisher in a [Hub]. Its methods are safe for concurrent use.
type Pipe struct {
	hub  *Hub
	name string
	max  int // ring bound
	hwm  int

	// Guarded by hub.mu.
	conns  map[*hubConn]struct{}
	next   uint64
	ring   []Message // ascending; ring[0] is the oldest still known
	lose   int       // publishes that still reach no subscriber
	mute   bool
	closed bool
}

func newPipe(h *Hub, name string, opts PipeOptions) *Pipe {
	if opts.ReplayBatches == 0 {
		opts.ReplayBatches = DefaultReplayBatches
	}
	if opts.QueueSize <= 0 {
		opts.QueueSize = DefaultPipeQueue
	}
	return &Pipe{
		hub: h, name: name, max: max(0, opts.ReplayBatches), hwm: opts.QueueSize,
		conns: make(map[*hubConn]struct{}),
	}
}

// Addr returns the address to dial, for both Events and Replay of an [Endpoint].
func (p *Pipe) Addr() string { return HubScheme + p.name }

// Endpoint returns an endpoint that subscribes to p and replays from it, with
// the given data-parallel rank.
func (p *Pipe) Endpoint(rank int) Endpoint {
	return Endpoint{Events: p.Addr(), Replay: p.Addr(), Rank: rank}
}

// Publish sends one message with an empty topic and returns its sequence
// number. It never blocks; payload is copied. After Close it does nothing.
func (p *Pipe) Publish(payload []byte) uint64 { return p.PublishTopic("", payload) }

// PublishTopic is Publish with a topic.
func (p *Pipe) PublishTopic(topic string, payload []byte) uint64 {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if p.closed {
		return p.next
	}
	m := Message{Topic: topic, Seq: p.next, Payload: append([]byte(nil), payload...)}
	p.next++
	if p.max > 0 {
		if len(p.ring) == p.max {
			p.ring[0] = Message{}
			p.ring = p.ring[1:]
		}
		p.ring = append(p.ring, m)
	}
	if p.lose > 0 {
		p.lose--
		return m.Seq
	}
	p.deliverLocked(m)
	return m.Seq
}

func (p *Pipe) deliverLocked(m Message) {
	for c := range p.conns {
		if len(c.queue) >= p.hwm || !strings.HasPrefix(m.Topic, c.topic) {
			continue
		}
		own := m
		own.Payload = append([]byte(nil), m.Payload...)
		c.queue = append(c.queue, own)
		c.signal()
	}
}

// Next returns the sequence number of the next message.
func (p *Pipe) Next() uint64 {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.next
}

// Subscribers returns how many connections are open.
func (p *Pipe) Subscribers() int {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return len(p.conns)
}

// The faults below are what real publishers and networks do.

// Lose makes the next n messages reach no subscriber; a replay still has them.
// It replaces an earlier call's n, so that 0 ends the loss.
func (p *Pipe) Lose(n int) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.lose = max(0, n)
}

// Forge sends m as it is to every subscriber, past the numbering and the replay
// ring, as a second publisher on the address would.
func (p *Pipe) Forge(m Message) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.deliverLocked(m)
}

// Burn uses up one sequence number without a message, as an engine does whose
// encoder failed: a gap that no replay can fill.
func (p *Pipe) Burn() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.next++
}

// Trim makes the replay ring forget all but the latest keep messages.
func (p *Pipe) Trim(keep int) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if cut := len(p.ring) - max(0, keep); cut > 0 {
		p.ring = append([]Message(nil), p.ring[cut:]...)
	}
}

// Mute makes replay requests go unanswered, until they time out, while on.
func (p *Pipe) Mute(on bool) {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.mute = on
}

// Disconnect breaks every connection: each still receives what was queued for
// it, then ErrDisconnected, and must dial again.
func (p *Pipe) Disconnect() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.disconnectLocked()
}

// Restart is an engine's restart: numbering starts again at 0, the ring is
// empty, every connection is broken.
func (p *Pipe) Restart() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.resetLocked()
	p.disconnectLocked()
}

// RestartUnseen is a restart that the transport hides, as libzmq does, whose
// sockets reconnect by themselves: numbering starts again at 0, the ring is
// empty, connections stay.
func (p *Pipe) RestartUnseen() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.resetLocked()
}

// Close takes the publisher off the hub and breaks its connections. It is
// idempotent. The name can be opened again.
func (p *Pipe) Close() error {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.ring = nil
	p.disconnectLocked()
	delete(p.hub.pipes, p.name)
	return nil
}

func (p *Pipe) resetLocked() {
	p.next, p.ring, p.lose = 0, nil, 0
}

func (p *Pipe) disconnectLocked() {
	for c := range p.conns {
		c.broken, c.pipe = true, nil
		delete(p.conns, c)
		c.signal()
	}
}

// replayLocked returns a copy of the ring from sequence number from on.
func (p *Pipe) replayLocked(from uint64) []Message {
	for i, m := range p.ring {
		if m.Seq >= from {
			return append([]Message(nil), p.ring[i:]...)
		}
	}
	return nil
}
