package fleettest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Publisher sends encoded event batches to whoever listens, numbering them from
// 0. A *follow.Pipe is one; PublisherFunc adapts others, such as those of the
// ZeroMQ packages.
//
// What a publisher can do beyond that is found out by its methods:
//
//	Lose(n int)      the next n messages reach no subscriber, but a replay
//	Burn()           uses up a sequence number without a message
//	RestartUnseen()  numbers from 0 again, connections stay
//	Close() error    releases it; called when the engine dies or is closed
type Publisher interface {
	// Publish sends a payload, which it may keep, and returns its sequence number.
	// It must not block for long: the engine waits for it.
	Publish(payload []byte) uint64
}

// PublisherFunc is a Publisher made of a function.
type PublisherFunc func(payload []byte) uint64

// Publish calls f.
func (f PublisherFunc) Publish(payload []byte) uint64 { return f(payload) }

// opened is a rank's publisher and where it is.
type opened struct {
	Publisher
	endpoint follow.Endpoint
}

// openPublisher opens the publisher that the configuration names; a nil Publisher
// means that it names none.
func (c *Config) openPublisher(rank int) (opened, error) {
	switch {
	case c.Hub != nil:
		name := c.Name
		if rank > 0 {
			name = fmt.Sprintf("%s.dp%d", c.Name, rank)
		}
		pipe, err := c.Hub.Open(name, follow.PipeOptions{})
		if err != nil {
			return opened{}, fmt.Errorf("fleettest: publish events of rank %d: %w", rank, err)
		}
		return opened{Publisher: pipe, endpoint: pipe.Endpoint(rank)}, nil
	case c.OpenPublisher != nil:
		p, endpoint, err := c.OpenPublisher(rank)
		if err != nil {
			return opened{}, fmt.Errorf("fleettest: publish events of rank %d: %w", rank, err)
		}
		return opened{Publisher: p, endpoint: endpoint}, nil
	default:
		return opened{}, nil
	}
}

// close releases the publisher if it can be released.
func (o opened) close() error {
	if c, ok := o.Publisher.(io.Closer); ok {
		return c.Close() //nolint:wrapcheck // the publisher's own error
	}
	return nil
}

// outbox sends a rank's event messages, some of them later. Its owner runs it.
type outbox struct {
	faults *Faults
	to     Publisher

	mu   sync.Mutex
	late []letter
	wake chan struct{}
}

// letter is one message and when it goes.
type letter struct {
	payload []byte
	fate    fate
	due     time.Time
}

func newOutbox(faults *Faults, to Publisher) *outbox {
	return &outbox{faults: faults, to: to, wake: make(chan struct{}, 1)}
}

// post sends a message, at once unless it or one before it is delayed.
func (o *outbox) post(payload []byte) {
	ends, delay := o.faults.eventFate()
	o.mu.Lock()
	defer o.mu.Unlock()
	if delay <= 0 && len(o.late) == 0 {
		o.send(payload, ends)
		return
	}
	o.late = append(o.late, letter{payload: payload, fate: ends, due: time.Now().Add(delay)})
	signal(o.wake)
}

// send hands a message over. o.mu is held, which keeps messages in order.
func (o *outbox) send(payload []byte, ends fate) {
	switch ends {
	case fateBurn:
		if p, ok := o.to.(interface{ Burn() }); ok {
			p.Burn()
		}
		return
	case fateLose:
		p, ok := o.to.(interface{ Lose(n int) })
		if !ok {
			return
		}
		p.Lose(1)
	case fateCorrupt:
		payload = payload[:len(payload)/2]
	default:
	}
	o.to.Publish(payload)
}

// run sends delayed messages until ctx ends; those left are lost, as with an
// engine that dies.
func (o *outbox) run(ctx context.Context) {
	for {
		o.mu.Lock()
		var wait <-chan time.Time
		var timer *time.Timer
		for len(o.late) > 0 {
			left := time.Until(o.late[0].due)
			if left > 0 {
				timer = time.NewTimer(left)
				wait = timer.C
				break
			}
			o.send(o.late[0].payload, o.late[0].fate)
			o.late[0] = letter{}
			o.late = o.late[1:]
		}
		o.mu.Unlock()
		select {
		case <-wait:
		case <-o.wake:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// signal wakes whoever waits on a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
