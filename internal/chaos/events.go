package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	decode "github.com/kvsteer/kvsteer/kvcache/wire"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// wire publishes a site's events over ZMTP, at the same addresses in each life, with
// what can happen to messages on their way.
type wire struct {
	host string // to listen at

	mu       sync.Mutex
	endpoint follow.Endpoint // zero before the first life
	now      *publisher
	unfair   unfair
}

// unfair is what is to happen to the messages to come.
type unfair struct{ lose, repeat, swap int }

// open begins a life.
func (w *wire) open(rank int) (fleettest.Publisher, follow.Endpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.endpoint
	if at.Events == "" {
		at.Events = "tcp://" + net.JoinHostPort(w.host, "0")
		at.Replay = at.Events
	}
	p, err := zmtp.NewPublisher(zmtp.PublisherConfig{Events: at.Events, Replay: at.Replay, ReplayTopic: true})
	if err != nil {
		return nil, follow.Endpoint{}, fmt.Errorf("publish events: %w", err)
	}
	w.endpoint = p.Endpoint()
	w.endpoint.Rank = rank
	w.now = &publisher{wire: w, to: p}
	return w.now, w.endpoint, nil
}

// next decides what happens to a message.
func (w *wire) next(change func(*unfair)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.unfair)
}

// mend lets everything pass as it comes.
func (w *wire) mend() {
	w.mu.Lock()
	w.unfair = unfair{}
	p := w.now
	w.mu.Unlock()
	if p != nil {
		p.mu.Lock()
		p.held = nil
		p.mu.Unlock()
	}
}

// fate takes the next message's fate.
func (w *wire) fate() (f unfair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch u := &w.unfair; {
	case u.lose > 0:
		u.lose--
		f.lose = 1
	case u.swap > 0:
		u.swap--
		f.swap = 1
	case u.repeat > 0:
		u.repeat--
		f.repeat = 1
	}
	return f
}

// publisher is one life of a wire.
type publisher struct {
	wire *wire
	to   *zmtp.Publisher

	mu   sync.Mutex
	seq  uint64
	held *follow.Message // comes behind the next one
	said [][]byte        // all payloads
}

// Publish implements fleettest.Publisher. What it can't send it drops: the publisher is
// closed then.
func (p *publisher) Publish(payload []byte) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := follow.Message{Topic: "kv@chaos", Seq: p.seq, Payload: payload}
	p.seq++
	p.said = append(p.said, payload)
	f := p.wire.fate()
	switch {
	case f.lose > 0:
		_ = p.to.Record(m)
	case f.swap > 0 && p.held == nil:
		_ = p.to.Record(m)
		p.held = &m
		return m.Seq
	default:
		_ = p.to.Send(m)
		if f.repeat > 0 {
			p.again(&m)
		}
	}
	if p.held != nil {
		p.again(p.held)
		p.held = nil
	}
	return m.Seq
}

// told returns how many of a prompt's tokens an index holds that has applied all that the
// present life has published, in order: whether the router or the engine is wrong.
func (w *wire) told(tokens []uint32) int { return w.heard(tokens, false) }

// ever is told of an index that nothing leaves.
func (w *wire) ever(tokens []uint32) int { return w.heard(tokens, true) }

func (w *wire) heard(tokens []uint32, keeps bool) int {
	w.mu.Lock()
	p := w.now
	w.mu.Unlock()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x := kvcache.NewIndex(kvcache.Options{})
	o := x.Join("told")
	var d decode.Decoder
	for _, payload := range p.said {
		b, err := d.Decode(payload)
		if err != nil {
			if !keeps {
				x.Clear(o)
			}
			continue
		}
		for i := range b.Events {
			if keeps && b.Events[i].Kind != kvcache.Stored {
				continue
			}
			x.Apply(o, &b.Events[i])
		}
	}
	var hits [1]kvcache.Hit
	keys := kvcache.Hasher{BlockSize: blockSize}.Keys(nil, tokens, kvcache.Scope{}, nil)
	x.Match(keys, []kvcache.Owner{o}, hits[:])
	return int(hits[0].Blocks) * blockSize
}

// again sends what the memory for replays has already.
func (p *publisher) again(m *follow.Message) {
	_ = p.to.SendFrames([]byte(m.Topic), binary.BigEndian.AppendUint64(nil, m.Seq), m.Payload)
}

// Burn uses up a number.
func (p *publisher) Burn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
}

// Close ends the life.
func (p *publisher) Close() error {
	if err := p.to.Close(); err != nil {
		return fmt.Errorf("close the publisher: %w", err)
	}
	return nil
}

// cables are the connections to publishers, so that they can be cut.
type cables struct {
	mu   sync.Mutex
	list map[string][]net.Conn // by address
}

// dial is a zmtp.Transport's DialContext.
func (c *cables) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = make(map[string][]net.Conn)
	}
	c.list[address] = append(c.list[address], conn)
	return conn, nil
}

// cut closes what was dialled to an address.
func (c *cables) cut(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.list[address] {
		_ = conn.Close() // it may be closed already
	}
	c.list[address] = nil
}
