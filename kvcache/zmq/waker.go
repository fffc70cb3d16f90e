//go:build cgo

package zmq

import (
	"context"

	"github.com/pebbe/zmq4"
)

// waker turns the end of a context into something that a poll can wait for: a
// pair of inproc sockets. The receiving one belongs to the polling goroutine;
// the sending one is used once, by the context's AfterFunc, or never.
type waker struct {
	wait, poke *zmq4.Socket
	stop       func() bool
	done       chan struct{} // closed when the AfterFunc has finished
}

func newWaker(ctx context.Context, zctx *zmq4.Context, name string) (*waker, error) {
	w := &waker{done: make(chan struct{})}
	var err error
	if w.wait, err = newSocket(zctx, zmq4.PAIR); err != nil {
		return nil, err
	}
	if w.poke, err = newSocket(zctx, zmq4.PAIR); err == nil {
		if err = w.wait.Bind(name); err == nil {
			err = w.poke.Connect(name)
		}
	}
	if err != nil {
		w.closeSockets()
		return nil, err
	}
	w.stop = context.AfterFunc(ctx, func() {
		defer close(w.done)
		// It can't be full: this is the only message ever sent.
		_, _ = w.poke.SendBytes(nil, zmq4.DONTWAIT)
	})
	return w, nil
}

// close waits for the AfterFunc if it runs; libzmq's sockets take one thread at
// a time.
func (w *waker) close() {
	if !w.stop() {
		<-w.done
	}
	w.closeSockets()
}

func (w *waker) closeSockets() {
	for _, s := range []*zmq4.Socket{w.wait, w.poke} {
		if s != nil {
			_ = s.Close()
		}
	}
}

// newSocket makes a socket that drops what it could not send when it is closed,
// so that closing never waits for a peer.
func newSocket(zctx *zmq4.Context, kind zmq4.Type) (*zmq4.Socket, error) {
	s, err := zctx.NewSocket(kind)
	if err != nil {
		return nil, err
	}
	if err := s.SetLinger(0); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}
