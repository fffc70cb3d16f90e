package zmtp

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

// scripted is a publisher played by the test over an in-memory pipe, so that it
// can say anything and time can be faked.
type scripted struct {
	t  *testing.T
	nc net.Conn
	l  *link
}

// scripts returns a transport whose connections arrive on the channel.
func scripts(t *testing.T) (*Transport, <-chan *scripted) {
	t.Helper()
	arrived := make(chan *scripted, 16)
	return &Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		arrived <- &scripted{t: t, nc: theirs, l: newLink(theirs, DefaultMaxMessage)}
		return ours, nil
	}}, arrived
}

// greet performs the handshake as a socket of that type and minor version.
func (s *scripted) greet(socket string, minor byte) {
	s.t.Helper()
	g := greeting()
	g[11] = minor
	// A pipe has no buffer, so each side must read while the other writes.
	peer := make([]byte, greetingSize)
	_, err := io.ReadFull(s.l.br, peer)
	require.NoError(s.t, err)
	s.write(g)
	flags, body, err := readFrame(s.l.br, maxCommand)
	require.NoError(s.t, err)
	require.Equal(s.t, byte(flagCommand), flags)
	name, _, err := splitCommand(body)
	require.NoError(s.t, err)
	require.Equal(s.t, cmdReady, name)
	s.write(readyCommand(socket))
}

func (s *scripted) write(b []byte) {
	s.t.Helper()
	_, err := s.nc.Write(b)
	require.NoError(s.t, err)
}

// command reads a command and returns its body.
func (s *scripted) command() string {
	s.t.Helper()
	flags, body, err := readFrame(s.l.br, maxCommand)
	require.NoError(s.t, err)
	require.Equal(s.t, byte(flagCommand), flags)
	return string(body)
}

func (s *scripted) publish(seq uint64) {
	s.t.Helper()
	s.write(encodeMessage([]byte("kv"), eventstream.SeqFrame(seq), []byte("payload")))
}

func dialScript(t *testing.T, tr *Transport, topic string) follow.Conn {
	t.Helper()
	c, err := tr.Dial(t.Context(), follow.Endpoint{Events: "tcp://engine:5557", Replay: "tcp://engine:5558", Topic: topic})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestSubscribeForms(t *testing.T) {
	tr, arrived := scripts(t)
	dialScript(t, tr, "kv@")
	s := <-arrived
	s.greet(typePub, 1)
	require.Equal(t, "\x09SUBSCRIBEkv@", s.command())

	dialScript(t, tr, "kv@")
	s = <-arrived
	s.greet(typeXPub, 0)
	flags, body, err := readFrame(s.l.br, maxCommand)
	require.NoError(t, err)
	require.Equal(t, byte(0), flags, "a 3.0 peer takes subscriptions as messages")
	require.Equal(t, "\x01kv@", string(body))
}

// TestCommandsBetween: heartbeats are answered, even between a message's frames,
// and commands that we don't know are ignored.
func TestCommandsBetween(t *testing.T) {
	tr, arrived := scripts(t)
	c := dialScript(t, tr, "")
	s := <-arrived
	s.greet(typePub, 1)
	s.command()
	s.write(appendFrame(nil, flagMore, []byte("kv")))
	s.write(appendCommand(nil, cmdPing, 0, 0, 'h', 'i'))
	require.Equal(t, "\x04PONGhi", s.command())
	s.write(appendFrame(nil, flagMore, eventstream.SeqFrame(7)))
	s.write(appendCommand(nil, "NOVELTY", 1, 2, 3))
	s.write(appendFrame(nil, 0, []byte("payload")))
	m, err := c.Recv(t.Context())
	require.NoError(t, err)
	require.Equal(t, follow.Message{Topic: "kv", Seq: 7, Payload: []byte("payload")}, m)
	s.write(appendCommand(nil, cmdPing, append([]byte{0, 0}, "a context of more than sixteen bytes"...)...))
	require.Equal(t, "\x04PONGa context of mor", s.command())
}

// TestBrokenPeers: an established peer that breaks the protocol is a lost one.
func TestBrokenPeers(t *testing.T) {
	for name, wire := range map[string][]byte{
		"reserved flags":    {0x80, 0},
		"nameless command":  {flagCommand, 0},
		"PING without TTL":  appendCommand(nil, cmdPing, 1),
		"ERROR":             appendCommand(nil, cmdError, []byte("\x06reason")...),
		"oversized frame":   {flagLong, 0, 0, 0, 1, 0, 0, 0, 0},
		"oversized message": append(appendFrame(nil, flagMore, make([]byte, 600)), appendHeader(nil, 0, 600)...),
	} {
		t.Run(name, func(t *testing.T) {
			tr, arrived := scripts(t)
			tr.MaxMessage = 1000
			c := dialScript(t, tr, "")
			s := <-arrived
			s.greet(typePub, 1)
			s.command()
			s.publish(1)
			s.write(wire)
			m, err := c.Recv(t.Context())
			require.NoError(t, err, "what came before is delivered")
			require.Equal(t, uint64(1), m.Seq)
			_, err = c.Recv(t.Context())
			require.ErrorIs(t, err, follow.ErrDisconnected)
			require.NotErrorIs(t, err, io.EOF)
		})
	}
}

// TestManyFrames: a message of endless empty frames ends.
func TestManyFrames(t *testing.T) {
	tr, arrived := scripts(t)
	tr.MaxMessage = 1000
	c := dialScript(t, tr, "")
	s := <-arrived
	s.greet(typePub, 1)
	s.command()
	var err error
	for n := 0; n < 1000 && err == nil; n++ {
		_, err = s.nc.Write(appendFrame(nil, flagMore, nil))
	}
	require.Error(t, err, "the connection ends long before a thousand frames")
	_, err = c.Recv(t.Context())
	require.ErrorIs(t, err, follow.ErrDisconnected)
}

// TestRefused: before the connection stands, a peer that can't be used is tried
// again, and a receiver who gives up is told why.
func TestRefused(t *testing.T) {
	greeted := func(rest []byte) []byte { return append(greeting(), rest...) }
	for name, c := range map[string]struct {
		wire []byte
		text string
	}{
		"not ZMTP":        {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak ZMTP"},
		"exchanged ports": {greeted(readyCommand(typeRouter)), "are the event and replay addresses exchanged?"},
		"an error":        {greeted(appendCommand(nil, cmdError, []byte("\x04full")...)), "refused the connection"},
		"a message":       {greeted(appendFrame(nil, 0, []byte("hello"))), "a message where READY was due"},
		"another command": {greeted(appendCommand(nil, "HELLO")), "where READY was due"},
		"silence":         {nil, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, arrived := scripts(t)
				conn := dialScript(t, tr, "")
				go func() {
					for {
						select {
						case s := <-arrived:
							go func() { _, _ = io.Copy(io.Discard, s.nc) }()
							_, _ = s.nc.Write(c.wire)
						case <-t.Context().Done():
							return
						}
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), 3*DefaultHandshakeTimeout)
				defer cancel()
				_, err := conn.Recv(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, c.text)
				require.ErrorContains(t, err, "tcp://engine:5557")
			})
		})
	}
}

// TestBackoff: attempts come at growing intervals, but never too rarely.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		tr := &Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			at = append(at, time.Now())
			return nil, errors.New("connection refused")
		}}
		c := dialScript(t, tr, "")
		const watched = 10 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), watched)
		defer cancel()
		_, err := c.Recv(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "connection refused")
		require.NoError(t, c.Close())
		for i := 1; i < len(at); i++ {
			gap := at[i].Sub(at[i-1])
			want := min(DefaultRetryMin<<(i-1), DefaultRetryMax)
			require.LessOrEqual(t, gap, want)
			require.GreaterOrEqual(t, gap, want*3/4)
		}
		require.Greater(t, len(at), 8)
	})
}
