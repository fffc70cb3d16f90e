package kvcachetest_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// fault is a way to be wrong, and the case that must notice.
type fault struct {
	caughtBy  string
	transport func(*zmtp.Transport) follow.Transport
}

// conn is a follow.Conn of which some methods are replaced.
type conn struct {
	follow.Conn
	recv   func(context.Context) (follow.Message, error)
	replay func(context.Context, uint64, func(follow.Message) error) error
	close  func() error
	link   func() follow.Link
}

func (c *conn) Recv(ctx context.Context) (follow.Message, error) {
	if c.recv != nil {
		return c.recv(ctx)
	}
	return c.Conn.Recv(ctx)
}

func (c *conn) Replay(ctx context.Context, from uint64, fn func(follow.Message) error) error {
	if c.replay != nil {
		return c.replay(ctx, from, fn)
	}
	return c.Conn.Replay(ctx, from, fn)
}

func (c *conn) Link() follow.Link {
	if c.link != nil {
		return c.link()
	}
	return c.Conn.Link()
}

func (c *conn) Close() error {
	if c.close != nil {
		return c.close()
	}
	return c.Conn.Close()
}

// dialer is a transport made of a function.
type dialer func(context.Context, follow.Endpoint) (follow.Conn, error)

func (d dialer) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) { return d(ctx, ep) }

// wrap changes every connection.
func wrap(change func(c *conn, ep follow.Endpoint)) func(*zmtp.Transport) follow.Transport {
	return func(t *zmtp.Transport) follow.Transport {
		return dialer(func(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
			good, err := t.Dial(ctx, ep)
			if err != nil {
				return nil, err
			}
			c := &conn{Conn: good}
			change(c, ep)
			return c, nil
		})
	}
}

// onMessage changes every live message.
func onMessage(change func(*follow.Message)) func(*zmtp.Transport) follow.Transport {
	return wrap(func(c *conn, _ follow.Endpoint) {
		c.recv = func(ctx context.Context) (follow.Message, error) {
			m, err := c.Conn.Recv(ctx)
			change(&m)
			return m, err
		}
	})
}

// onEndpoint changes what is dialled.
func onEndpoint(change func(*follow.Endpoint)) func(*zmtp.Transport) follow.Transport {
	return func(t *zmtp.Transport) follow.Transport {
		return dialer(func(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
			change(&ep)
			return t.Dial(ctx, ep)
		})
	}
}

// onReplay changes replaying.
func onReplay(change func(c *conn, ctx context.Context, from uint64, fn func(follow.Message) error) error) func(*zmtp.Transport) follow.Transport {
	return wrap(func(c *conn, _ follow.Endpoint) {
		c.replay = func(ctx context.Context, from uint64, fn func(follow.Message) error) error {
			return change(c, ctx, from, fn)
		}
	})
}

var errWrong = errors.New("wrong")

func faults() map[string]fault {
	all := map[string]fault{}
	for _, group := range []map[string]fault{deliveryFaults(), replayFaults(), lifeFaults(), loadFaults()} {
		maps.Copy(all, group)
	}
	return all
}

func deliveryFaults() map[string]fault {
	return map[string]fault{
		"swaps-messages": {"Order", wrap(func(c *conn, _ follow.Endpoint) {
			var held *follow.Message
			c.recv = func(ctx context.Context) (follow.Message, error) {
				if held != nil {
					m := *held
					held = nil
					return m, nil
				}
				first, err := c.Conn.Recv(ctx)
				if err != nil || first.Seq != 1000 {
					return first, err
				}
				second, err := c.Conn.Recv(ctx)
				held = &first
				return second, err
			}
		})},
		"keeps-32-bits":    {"SeqRange", onMessage(func(m *follow.Message) { m.Seq &= 1<<32 - 1 })},
		"takes-all-topics": {"TopicFilter", onEndpoint(func(ep *follow.Endpoint) { ep.Topic = "" })},
		"wants-a-topic": {"EmptyTopic", wrap(func(c *conn, _ follow.Endpoint) {
			c.recv = func(ctx context.Context) (follow.Message, error) {
				for {
					m, err := c.Conn.Recv(ctx)
					if err != nil || m.Topic != "" || slices.Contains([]string{"warm", "ready"}, string(m.Payload)) {
						return m, err
					}
				}
			}
		})},
		"keeps-padding": {"PaddedTopic", onMessage(func(m *follow.Message) {
			if m.Topic == "kv" {
				m.Topic = "kv\x00\x00junk"
			}
		})},
		"reads-second-frame": {"ExtraFrames", onMessage(func(m *follow.Message) {
			if m.Seq == 7 {
				m.Seq = 99
			}
		})},
		"dies-of-malformed": {"Malformed", wrap(func(c *conn, _ follow.Endpoint) {
			counter, _ := c.Conn.(interface{ Malformed() int64 })
			c.recv = func(ctx context.Context) (follow.Message, error) {
				m, err := c.Conn.Recv(ctx)
				if counter.Malformed() > 0 {
					return m, errWrong
				}
				return m, err
			}
		})},
		"believes-any-size": {"Hostile", func(t *zmtp.Transport) follow.Transport {
			t.MaxMessage = 1<<63 - 1
			return t
		}},
		"reuses-its-buffer": {"Ownership", wrap(func(c *conn, _ follow.Endpoint) {
			buf := make([]byte, 0, 1<<10)
			c.recv = func(ctx context.Context) (follow.Message, error) {
				m, err := c.Conn.Recv(ctx)
				m.Payload = append(buf, m.Payload...)
				return m, err
			}
		})},
		"closes-all": {"TwoConns", func(t *zmtp.Transport) follow.Transport {
			var all []follow.Conn
			return dialer(func(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
				good, err := t.Dial(ctx, ep)
				all = append(all, good)
				return &conn{Conn: good, close: func() error {
					for _, c := range all {
						_ = c.Close()
					}
					return nil
				}}, err
			})
		}},
	}
}

func replayFaults() map[string]fault {
	return map[string]fault{
		"replays-all": {"ReplayWithTopic", onReplay(func(c *conn, ctx context.Context, _ uint64, fn func(follow.Message) error) error {
			return c.Conn.Replay(ctx, 0, fn)
		})},
		"delivers-end-marker": {"ReplayWithoutTopic", onReplay(func(c *conn, ctx context.Context, from uint64, fn func(follow.Message) error) error {
			if err := c.Conn.Replay(ctx, from, fn); err != nil {
				return err
			}
			return fn(follow.Message{Seq: 1<<64 - 1})
		})},
		"fails-on-wrap": {"ReplayWrap", onReplay(func(c *conn, ctx context.Context, from uint64, fn func(follow.Message) error) error {
			return c.Conn.Replay(ctx, from, func(m follow.Message) error {
				if m.Seq > from && from == 0 {
					return errWrong
				}
				return fn(m)
			})
		})},
		"mixes-replays": {"ReplayStop", wrap(func(c *conn, _ follow.Endpoint) {
			var rest []follow.Message
			c.replay = func(ctx context.Context, from uint64, fn func(follow.Message) error) error {
				all := rest
				rest = nil
				err := c.Conn.Replay(ctx, from, func(m follow.Message) error {
					all = append(all, m)
					return nil
				})
				for i, m := range all {
					if err := fn(m); err != nil {
						rest = all[i+1:]
						return err
					}
				}
				return err
			}
		})},
		"silent-about-no-replay": {"ReplayNone", onReplay(func(c *conn, ctx context.Context, from uint64, fn func(follow.Message) error) error {
			err := c.Conn.Replay(ctx, from, fn)
			if errors.Is(err, follow.ErrNoReplay) {
				return nil
			}
			return err
		})},
		"waits-for-ever": {"ReplayMute", onReplay(func(c *conn, _ context.Context, from uint64, fn func(follow.Message) error) error {
			return c.Conn.Replay(context.Background(), from, fn)
		})},
		"replays-again": {"ReplayDisconnect", onReplay(func(c *conn, ctx context.Context, from uint64, fn func(follow.Message) error) error {
			for {
				if err := c.Conn.Replay(ctx, from, fn); !errors.Is(err, follow.ErrDisconnected) {
					return err
				}
			}
		})},
		"one-at-a-time": {"ReplayConcurrent", wrap(func(c *conn, _ follow.Endpoint) {
			var mu sync.Mutex
			c.recv = func(ctx context.Context) (follow.Message, error) {
				mu.Lock()
				defer mu.Unlock()
				return c.Conn.Recv(ctx)
			}
			c.replay = func(ctx context.Context, from uint64, fn func(follow.Message) error) error {
				mu.Lock()
				defer mu.Unlock()
				return c.Conn.Replay(ctx, from, fn)
			}
		})},
	}
}

func lifeFaults() map[string]fault {
	return map[string]fault{
		"accepts-any-address": {"Addresses", func(*zmtp.Transport) follow.Transport {
			return dialer(func(_ context.Context, ep follow.Endpoint) (follow.Conn, error) {
				if _, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(ep.Events, "tcp://")); err != nil {
					return nil, err
				}
				return &conn{close: func() error { return nil }}, nil
			})
		}},
		"deaf-to-context": {"Context", wrap(func(c *conn, _ follow.Endpoint) {
			c.recv = func(context.Context) (follow.Message, error) { return c.Conn.Recv(context.Background()) }
		})},
		"up-at-once": {"Link", wrap(func(c *conn, _ follow.Endpoint) {
			c.link = func() follow.Link { return follow.Link{Up: true} }
		})},
		"dials-once": {"LatePublisher", func(t *zmtp.Transport) follow.Transport {
			t.RetryMin, t.RetryMax = time.Hour, time.Hour
			return t
		}},
		"blocks-after-close": {"CloseUnblocks", wrap(func(c *conn, _ follow.Endpoint) {
			c.recv = func(ctx context.Context) (follow.Message, error) {
				m, err := c.Conn.Recv(ctx)
				if errors.Is(err, follow.ErrClosed) {
					<-ctx.Done()
				}
				return m, err
			}
		})},
		"closes-once": {"CloseIdempotent", wrap(func(c *conn, _ follow.Endpoint) {
			var once sync.Once
			c.close = func() error {
				err := errWrong
				once.Do(func() { err = c.Conn.Close() })
				return err
			}
		})},
		"silent-about-loss": {"Restart", wrap(func(c *conn, _ follow.Endpoint) {
			c.recv = func(ctx context.Context) (follow.Message, error) {
				m, err := c.Conn.Recv(ctx)
				if errors.Is(err, follow.ErrDisconnected) {
					<-ctx.Done()
					return m, ctx.Err()
				}
				return m, err
			}
		})},
		"reconnects-silently": {"Drop", func(t *zmtp.Transport) follow.Transport {
			return dialer(func(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
				good, err := t.Dial(ctx, ep)
				c := &conn{Conn: good}
				c.recv = func(ctx context.Context) (follow.Message, error) {
					for {
						m, err := c.Conn.Recv(ctx)
						if !errors.Is(err, follow.ErrDisconnected) {
							return m, err
						}
						_ = c.Conn.Close()
						if c.Conn, err = t.Dial(ctx, ep); err != nil {
							return m, err
						}
					}
				}
				return c, err
			})
		}},
		"no-heartbeat": {"DeadPeer", func(t *zmtp.Transport) follow.Transport {
			t.Heartbeat = -1
			return t
		}},
	}
}

func loadFaults() map[string]fault {
	return map[string]fault{
		"cuts-at-a-megabyte": {"LargePayload", onMessage(func(m *follow.Message) {
			m.Payload = m.Payload[:min(len(m.Payload), 1<<20)]
		})},
		"collects-without-end": {"SlowConsumer", func(t *zmtp.Transport) follow.Transport {
			t.Buffer = 1 << 40
			return t
		}},
		"forgets-its-buffer": {"StalledLoss", wrap(func(c *conn, _ follow.Endpoint) {
			c.recv = func(ctx context.Context) (follow.Message, error) {
				m, err := c.Conn.Recv(ctx)
				for err == nil && len(m.Payload) > 1<<10 {
					m, err = c.Conn.Recv(ctx)
				}
				return m, err
			}
		})},
		"leaks": {"Cycles", wrap(func(c *conn, _ follow.Endpoint) {
			c.close = func() error {
				go func() { select {} }()
				return c.Conn.Close()
			}
		})},
	}
}
