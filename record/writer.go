package record

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kvsteer/kvsteer"
)

const (
	// chunkBytes is from how many bytes on lines are written before there are more.
	chunkBytes = 64 << 10
	runBytes   = 8
)

// writer makes lines of items and writes them. All but status and abandon is for one
// goroutine.
type writer struct {
	opts *Options
	to   sink
	veil *veil
	run  string // the header's
	head []byte // the header's line

	chunk bytes.Buffer
	spans []span
	one   bytes.Buffer // the line that is made
	enc   *json.Encoder

	// headed: the file has its header. torn: its last line has no end.
	headed, torn bool
	// unsaid are the entries that failed and that no line speaks of yet.
	unsaid uint64

	abandoned atomic.Bool
	mu        sync.Mutex
	state     Status
}

// span is a line in the chunk.
type span struct {
	end int
	// what it is, and how many lost entries it speaks of.
	decisions, outcomes, speaks uint64
}

func newWriter(to sink, o *Options) *writer {
	w := &writer{opts: o, to: to, veil: newVeil(o)}
	w.enc = json.NewEncoder(&w.one)
	w.enc.SetEscapeHTML(false)
	run := make([]byte, runBytes)
	_, _ = rand.Read(run) // it never fails
	w.run = hex.EncodeToString(run)
	h := Header{
		Version: Version, Run: w.run, Created: o.Now().UTC(),
		HashedTenants: o.HashTenants, HashedLabels: o.HashLabels,
		Headers: o.Headers,
	}
	if o.Sample > 1 {
		h.Sample = o.Sample
	}
	_ = w.encode(&line{Header: &h}) // it can be encoded
	w.head = bytes.Clone(w.one.Bytes())
	return w
}

// run is the goroutine.
func (r *Recorder) run() {
	defer close(r.done)
	w := r.out
	for {
		items, asks, closed, tail := r.queue.take()
		waiting := 0
		for i := range items {
			if w.abandoned.Load() {
				w.giveUp(uint64(len(items) - i))
				break
			}
			w.add(&items[i])
			if waiting++; w.chunk.Len() >= chunkBytes {
				w.write()
				r.queue.wrote(waiting)
				waiting = 0
			}
		}
		clear(items) // what is written need not be kept until there is more
		if tail > 0 {
			w.addLost(tail, LostBuffer)
		}
		if !w.abandoned.Load() && (w.chunk.Len() > 0 || closed && w.unsaid > 0) {
			w.write()
		}
		r.queue.wrote(waiting)
		for _, a := range asks {
			a.done <- w.answer(a)
		}
		if len(items) > 0 || len(asks) > 0 {
			continue
		}
		if closed {
			break
		}
		<-r.queue.wake
	}
	if err := w.to.Close(); err != nil {
		w.trouble(err)
	}
}

// answer does what was asked for.
func (w *writer) answer(a ask) error {
	if a.reopen {
		if err := w.to.reopen(); err != nil {
			w.trouble(err)
			return fmt.Errorf("record: %w", err)
		}
		// The header of the new file, which shows that it can be written; where there was
		// nothing to write before, there need not be one yet.
		if (w.headed || w.status().Failing) && !w.write() {
			return w.status().LastError
		}
	}
	if s := w.status(); s.Failing {
		return fmt.Errorf("record: %w", s.LastError)
	}
	return nil
}

// add puts an item's line into the chunk.
func (w *writer) add(it *item) {
	if it.lost > 0 {
		w.addLost(it.lost, LostBuffer)
	}
	at := it.at.UTC()
	l, s := line{Run: w.run, At: &at}, span{decisions: 1}
	if it.decision != nil {
		d := w.veil.over(it.decision)
		l.Decision, l.Rejected, l.Headers = &decision{Decision: d}, it.rejected, w.headers(d)
		if len(d.Features) == len(d.Candidates) {
			l.Decision.Features = make([]features, len(d.Features))
			for i := range d.Features {
				l.Decision.Features[i] = featuresOf(&d.Features[i], &d.Candidates[i].Candidate)
			}
		}
	} else {
		l.Outcome, s = &it.outcome, span{outcomes: 1}
	}
	if err := w.addLine(&l, s); err != nil {
		w.mu.Lock()
		w.state.Failed++
		w.mu.Unlock()
		w.trouble(err)
		w.addLost(1, LostEncode)
	}
}

// headers are those of the request that are to be recorded; other hooks may have asked
// for more.
func (w *writer) headers(d *kvsteer.Decision) map[string][]string {
	var out map[string][]string
	for _, name := range w.opts.Headers {
		if values := d.Request.Header[name]; len(values) > 0 {
			if out == nil {
				out = map[string][]string{}
			}
			out[name] = values
		}
	}
	return out
}

func (w *writer) addLost(n uint64, why string) {
	now := w.opts.Now().UTC()
	_ = w.addLine(&line{Run: w.run, At: &now, Lost: &Lost{Entries: n, Reason: why}}, span{speaks: n}) // it can be encoded and is short
}

// encode makes the line in w.one.
func (w *writer) encode(l *line) error {
	w.one.Reset()
	return w.enc.Encode(l) //nolint:musttag // the fields without tags are hidden by decision's own
}

// errLine is for a decision that would not be read again.
var errLine = errors.New("record: a decision is too long for a line")

func (w *writer) addLine(l *line, s span) error {
	if err := w.encode(l); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if w.one.Len() > MaxLine || tooMany(w.one.Bytes()) {
		return errLine
	}
	_, _ = w.chunk.Write(w.one.Bytes()) // it never fails
	s.end = w.chunk.Len()
	w.spans = append(w.spans, s)
	return nil
}

// write writes the chunk, with what has to come before it, and reports whether that
// went well.
func (w *writer) write() bool {
	fresh, torn, err := w.to.turn(w.chunk.Len() + len(w.head))
	if err != nil {
		w.trouble(err) // and yet it may be possible to go on
	}
	if fresh {
		w.headed, w.torn = false, torn
	}
	before := w.before()
	out := w.chunk.Bytes()
	if len(before) > 0 {
		out = slices.Concat(before, out)
	}
	n := 0
	if len(out) > 0 {
		n, err = w.to.Write(out)
		n = min(max(n, 0), len(out))
		if err == nil && n < len(out) {
			err = errors.New("record: the writer took a part of what it was given and gave no error")
		}
		if n > 0 {
			w.torn = out[n-1] != '\n'
			w.headed = w.headed || n >= len(before)-1 // the end of the line comes with the next
		}
	} else {
		err = nil
	}
	w.count(n, n-len(before), err)
	w.chunk.Reset()
	w.spans = w.spans[:0]
	return err == nil
}

// before is what goes before the chunk.
func (w *writer) before() []byte {
	var b []byte
	if w.torn {
		b = append(b, '\n')
	}
	if !w.headed {
		b = append(b, w.head...)
	}
	if w.unsaid > 0 {
		now, n := w.opts.Now().UTC(), w.unsaid
		_ = w.encode(&line{Run: w.run, At: &now, Lost: &Lost{Entries: n, Reason: LostWrite}}) // it can be encoded
		b = append(b, w.one.Bytes()...)
	}
	return b
}

// count takes note of what was written: so many bytes in all, of the chunk so many. Of
// a line whose end alone is missing all is there: what comes next begins a new one.
func (w *writer) count(all, ofChunk int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Bytes += uint64(all)
	if ofChunk >= -1 {
		w.unsaid = 0
	}
	for _, s := range w.spans {
		if s.end <= ofChunk+1 {
			w.state.Decisions += s.decisions
			w.state.Outcomes += s.outcomes
			continue
		}
		w.state.Failed += s.decisions + s.outcomes
		w.unsaid += s.decisions + s.outcomes + s.speaks
	}
	if err != nil {
		w.troubleLocked(err)
		return
	}
	if w.state.Failing && all > 0 {
		w.state.Failing = false
		if l := w.opts.Logger; l != nil {
			l.Info("record: the decision log is written again", slog.Uint64("entries_lost", w.state.Failed))
		}
	}
}

func (w *writer) trouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubleLocked(err)
}

func (w *writer) troubleLocked(err error) {
	w.state.Errors++
	w.state.LastError, w.state.LastErrorAt = err, w.opts.Now()
	if !w.state.Failing {
		w.state.Failing = true
		if l := w.opts.Logger; l != nil {
			l.Warn("record: the decision log can't be written; requests go on", slog.Any("error", err))
		}
	}
}

// giveUp counts what will not be written any more.
func (w *writer) giveUp(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spans {
		n += s.decisions + s.outcomes
	}
	w.state.Failed += n
}

// abandon makes the writer stop after the Write that it is in.
func (w *writer) abandon() { w.abandoned.Store(true) }

func (w *writer) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}
