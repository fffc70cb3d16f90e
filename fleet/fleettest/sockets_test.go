package fleettest

import (
	"errors"
	"slices"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

func TestEventsOverZeroMQ(t *testing.T) {
	t.Parallel()
	e := New(t, Config{Name: "wired", Speed: fast, ZMQ: true, Ranks: 2, OutputTokens: 1})
	c := client(t)
	places := e.Endpoints()
	if len(places) != 2 || places[0].Events == places[1].Events || places[1].Rank != 1 {
		t.Fatalf("endpoints %+v", places)
	}
	prompt := func(seed uint64) { post(t, c, e.URL()+pathChat, user(Text(seed, 50)), headerRank, "1") }
	dial := func() *listener {
		conn, err := new(zmtp.Transport).Dial(t.Context(), places[1])
		if err != nil {
			t.Fatal(err)
		}
		return follows(t, conn)
	}
	prompt(1)
	l := dial()
	// A subscription takes a moment to arrive: until it has, messages are missed.
	last := uint64(1)
	eventually(t, "a message", func() bool {
		last++
		prompt(last)
		_, seqs, _ := l.snapshot()
		return len(seqs) > 0
	})
	e.Faults().LoseEvents(1)
	prompt(100)
	e.Faults().BurnEvents(1)
	prompt(101)
	prompt(102)
	eventually(t, "the gap", func() bool {
		_, seqs, _ := l.snapshot()
		n := len(seqs)
		return n > 1 && seqs[n-1] == seqs[n-2]+3
	})
	var replayed []uint64
	if err := l.conn.Replay(t.Context(), 0, func(m follow.Message) error {
		replayed = append(replayed, m.Seq)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// Everything but the number that was burnt.
	n := len(replayed)
	if replayed[0] != 0 || replayed[n-1] != uint64(n) || slices.Contains(replayed, uint64(n-1)) {
		t.Errorf("replay has %v", replayed)
	}
	if err := e.Restart(); err != nil {
		t.Fatal(err)
	}
	if again := e.Endpoints(); !slices.Equal(again, places) {
		t.Errorf("after a restart events are at %v, before at %v", again, places)
	}
	c.CloseIdleConnections() // they were cut
	l = dial()
	eventually(t, "a message after the restart", func() bool {
		last++
		prompt(last)
		_, seqs, _ := l.snapshot()
		return len(seqs) > 0
	})
	events, seqs, malformed := l.snapshot()
	if malformed != 0 || events[0].Kind != kvcache.Stored || seqs[0] > last {
		t.Errorf("%d malformed, numbers %v", malformed, seqs)
	}
}

func TestOneWayToPublish(t *testing.T) {
	t.Parallel()
	if _, err := Start(Config{Hub: follow.NewHub(), ZMQ: true}); !errors.Is(err, ErrConfig) {
		t.Errorf("Hub and ZMQ: %v", err)
	}
	broken := errors.New("broken")
	_, err := Start(Config{OpenPublisher: func(int) (Publisher, follow.Endpoint, error) {
		return nil, follow.Endpoint{}, broken
	}})
	if !errors.Is(err, broken) {
		t.Errorf("a publisher that can't be opened: %v", err)
	}
	var payloads int
	e := New(t, Config{Speed: fast, OpenPublisher: func(rank int) (Publisher, follow.Endpoint, error) {
		return PublisherFunc(func([]byte) uint64 { payloads++; return 0 }), follow.Endpoint{Rank: rank}, nil
	}})
	post(t, client(t), e.URL()+pathChat, user(Text(1, 50)))
	if err := e.Close(); err != nil || payloads == 0 {
		t.Errorf("%d messages, %v", payloads, err)
	}
}
