package prompt

import (
	"sync"
	"time"
)

// endpoint is one way to ask an engine; each may exist without the others.
type endpoint uint8

const (
	renderChat endpoint = iota
	renderCompletions
	renderMessages
	renderResponses
	tokenizeChat
	tokenizeText
	numEndpoints
)

// outcome is how a call went, as far as the engine's health goes.
type outcome uint8

const (
	outcomeOK      outcome = iota
	outcomeAbsent          // there is no such endpoint
	outcomeRefused         // it does not take this request
	outcomeFailed          // deadline, connection, 5xx, nonsense
	outcomeNeutral         // we gave up; it says nothing about the engine
)

const (
	// failuresToPause: one timeout is a busy moment, three in a row are a state.
	failuresToPause = 3
	firstPause      = time.Second
	maxPause        = 30 * time.Second
	maxDoublings    = 5
	// refusalsToForget: an endpoint that refuses that many requests in a row
	// doesn't know the form (SGLang's /tokenize takes no messages).
	refusalsToForget = 8
	// absentFor is how long a missing endpoint isn't asked again. An engine that
	// is restarted with the endpoint has another ID, or waits this long.
	absentFor = 5 * time.Minute
	// maxEngines bounds what is remembered; the longest unused engine goes first.
	maxEngines = 1024
)

// health remembers what each engine can do and how it fares. Safe for concurrent
// use.
type health struct {
	now      func() time.Time
	maxCalls int

	mu      sync.Mutex
	engines map[string]*engineHealth
}

type engineHealth struct {
	used     time.Time
	calls    int // in flight
	failures int // in a row
	paused   time.Time
	probing  bool // one call is finding out whether the pause may end

	absent   [numEndpoints]time.Time // until
	refusals [numEndpoints]int       // in a row
}

func newHealth(now func() time.Time, maxCalls int) *health {
	return &health{now: now, maxCalls: maxCalls, engines: map[string]*engineHealth{}}
}

// id is what an engine is remembered under.
func (e *Engine) id() string {
	if e.ID != "" {
		return e.ID
	}
	return e.BaseURL
}

// check says why an endpoint should not be called now, nil if it may be. With
// numEndpoints it is about the engine as a whole.
func (h *health) check(e *Engine, at endpoint) error {
	if e.BaseURL == "" {
		return errNoEngine
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.engines[e.id()]
	if !ok {
		return nil
	}
	return h.reason(s, at, h.now())
}

func (h *health) reason(s *engineHealth, at endpoint, now time.Time) error {
	switch {
	case at < numEndpoints && now.Before(s.absent[at]):
		return errAbsent
	case now.Before(s.paused), s.failures >= failuresToPause && s.probing:
		return errPaused
	case s.calls >= h.maxCalls:
		return errBusy
	default:
		return nil
	}
}

// begin admits a call, which must be ended, or says why not.
func (h *health) begin(e *Engine, at endpoint) error {
	if e.BaseURL == "" {
		return errNoEngine
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	s, ok := h.engines[e.id()]
	if !ok {
		h.makeRoom()
		s = &engineHealth{}
		h.engines[e.id()] = s
	}
	s.used = now
	if err := h.reason(s, at, now); err != nil {
		return err
	}
	s.probing = s.failures >= failuresToPause
	s.calls++
	return nil
}

// end records how an admitted call went.
func (h *health) end(e *Engine, at endpoint, how outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.engines[e.id()]
	if !ok { // it was forgotten meanwhile
		return
	}
	s.calls = max(s.calls-1, 0)
	s.probing = false
	now := h.now()
	switch how {
	case outcomeNeutral:
		return
	case outcomeFailed:
		s.failures++
		if s.failures >= failuresToPause {
			doublings := min(s.failures-failuresToPause, maxDoublings)
			s.paused = now.Add(min(firstPause<<doublings, maxPause))
		}
		return
	case outcomeAbsent:
		s.absent[at] = now.Add(absentFor)
		s.refusals[at] = 0
	case outcomeRefused:
		s.refusals[at]++
		if s.refusals[at] >= refusalsToForget {
			s.absent[at] = now.Add(absentFor)
			s.refusals[at] = 0
		}
	default:
		s.refusals[at] = 0
	}
	s.failures = 0
}

// makeRoom forgets the engine that was not used for the longest time.
func (h *health) makeRoom() {
	if len(h.engines) < maxEngines {
		return
	}
	var oldest string
	var when time.Time
	for id, s := range h.engines {
		if s.calls == 0 && (oldest == "" || s.used.Before(when)) {
			oldest, when = id, s.used
		}
	}
	delete(h.engines, oldest) // all are in use only if maxEngines calls are
}
