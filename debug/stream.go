package debug

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// writeTimeout bounds the writing of one frame or file: a browser that takes none for so
// long has gone.
const writeTimeout = 10 * time.Second

// look reads the state as it is now; of the past what has changed since, all if that is 0.
func (h *Handler) look(since uint64) *state {
	st := &state{
		At: h.now().UnixMilli(), EveryMS: h.opts.Interval.Milliseconds(), Full: true, Workers: []workerState{}, Decisions: []decisionState{},
		Rules: []ruleCount{}, Shadows: []shadowCount{}, Codes: []codeCount{}, History: []momentState{},
		Prefixes: prefixState{Columns: []columnState{}, Rows: []prefixRow{}},
	}
	if rec := h.opts.Recorder; rec != nil {
		st.Recorded = true
		rec.past(st, since)
	}
	h.present(st)
	return st
}

func (h *Handler) serveState(w http.ResponseWriter, r *http.Request) {
	if !h.hub.enter() {
		refuse(w, http.StatusServiceUnavailable, "The console was closed.")
		return
	}
	data, err := h.recent()
	h.hub.leave() // what is left takes as long as the client likes, and needs no Router
	if err != nil {
		refuse(w, http.StatusInternalServerError, "The state can't be written as JSON.")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	h.send(w, data)
}

// send writes all of an answer, to a client that may not read it.
func (h *Handler) send(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	out := http.NewResponseController(w)
	// A writer that knows no deadlines is none of net/http's: its own affair.
	_ = out.SetWriteDeadline(time.Now().Add(h.patience))
	if _, err := w.Write(data); err != nil {
		return // the client has gone
	}
	if out.Flush() == nil {
		_ = out.SetWriteDeadline(time.Time{}) // the connection may serve others
	}
}

// recent is the whole state as JSON, of now or of less than an interval ago: looking costs,
// and many may ask often. Those who ask meanwhile wait for the same look.
func (h *Handler) recent() ([]byte, error) {
	h.lookMu.Lock()
	defer h.lookMu.Unlock()
	if now := h.now(); h.last == nil || now.Sub(h.lastAt) >= h.opts.Interval || now.Before(h.lastAt) {
		data, err := json.Marshal(h.look(0))
		if err != nil {
			return nil, err // a number that is none, from somebody's predictor
		}
		data = append(data, '\n')
		h.last, h.lastAt = data, now
	}
	return h.last, nil
}

// frame is one look, for all who watch.
type frame struct {
	seq   uint64
	delta []byte
	// whole is made only for those who have missed a frame.
	whole func() []byte
}

// hub tells those who watch. It runs only while there are any.
type hub struct {
	h        *Handler
	mu       sync.Mutex
	closed   bool
	viewers  map[*viewer]struct{}
	running  bool
	stop     chan struct{} // closed by close
	wg       sync.WaitGroup
	seq      uint64
	recorded uint64
	version  string
}

// viewer is one stream. Its channel holds the latest frame only: who is slow misses those
// before it.
type viewer struct {
	frames chan *frame
	seen   uint64
}

func (b *hub) start(h *Handler) {
	b.h, b.stop, b.viewers = h, make(chan struct{}), map[*viewer]struct{}{}
}

// enter counts a request in that close has to wait for; false after close.
func (b *hub) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.wg.Add(1)
	return true
}

func (b *hub) leave() { b.wg.Done() }

func (b *hub) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stop)
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// join adds a viewer; nil if there are too many.
func (b *hub) join() *viewer {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.viewers) >= b.h.opts.MaxViewers {
		return nil
	}
	v := &viewer{frames: make(chan *frame, 1)}
	b.viewers[v] = struct{}{}
	if !b.running {
		b.running = true
		b.wg.Go(b.run)
	}
	return v
}

func (b *hub) part(v *viewer) {
	b.mu.Lock()
	delete(b.viewers, v)
	b.mu.Unlock()
}

// run looks at the Router again and again until nobody watches.
func (b *hub) run() {
	tick := time.NewTicker(b.h.opts.Interval)
	defer tick.Stop()
	for {
		f := b.next()
		b.mu.Lock()
		if len(b.viewers) == 0 || b.closed {
			b.running = false
			b.mu.Unlock()
			return
		}
		for v := range b.viewers {
			v.offer(f)
		}
		b.mu.Unlock()
		select {
		case <-tick.C:
		case <-b.stop:
		}
	}
}

// offer gives the viewer a frame, in place of one that it has not taken yet. Only run
// calls it.
func (v *viewer) offer(f *frame) {
	for {
		select {
		case v.frames <- f:
			return
		default:
		}
		select {
		case <-v.frames:
		default:
		}
	}
}

// next looks, and remembers what the look after it will be compared with.
func (b *hub) next() *frame {
	b.seq++
	st := b.h.look(b.recorded)
	st.Seq, st.Full = b.seq, false
	b.recorded = st.recorded
	if p := st.Policy; p != nil {
		if v := p.Kind + " " + p.Version; v != b.version || p.Policies != nil && p.Version == "" {
			b.version = v
		} else {
			st.Policy = nil
		}
	}
	f := &frame{seq: b.seq, delta: encode(st)}
	f.whole = sync.OnceValue(func() []byte {
		// Not recent: what is older than the frame would leave a hole before the next one.
		all := b.h.look(0)
		all.Seq = f.seq
		return encode(all)
	})
	return f
}

// encode makes an event of a state.
func encode(st *state) []byte {
	data, err := json.Marshal(st)
	if err != nil { // a number that is none, from somebody's predictor
		data = []byte(`{"problem":"the state can't be written as JSON"}`)
	}
	return append(append([]byte("event: state\ndata: "), data...), '\n', '\n')
}

func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !h.hub.enter() {
		refuse(w, http.StatusServiceUnavailable, "The console was closed.")
		return
	}
	defer h.hub.leave()
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	v := h.hub.join()
	if v == nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "As many browsers as may watch do so already; state.json is still there.")
		return
	}
	defer h.hub.part(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies that buffer would hold it back
	out := http.NewResponseController(w)
	defer out.SetWriteDeadline(time.Time{}) //nolint:errcheck // the connection may serve others, if it takes deadlines at all
	for {
		select {
		case <-h.hub.stop:
			return
		case <-r.Context().Done():
			return
		case f := <-v.frames:
			data := f.delta
			if v.seen+1 != f.seq || v.seen == 0 {
				data = f.whole()
			}
			v.seen = f.seq
			// A writer that knows no deadlines is none of net/http's: its own affair.
			_ = out.SetWriteDeadline(time.Now().Add(h.patience))
			if _, err := w.Write(data); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
	}
}
