//go:build cgo

package zmq_test

import (
	"context"
	"encoding/binary"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmq"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

const (
	churnCycles  = 100
	churnWarm    = 20
	churnPayload = 1 << 10
	churnHistory = 2000 // messages that can be replayed
	// follows is how many live messages a cycle follows after its replay.
	follows = 5
	// churnGrowth is what the resident memory may grow by, in bytes, over all
	// cycles: less than what one unreleased context or a few hundred messages
	// a cycle would come to.
	churnGrowth = 24 << 20
)

// TestChurn: a subscriber connects to a libzmq publisher that never pauses and
// leaves again, a hundred times. Each time delivery resumes, and a replay brings
// what was missed between, so that in the end nothing is missing; and neither
// memory nor threads grow.
func TestChurn(t *testing.T) {
	for name, transport := range map[string]follow.Transport{
		"libzmq":  &zmq.Transport{},
		"pure Go": &zmtp.Transport{},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := zmq.NewPublisher(zmq.PublisherConfig{
				Replay: "tcp://127.0.0.1:0", ReplayTopic: true, History: churnHistory, HWM: churnHistory,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			var seen atomic.Uint64
			stop := publishSteadily(t, p, &seen)
			defer stop()

			// next is the number that has not been seen yet.
			next := uint64(0)
			cycle := func() {
				next = churn(t, transport, p.Endpoint(), next)
				seen.Store(next)
			}
			for range churnWarm {
				cycle()
			}
			memory, threads := process(t)
			missed := 0
			for range churnCycles {
				before := next
				cycle()
				if next > before+follows {
					missed++
				}
			}
			require.Greater(t, missed, churnCycles/2, "else there was nothing to replay")
			memoryAfter, threadsAfter := process(t)
			t.Logf("%d messages without a hole; resident %d -> %d KiB, threads %d -> %d",
				next, memory>>10, memoryAfter>>10, threads, threadsAfter)
			require.Less(t, memoryAfter, memory+churnGrowth)
			require.Less(t, threadsAfter, threads+10, "the runtime's own threads come and go, a leak would be 100")
		})
	}
}

// churn connects, follows for a while, and disconnects. It returns the next
// number to expect.
func churn(t *testing.T, transport follow.Transport, ep follow.Endpoint, next uint64) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := transport.Dial(ctx, ep)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()

	first, err := c.Recv(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, first.Seq, next)
	require.NoError(t, c.Replay(ctx, next, func(m follow.Message) error {
		require.Equal(t, next, m.Seq)
		checkPayload(t, m)
		next++
		return nil
	}))
	require.Greater(t, next, first.Seq, "the replay covers what was missed")

	m := first
	for range follows {
		// What is both live and replayed is skipped.
		for m.Seq < next {
			m, err = c.Recv(ctx)
			require.NoError(t, err)
		}
		require.Equal(t, next, m.Seq)
		checkPayload(t, m)
		next++
	}
	return next
}

func checkPayload(t *testing.T, m follow.Message) {
	t.Helper()
	require.Equal(t, "kv", m.Topic)
	require.Len(t, m.Payload, churnPayload)
	require.Equal(t, m.Seq, binary.BigEndian.Uint64(m.Payload))
}

// publishSteadily publishes about a thousand messages a second until stopped, and
// fewer while a slow machine keeps the subscriber from what will soon leave the
// history.
func publishSteadily(t *testing.T, p *zmq.Publisher, seen *atomic.Uint64) (stop func()) {
	t.Helper()
	done, quit := make(chan error, 1), make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		payload := make([]byte, churnPayload)
		for seq := uint64(0); ; seq++ {
			ticks := 1
			if seq > seen.Load()+churnHistory/2 {
				ticks = 50
			}
			for range ticks {
				select {
				case <-quit:
					done <- nil
					return
				case <-tick.C:
				}
			}
			binary.BigEndian.PutUint64(payload, seq)
			if _, err := p.Publish("kv", payload); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() {
		close(quit)
		require.NoError(t, <-done)
	}
}

// process returns this process's resident memory in bytes and its number of
// threads, zeros where the system has no such file.
func process(t *testing.T) (memory, threads int) {
	t.Helper()
	debug.FreeOSMemory() // garbage is no growth
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		number, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch {
		case err != nil:
		case name == "VmRSS":
			memory = number << 10
		case name == "Threads":
			threads = number
		default:
		}
	}
	return memory, threads
}
