package zmtp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// TestHeartbeat: a silent peer is asked after the interval, lives as long as it
// answers, and is given up when it doesn't.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, arrived := scripts(t)
		c := dialScript(t, tr, "")
		s := <-arrived
		s.greet(typePub, 1)
		s.command()
		start := time.Now()
		for i := range 3 {
			require.Equal(t, "\x04PING\x00\x00", s.command())
			require.Equal(t, time.Duration(i+1)*DefaultHeartbeat, time.Since(start))
			s.write(appendCommand(nil, cmdPong))
		}
		require.Equal(t, "\x04PING\x00\x00", s.command())
		_, err := c.Recv(t.Context())
		require.ErrorIs(t, err, follow.ErrDisconnected)
		require.ErrorContains(t, err, "answers no heartbeat")
		require.Equal(t, 4*DefaultHeartbeat+DefaultHeartbeatTimeout, time.Since(start))
	})
}

// TestNoHeartbeat: a peer older than 3.1 isn't asked what it can't answer, nor
// is any when that is switched off.
func TestNoHeartbeat(t *testing.T) {
	for name, c := range map[string]struct {
		minor     byte
		heartbeat time.Duration
	}{
		"3.0 peer":     {0, 0},
		"switched off": {1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, arrived := scripts(t)
				tr.Heartbeat = c.heartbeat
				conn := dialScript(t, tr, "")
				s := <-arrived
				s.greet(typePub, c.minor)
				_, _, err := readFrame(s.l.br, maxCommand)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err = conn.Recv(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				s.publish(3)
				m, err := conn.Recv(t.Context())
				require.NoError(t, err)
				require.Equal(t, uint64(3), m.Seq)
			})
		})
	}
}

// TestStalledReceiver: the time in which nobody receives, and so nothing is
// read, doesn't count against the peer.
func TestStalledReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, arrived := scripts(t)
		tr.Buffer = 1 // one message at a time
		c := dialScript(t, tr, "")
		s := <-arrived
		s.greet(typePub, 1)
		s.command()
		s.publish(0)
		s.publish(1) // read, but there is no room for it
		time.Sleep(time.Hour)
		for seq := range uint64(2) {
			m, err := c.Recv(t.Context())
			require.NoError(t, err)
			require.Equal(t, seq, m.Seq)
		}
		s.publish(2)
		m, err := c.Recv(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(2), m.Seq)
	})
}
