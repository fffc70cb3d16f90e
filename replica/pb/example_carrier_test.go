package pb_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// carrier is an Exchange over whatever has messages of bytes on a subject; docs/replicas.md
// shows it.
type carrier struct{ broker *broker }

func (c *carrier) Publish(ctx context.Context, m *replica.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := pb.Marshal(m) // refuses what is beyond the bounds
	if err != nil {
		return err
	}
	return c.broker.publish(ctx, data)
}

func (c *carrier) Receive(ctx context.Context, subscribed func(), deliver func(*replica.Message)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sub, err := c.broker.subscribe(ctx)
	if err != nil {
		return err
	}
	defer sub.close()
	subscribed() // from here on nothing is missed
	for {
		data, err := sub.next(ctx)
		if err != nil {
			return err // ctx has ended, or the connection: don't connect again behind the router's back
		}
		var other *pb.VersionError
		switch m, err := pb.Unmarshal(data); {
		case errors.As(err, &other):
			deliver(&replica.Message{Version: int(min(other.Version, 1<<30))}) // the router counts them
		case err == nil:
			deliver(m)
		} // else it is from somebody else: count it
	}
}

// broker stands for a client of a message broker.
type broker struct {
	mu   sync.Mutex
	subs map[*subscription]bool
}

type subscription struct {
	broker   *broker
	messages chan []byte
	lost     chan struct{}
	lose     func()
}

func (b *broker) publish(_ context.Context, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		select {
		case s.messages <- data:
		default:
			s.lose() // too slow
		}
	}
	return nil
}

func (b *broker) subscribe(context.Context) (*subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &subscription{broker: b, messages: make(chan []byte, 256), lost: make(chan struct{})}
	s.lose = sync.OnceFunc(func() { close(s.lost) })
	b.subs[s] = true
	return s, nil
}

func (s *subscription) next(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.lost:
		return nil, errors.New("the connection is lost")
	case data := <-s.messages:
		return data, nil
	}
}

func (s *subscription) close() {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	delete(s.broker.subs, s)
}

func TestCarrier(t *testing.T) {
	replicatest.Run(t, func(*testing.T) (a, b replica.Exchange, breakIt func()) {
		br := &broker{subs: make(map[*subscription]bool)}
		return &carrier{br}, &carrier{br}, func() {
			br.mu.Lock()
			defer br.mu.Unlock()
			for s := range br.subs {
				s.lose()
			}
		}
	})
}
