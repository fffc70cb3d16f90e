package fleettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Engine is a running fake engine. Its methods are safe for concurrent use.
type Engine struct {
	cfg    Config
	faults *Faults
	rec    *recorder

	mu     sync.Mutex
	life   *life // nil while dead
	lives  int
	addr   string
	closed bool
}

// Start starts an engine. Close stops it.
func Start(cfg Config) (*Engine, error) {
	cfg, err := complete(cfg)
	if err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, faults: newFaults(cfg.Seed), rec: &recorder{max: cfg.Record}}
	if err := e.Revive(); err != nil {
		return nil, err
	}
	return e, nil
}

// New starts an engine that is closed when the test ends, and fails the test if
// it can't be started.
func New(t testing.TB, cfg Config) *Engine {
	t.Helper()
	e, err := Start(cfg)
	if err != nil {
		t.Fatalf("start a fake engine: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close a fake engine: %v", err)
		}
	})
	return e
}

// URL returns the base address, without a trailing slash.
func (e *Engine) URL() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return "http://" + e.addr
}

// Name returns the engine's name.
func (e *Engine) Name() string { return e.cfg.Name }

// Faults returns the engine's faults. They stay in force over restarts.
func (e *Engine) Faults() *Faults { return e.faults }

// Worker describes the engine as a Discoverer would. Models and block size are
// left to be probed.
func (e *Engine) Worker() fleet.Worker {
	w := fleet.Worker{
		Name: e.cfg.Name, URL: e.URL(), Engine: fleet.EngineVLLM,
		DataParallel: e.cfg.Ranks, Speculative: e.cfg.Speculative, Role: e.cfg.Role,
	}
	switch e.cfg.Dialect {
	case SGLang:
		w.Engine = fleet.EngineSGLang
	case TensorRTLLM:
		w.Engine = fleet.EngineTRTLLM
		w.BlockSize = e.cfg.BlockSize // nothing reports it
	default:
	}
	w.Events = e.Endpoints()
	w.Epoch = strconv.Itoa(e.Lives())
	return w
}

// Lives returns how often the engine was started, the first time included.
func (e *Engine) Lives() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lives
}

// Endpoints returns where the ranks' events are published; none while the engine
// is dead or if it publishes none.
func (e *Engine) Endpoints() []follow.Endpoint {
	var list []follow.Endpoint
	if l := e.current(); l != nil {
		for _, p := range l.publishers {
			if p.Publisher != nil {
				list = append(list, p.endpoint)
			}
		}
	}
	return list
}

// Publisher returns a rank's publisher, for faults of its own; nil while the
// engine is dead or if it publishes nothing.
func (e *Engine) Publisher(rank int) Publisher {
	l := e.current()
	if l == nil || rank < 0 || rank >= len(l.publishers) {
		return nil
	}
	return l.publishers[rank].Publisher
}

// current returns the life that is being lived, nil if none is.
func (e *Engine) current() *life {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life
}

// Kill ends the engine as a crash does: connections are cut, nobody listens any
// more, the cache and undelivered events are gone. It does nothing to an engine
// that is dead.
func (e *Engine) Kill() error {
	e.mu.Lock()
	l := e.life
	e.life = nil
	e.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.end(false)
}

// Revive starts a dead engine: an empty cache, events numbered from 0, the same
// address. It does nothing to an engine that is alive.
func (e *Engine) Revive() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	if e.life != nil {
		return nil
	}
	ln, err := e.listenLocked()
	if err != nil {
		return err
	}
	l, err := startLife(e, nil, e.lives)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	e.lives++
	e.life = l
	l.serve(ln)
	return nil
}

// Restart is Kill and Revive.
func (e *Engine) Restart() error {
	if err := e.Kill(); err != nil {
		return err
	}
	return e.Revive()
}

// RestartUnseen restarts the engine without closing its publishers, as it looks
// through ZeroMQ, whose sockets reconnect by themselves: subscribers only see
// numbering begin at 0 again. Publishers without that ability are reopened.
func (e *Engine) RestartUnseen() error {
	e.mu.Lock()
	l := e.life
	e.life = nil
	e.mu.Unlock()
	if l == nil {
		return e.Revive()
	}
	if err := l.end(true); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	ln, err := e.listenLocked()
	if err != nil {
		return err
	}
	next, err := startLife(e, l.publishers, e.lives)
	if err != nil {
		err = errors.Join(err, ln.Close())
		for _, p := range l.publishers { // those that were left open for the next life
			err = errors.Join(err, p.close())
		}
		return err
	}
	e.lives++
	e.life = next
	next.serve(ln)
	return nil
}

// Refuse makes the engine refuse new connections while on; those that are open
// go on.
func (e *Engine) Refuse(on bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == nil {
		return nil
	}
	if on {
		return e.life.stopListening()
	}
	if e.life.listening() {
		return nil
	}
	ln, err := e.listenLocked()
	if err != nil {
		return err
	}
	e.life.serve(ln)
	return nil
}

// Close stops the engine and waits for its goroutines. It is idempotent.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	return e.Kill()
}

// listenLocked returns the listener of a life: the one given, or one on the
// address of the life before.
func (e *Engine) listenLocked() (net.Listener, error) {
	if e.cfg.Network != nil {
		e.addr = e.cfg.Name
		return e.cfg.Network.listen(e.cfg.Name)
	}
	if ln := e.cfg.Listener; ln != nil && e.addr == "" {
		e.addr = ln.Addr().String()
		return ln, nil
	}
	addr := e.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("fleettest: listen: %w", err)
	}
	e.addr = ln.Addr().String()
	return ln, nil
}

// models returns the names of what is served, the base model first.
func (c *Config) models() []string {
	names := []string{c.Model}
	for _, a := range c.Adapters {
		names = append(names, a.Name)
	}
	return names
}

// adapter returns which adapter a model name selects, counted from 1, 0 for the
// base model, -1 for neither.
func (c *Config) adapter(model string) int {
	for i, name := range c.models() {
		if name == model {
			return i
		}
	}
	return -1
}

// notServed words the refusal of a model.
func (c *Config) notServed(model string) string {
	return "The model `" + clip(model) + "` does not exist. Valid aliases: " + strings.Join(c.models(), ", ") + "."
}

// clip shortens a name that a client made up.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}
