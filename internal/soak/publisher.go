package main

import (
	"sync"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// kept is how many messages an engine keeps for replays. What engines keep by default would
// be most of the heap here, and more the longer each of them lives.
const kept = 500

// publishers opens ZeroMQ publishers for the ranks of an engine, at the same addresses in
// each life.
type publishers struct {
	mu sync.Mutex
	at map[int]follow.Endpoint
}

func (p *publishers) open(rank int) (fleettest.Publisher, follow.Endpoint, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.at[rank]
	if !known {
		const free = "tcp://127.0.0.1:0"
		at = follow.Endpoint{Events: free, Replay: free}
	}
	opened, err := zmtp.NewPublisher(zmtp.PublisherConfig{Events: at.Events, Replay: at.Replay, History: kept})
	if err != nil {
		return nil, follow.Endpoint{}, err
	}
	at = opened.Endpoint()
	at.Rank = rank
	p.at[rank] = at
	return &publisher{to: opened}, at, nil
}

// publisher numbers messages, and has the faults that fleettest asks for.
type publisher struct {
	to *zmtp.Publisher

	mu   sync.Mutex
	next uint64
	lose int
}

// Publish implements fleettest.Publisher.
func (p *publisher) Publish(payload []byte) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := follow.Message{Seq: p.next, Payload: payload}
	p.next++
	send := p.to.Send
	if p.lose > 0 {
		p.lose--
		send = p.to.Record
	}
	_ = send(m) // fails only after Close
	return m.Seq
}

// Lose makes the next n messages reach nobody but by a replay.
func (p *publisher) Lose(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose += n
}

// Burn uses up a number.
func (p *publisher) Burn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
}

// Close implements io.Closer.
func (p *publisher) Close() error { return p.to.Close() }
