//go:build cgo

package zmq

import (
	"fmt"
	"sync"

	"github.com/pebbe/zmq4"
)

// maxSockets is per context. libzmq's default of 1,023 would end at some 200
// connections, each of which needs five (with its monitor and its wake-up).
const maxSockets = 16384

// supported reports that the package works.
func supported() error { return nil }

// sharedContext is a libzmq context that exists while somebody uses it, so that
// a Transport needs no Close and leaves no thread behind.
type sharedContext struct {
	mu     sync.Mutex
	ctx    *zmq4.Context
	users  int
	serial uint64
}

// acquire returns the context and a name that is unique within it. The caller
// releases it after closing its sockets.
func (s *sharedContext) acquire() (*zmq4.Context, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		ctx, err := newContext()
		if err != nil {
			return nil, "", err
		}
		s.ctx = ctx
	}
	s.users++
	s.serial++
	return s.ctx, fmt.Sprintf("inproc://kvsteer-%d", s.serial), nil
}

func (s *sharedContext) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		_ = s.ctx.Term() // waits for libzmq's threads
		s.ctx = nil
	}
}

func newContext() (*zmq4.Context, error) {
	ctx, err := zmq4.NewContext()
	if err != nil {
		return nil, fmt.Errorf("zmq: new context: %w", err)
	}
	if err := ctx.SetMaxSockets(maxSockets); err != nil {
		_ = ctx.Term()
		return nil, fmt.Errorf("zmq: new context: %w", err)
	}
	return ctx, nil
}
