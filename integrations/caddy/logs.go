package kvsteercaddy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// sink is where a room logs. A room outlives the configuration that opened it, and with
// that the logger it was given: so it logs to the latest one that is there.
type sink struct {
	now atomic.Pointer[slog.Handler]

	mu   sync.Mutex
	here []*slog.Handler
}

func newSink(first slog.Handler) *sink {
	s := &sink{}
	s.now.Store(&first)
	return s
}

// push makes h the latest until pop. The last one stays: what is closed after it may
// have something to say.
func (s *sink) push(h slog.Handler) (pop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here = append(s.here, &h)
	s.now.Store(&h)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.here = slices.DeleteFunc(s.here, func(o *slog.Handler) bool { return o == &h })
		if n := len(s.here); n > 0 {
			s.now.Store(s.here[n-1])
		}
	}
}

func (s *sink) logger() *slog.Logger { return slog.New(&sinkHandler{sink: s}) }

// sinkHandler is a slog.Handler over whatever its sink has at the time.
type sinkHandler struct {
	sink *sink
	with []func(slog.Handler) slog.Handler
}

// Enabled implements slog.Handler.
func (h *sinkHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (*h.sink.now.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *sinkHandler) Handle(ctx context.Context, r slog.Record) error {
	to := *h.sink.now.Load()
	for _, with := range h.with {
		to = with(to)
	}
	return to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *sinkHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *sinkHandler) WithGroup(name string) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *sinkHandler) and(with func(slog.Handler) slog.Handler) *sinkHandler {
	return &sinkHandler{sink: h.sink, with: append(slices.Clip(h.with), with)}
}
