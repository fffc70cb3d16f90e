package fleettest

import (
	"context"
	"net/http"
)

// streamer sends an answer as it is generated.
type streamer struct {
	*generation
	ctx    context.Context //nolint:containedctx // it lives as long as one request
	format format
	w      http.ResponseWriter
	flush  func() error
	buf    []byte
	sent   []int // tokens a choice
	total  int
	done   int // choices that are complete
}

// stream sends tokens as they appear. It reports whether all went out.
func (g *generation) stream(ctx context.Context, w http.ResponseWriter, f format, rec *Request) bool {
	s := streamer{
		generation: g, ctx: ctx, format: f, w: w, sent: make([]int, len(g.jobs)),
		flush: http.NewResponseController(w).Flush,
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	// Engines send the headers before the first token.
	if !s.send() {
		return false
	}
	s.hangOrDie(HangBeforeFirstToken)
	for s.done < len(g.jobs) {
		if !g.await(ctx, s.sent) {
			return false
		}
		for choice := range g.jobs {
			s.ready(choice, rec)
		}
		if s.done < len(g.jobs) && !s.send() {
			return false
		}
	}
	s.buf = f.last(s.buf, g)
	return s.send()
}

// send writes what has been gathered and flushes it.
func (s *streamer) send() bool {
	if len(s.buf) > 0 {
		if _, err := s.w.Write(s.buf); err != nil {
			return false
		}
		s.buf = s.buf[:0]
	}
	return s.flush() == nil
}

// ready gathers the tokens of a choice that have not been sent.
func (s *streamer) ready(choice int, rec *Request) {
	j := s.jobs[choice]
	for ready := int(j.ready.Load()); s.sent[choice] < ready; s.sent[choice]++ {
		i := s.sent[choice]
		if i == 0 {
			s.scheduled(rec)
			s.buf = s.format.first(s.buf, s.generation, choice)
		}
		finish := ""
		if i == len(j.pieces)-1 {
			finish = s.finish
			s.done++
		}
		s.buf = s.format.token(s.buf, s.generation, choice, i, finish)
		s.total++
		if s.total == 1 || s.total == s.dieAt {
			s.send() // if the client has gone, the next write says so again
			s.hangOrDie(HangMidStream)
		}
	}
}

// hangOrDie carries out what faults have in store after the tokens sent so far.
func (s *streamer) hangOrDie(at HangPoint) {
	if s.total == s.dieAt || s.life.engine.faults.waitHang(s.ctx, at) != nil {
		panic(http.ErrAbortHandler)
	}
}
