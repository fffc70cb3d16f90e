package redis

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica"
)

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// message is one of some 4 kB.
func message(epoch, seq uint64) *replica.Message {
	b := replica.Booking{Instance: "w@1", TTL: time.Minute}
	b.Keys = slices.Grow(b.Keys, 500)[:500]
	return &replica.Message{
		Version: replica.Version, Router: "r", Epoch: epoch, Seq: seq,
		Loads: []replica.Load{{Instance: "w@1", DecodeRequests: 1}}, Bookings: []replica.Booking{b},
	}
}

func TestExchangeOptions(t *testing.T) {
	good := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	defer good.Close()
	careless := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer careless.Close()
	for says, c := range map[string]struct {
		client goredis.UniversalClient
		o      ExchangeOptions
	}{
		"the client is nil":          {nil, ExchangeOptions{}},
		"set ContextTimeoutEnabled":  {careless, ExchangeOptions{}},
		"Deadline can't be negative": {good, ExchangeOptions{Deadline: -1}},
		"Silence is 999ms":           {good, ExchangeOptions{Silence: 999 * time.Millisecond}},
		"Silence is 2h0m0s":          {good, ExchangeOptions{Silence: 2 * time.Hour}},
	} {
		_, err := NewExchange(c.client, c.o)
		require.ErrorContains(t, err, says)
	}
	e, err := NewExchange(good, ExchangeOptions{})
	require.NoError(t, err)
	require.Equal(t, "kvsteer:replicas", e.opts.Channel)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, context.Canceled, e.Publish(ended, message(1, 1)))
	require.Equal(t, context.Canceled, e.Receive(ended, nil, nil))
	require.Equal(t, ExchangeStats{}, e.Stats())
}

// fakeRedis speaks as much of the protocol as a subscriber needs, and confirms a
// subscription as often as it is told: as one sees it if the client connects anew.
func fakeRedis(t *testing.T, after string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					args, err := command(in)
					if err != nil {
						return
					}
					switch strings.ToLower(args[0]) {
					case "subscribe":
						fmt.Fprintf(c, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n%s", len(args[1]), args[1], after)
					case "hello":
						fmt.Fprint(c, "-ERR unknown command\r\n")
					default:
						fmt.Fprint(c, "+OK\r\n")
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func command(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 3 {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number()
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:size])
	}
	return args, nil
}

// go-redis connects anew by itself: then the subscription is confirmed again, or it has
// ended, and what was published meanwhile is lost.
func TestExchangeResubscribed(t *testing.T) {
	const patient = 30 * time.Second // the machine may be busy
	for name, after := range map[string]string{
		"confirmed again": "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
		"ended":           "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
		"by its shard":    "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := goredis.NewClient(&goredis.Options{Addr: fakeRedis(t, after), ContextTimeoutEnabled: true, Protocol: 2, ReadTimeout: patient, DialTimeout: patient})
			defer c.Close()
			e, err := NewExchange(c, ExchangeOptions{Channel: "c", Silence: patient})
			require.NoError(t, err)
			subscribed := 0
			require.ErrorIs(t, e.Receive(context.Background(), func() { subscribed++ }, func(*replica.Message) {}), errResubscribed)
			require.Equal(t, 1, subscribed)
		})
	}
}
