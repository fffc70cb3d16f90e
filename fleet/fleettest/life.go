package fleettest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
)

// readHeaderTimeout ends connections that send no request.
const readHeaderTimeout = time.Minute

// life is an engine between start and death: ranks, publishers, connections. It
// owns every goroutine; end waits for them.
type life struct {
	engine     *Engine
	ranks      []*rank
	publishers []opened
	server     *http.Server
	started    time.Time
	ctx        context.Context //nolint:containedctx // bounds the life, not a call
	cancel     context.CancelFunc
	wg         sync.WaitGroup

	mu       sync.Mutex
	over     bool
	asleep   bool
	ln       net.Listener
	next     int    // rank that takes the next request when all are equal
	requests uint64 // for request ids
	frozen   []byte // metrics repeated by FreezeMetrics
	success  map[string]int
	// firstToken is the time from a request's arrival to its first token.
	firstToken histogram
}

// startLife makes the ranks and starts their goroutines. Publishers of the life
// before are used again where they can restart.
func startLife(e *Engine, old []opened, number int) (*life, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{engine: e, ctx: ctx, cancel: cancel, started: time.Now(), success: make(map[string]int)}
	l.firstToken.bounds = firstTokenBounds()
	l.firstToken.counts = make([]int, len(l.firstToken.bounds)+1)
	l.server = &http.Server{
		Handler:           l.handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		// net/http would print that handlers were aborted, which is what faults do.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	for id := range e.cfg.Ranks {
		if err := l.addRank(id, old, number); err != nil {
			return nil, errors.Join(err, l.end(false))
		}
	}
	return l, nil
}

func (l *life) addRank(id int, old []opened, number int) error {
	cfg := &l.engine.cfg
	model, err := sim.New(cfg.model())
	if err != nil {
		return errors.Join(ErrConfig, err)
	}
	r := &rank{
		id: id, speed: cfg.Speed, faults: l.engine.faults, sim: model,
		seed:    blockSeed(cfg, id, number),
		encoder: encoder{format: cfg.Events, bytes: cfg.BytesHashes, rank: id},
		wake:    make(chan struct{}, 1),
		eager:   cfg.Dialect != VLLM,
	}
	var p opened
	if id < len(old) {
		if again, ok := old[id].Publisher.(interface{ RestartUnseen() }); ok {
			again.RestartUnseen()
			p = old[id]
		}
	}
	if cfg.Dialect == TensorRTLLM {
		r.trtllm = newTRTLLMEncoder(cfg, id)
		if p.Publisher == nil {
			p = cfg.openBuffer(id, "http://"+l.engine.addr)
		}
	}
	if p.Publisher == nil {
		if p, err = cfg.openPublisher(id); err != nil {
			return err
		}
	}
	l.publishers = append(l.publishers, p)
	l.ranks = append(l.ranks, r)
	if p.Publisher != nil {
		r.outbox = newOutbox(l.engine.faults, p.Publisher)
		l.wg.Go(func() { r.outbox.run(l.ctx) })
	}
	l.wg.Go(func() { r.run(l.ctx) })
	return nil
}

// id names the life, as an engine's id does: another one after each start.
func (l *life) id() string { return l.engine.cfg.Name + "-" + strconv.FormatUint(l.ranks[0].seed, 16) }

// serve accepts connections from ln, which the life closes.
func (l *life) serve(ln net.Listener) {
	l.mu.Lock()
	l.ln = ln
	l.mu.Unlock()
	l.wg.Go(func() {
		// Serve always ends with an error: the listener or the server was closed.
		_ = l.server.Serve(ln)
	})
}

func (l *life) listening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ln != nil
}

// stopListening refuses connections until serve is called again.
func (l *life) stopListening() error {
	l.mu.Lock()
	ln := l.ln
	l.ln = nil
	l.mu.Unlock()
	if ln == nil {
		return nil
	}
	if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err //nolint:wrapcheck // says which listener
	}
	return nil
}

// enter registers a handler; it fails once the life is over.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.wg.Add(1)
	return true
}

// end stops everything and waits. keep leaves publishers open that can restart.
func (l *life) end(keep bool) error {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.cancel()
	err := l.server.Close() // the listener too
	if errors.Is(err, net.ErrClosed) {
		err = nil // it was closed by Refuse
	}
	l.wg.Wait()
	for _, p := range l.publishers {
		if _, again := p.Publisher.(interface{ RestartUnseen() }); again && keep {
			continue
		}
		err = errors.Join(err, p.close())
	}
	return err
}

// pick returns the rank that serves a request: the one asked for, or the least
// loaded, in turn among equals.
func (l *life) pick(asked int) *rank {
	if asked >= 0 {
		return l.ranks[asked]
	}
	l.mu.Lock()
	first := l.next
	l.next = (l.next + 1) % len(l.ranks)
	l.mu.Unlock()
	best := l.ranks[first]
	load := best.load()
	for i := 1; i < len(l.ranks); i++ {
		r := l.ranks[(first+i)%len(l.ranks)]
		if n := r.load(); n < load {
			best, load = r, n
		}
	}
	return best
}
