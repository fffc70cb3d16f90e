package providertest

import (
	"net/http"
	"strconv"
	"time"
)

// Limit is how many requests pass in a window of time. What is over it is refused as the
// service refuses, with the time until the window's end as Retry-After; so requests that
// come too soon again are a storm that the server has counted.
type Limit struct {
	// Requests and Tokens pass in each window; 0: any number. Tokens are those of prompts.
	Requests, Tokens int
	// Per is the window's length, from the first request on. Default a minute.
	Per time.Duration
	// Silent: no headers say what is left.
	Silent bool
}

// meter counts against a Limit.
type meter struct {
	end              time.Time
	requests, tokens int
	refused          int
}

// Refused is how many requests were over the limit.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meter.refused
}

// admit counts a request, and says in h what is left. ok is false if it is over the limit:
// it may come again after that time.
func (s *Server) admit(r *Request, h http.Header) (after time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, m := &s.opts.Limit, &s.meter
	if l.Requests == 0 && l.Tokens == 0 {
		return 0, true
	}
	per := l.Per
	if per == 0 {
		per = time.Minute
	}
	if !r.At.Before(m.end) {
		m.end, m.requests, m.tokens = r.At.Add(per), 0, 0
	}
	tokens := int(r.InputTokens)
	ok = (l.Requests == 0 || m.requests < l.Requests) && (l.Tokens == 0 || m.tokens+tokens <= l.Tokens)
	if ok {
		m.requests++
		m.tokens += tokens
	} else {
		m.refused++
	}
	if !l.Silent {
		s.remainders(h, r.At)
	}
	return m.end.Sub(r.At), ok
}

// remainders are the headers of what is left. Gemini has none.
func (s *Server) remainders(h http.Header, now time.Time) {
	l, m := &s.opts.Limit, &s.meter
	say := func(kind string, limit, used int) {
		if limit == 0 {
			return
		}
		left := strconv.Itoa(limit - used)
		switch s.dialect {
		case OpenAI, AzureOpenAI:
			h.Set("X-Ratelimit-Limit-"+kind, strconv.Itoa(limit))
			h.Set("X-Ratelimit-Remaining-"+kind, left)
			h.Set("X-Ratelimit-Reset-"+kind, m.end.Sub(now).Round(time.Millisecond).String())
		case Anthropic:
			name := "Anthropic-Ratelimit-" + kind
			h.Set(name+"-Limit", strconv.Itoa(limit))
			h.Set(name+"-Remaining", left)
			h.Set(name+"-Reset", m.end.Add(time.Second-1).Truncate(time.Second).UTC().Format(time.RFC3339))
		default:
		}
	}
	say("Requests", l.Requests, m.requests)
	say("Tokens", l.Tokens, m.tokens)
	if s.dialect == Anthropic {
		say("Input-Tokens", l.Tokens, m.tokens)
	}
}

// retryAfter says when to come again: in whole seconds, rounded up, and by OpenAI and
// Azure in milliseconds as well.
func (s *Server) retryAfter(h http.Header, after time.Duration) {
	if after <= 0 || s.dialect == Gemini { // whose errors say it in their bodies
		return
	}
	h.Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	if s.dialect != Anthropic {
		h.Set("Retry-After-Ms", strconv.FormatInt(after.Milliseconds(), 10))
	}
}
