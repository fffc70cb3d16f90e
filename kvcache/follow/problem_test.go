package follow_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// warnings makes the world's Follower log warnings, and returns those so far.
func (w *world) warnings(level slog.Level) func() []string {
	var out bytes.Buffer
	w.cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})).With("worker", "w0")
	return func() []string {
		synctest.Wait()
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
}

func TestProblemOfTheEvents(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		logged := w.warnings(slog.LevelWarn)
		g := w.gate()
		g.shut(errRefused)
		w.start()
		const refused = "event stream not connected (inproc://engine): connection refused"
		assert.Equal(t, refused, w.f.Problem(), "at once, not after a timeout")
		w.pass(time.Hour)
		assert.Equal(t, refused, w.f.Problem())
		first := `level=WARN msg="event stream not connected" worker=w0 rank=0 address=inproc://engine ` +
			`error="connection refused" endpoint=inproc://engine`
		assert.Equal(t, []string{first}, logged(), "once, however often it is tried")

		g.shut(errors.New("no such host"))
		g.shut(errRefused)
		g.shut(errors.New("handshake failed: EOF"))
		w.pass(time.Second)
		assert.Equal(t, "event stream not connected (inproc://engine): handshake failed: EOF", w.f.Problem())
		require.Len(t, logged(), 2, "each distinct error that lasts")

		g.open()
		synctest.Wait()
		assert.Empty(t, w.f.Problem())
		w.expectExact()

		// The same again is worth another warning, but not every second.
		for range 3 {
			g.shut(errRefused)
			w.pipe.Disconnect()
			w.pass(time.Second)
			assert.Equal(t, refused, w.f.Problem())
			g.open()
			w.pass(time.Second)
			assert.Empty(t, w.f.Problem())
		}
		assert.Len(t, logged(), 3)
		require.NoError(t, w.f.Close())
		assert.Empty(t, w.f.Problem())
	})
}

func TestProblemOfTheReplay(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		logged := w.warnings(slog.LevelWarn)
		w.pipe.Mute(true)
		w.start()
		w.pass(2 * follow.DefaultReplayTimeout)
		assert.Equal(t, "replay unanswered (inproc://engine): no answer within 5s", w.f.Problem())
		w.pass(time.Hour)
		require.Len(t, logged(), 1)
		assert.Contains(t, logged()[0], `msg="replay unanswered" worker=w0 rank=0`)
		w.pipe.Mute(false)
		w.pass(time.Minute)
		assert.Empty(t, w.f.Problem())

		// One check that an engine is too busy to answer is no problem yet.
		w.pipe.Mute(true)
		for before := w.f.Stats().Unanswered; w.f.Stats().Unanswered == before; {
			w.pass(time.Second)
		}
		w.pipe.Mute(false)
		assert.Empty(t, w.f.Problem())
		w.pass(time.Minute)
		require.Len(t, logged(), 1)
		w.expectExact()
	})
	inWorld(t, func(w *world) {
		w.cfg.Endpoint.Replay = "inproc://nobody"
		w.start()
		w.publish("S1")
		w.pass(time.Minute)
		assert.Equal(t, "replay unanswered (inproc://nobody): connection lost", w.f.Problem())
	})
	inWorld(t, func(w *world) { // buffer_steps 0
		w.open(follow.PipeOptions{ReplayBatches: -1})
		w.start()
		w.publish("S1")
		w.pass(time.Minute)
		assert.Contains(t, w.f.Problem(), "buffer_steps")
	})
}

// A transport whose errors all differ does not fill the log.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		logged := w.warnings(slog.LevelWarn)
		g := w.gate()
		g.shut(errRefused)
		w.start()
		for i := range 1000 {
			g.shut(fmt.Errorf("from port %d", i))
			synctest.Wait()
		}
		assert.Contains(t, w.f.Problem(), "from port 999")
		assert.LessOrEqual(t, len(logged()), 16)
	})
}

// Lines of changes of trust say whose it is, and no reason where there is none.
func TestTrustLines(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		logged := w.warnings(slog.LevelInfo)
		w.start()
		w.publish("S1")
		w.pipe.Disconnect()
		assert.Equal(t, []string{
			`level=INFO msg="trust changed" worker=w0 rank=0 from=blind to=exact endpoint=inproc://engine`,
			`level=INFO msg="trust changed" worker=w0 rank=0 from=exact to=resyncing reason=disconnected endpoint=inproc://engine`,
		}, logged())
	})
}
