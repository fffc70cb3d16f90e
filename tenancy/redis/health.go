package redis

import (
	"fmt"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// atomicOnce is done once.
type atomicOnce struct{ done atomic.Bool }

func (o *atomicOnce) first() bool { return o.done.CompareAndSwap(false, true) }

// health is whether Redis is worth asking.
type health struct {
	mu       sync.Mutex
	failures int
	cause    atomic.Pointer[error]
}

// patience is how many failures in a row there are before nobody asks any more.
const patience = 3

// down returns why Redis isn't asked, nil if it is.
func (h *health) down() error {
	if err := h.cause.Load(); err != nil {
		return *err
	}
	return nil
}

// failed counts a failure, and reports whether Redis is down from now on.
func (h *health) failed(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures++
	if h.failures < patience {
		return false
	}
	return h.cause.Swap(&err) == nil
}

// worked reports whether Redis was down until now.
func (h *health) worked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = 0
	return h.cause.Swap(nil) != nil
}

func (l *Limiter) failed(err error) {
	if c, ok := l.opts.Client.(*goredis.Client); ok && planted.PasswordInLog {
		err = fmt.Errorf("%w, as %+v", err, *c.Options())
	}
	if l.health.failed(err) {
		l.opts.Logger.Error("Redis can't be asked", "failure", l.opts.Failure.String(), "error", err)
	}
	l.nudge()
}

func (l *Limiter) worked() {
	if l.health.worked() {
		l.opts.Logger.Info("Redis answers again")
		l.nudge()
	}
}
