package kvsteer

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// rateHeader is how the limits stand that a request has passed, for the answer's header.
type rateHeader struct {
	at  [rateKinds]quota.Standing
	has [rateKinds]bool
}

// The kinds of limits that clients know headers for.
const (
	rateRequests = iota
	rateTokens
	rateInput
	rateOutput
	rateKinds
)

func meters() [rateKinds]quota.Meter {
	return [rateKinds]quota.Meter{quota.Requests, quota.Tokens, quota.Input, quota.Output}
}

// standings is how the limits of a request stand that was just let through.
func standings(h quota.Hold) (r rateHeader) {
	for i, m := range meters() {
		r.at[i], r.has[i] = h.Standing(m)
	}
	return r
}

// refusedBy is how the limit stands that has refused a request.
func refusedBy(no *quota.Error) (r rateHeader) {
	for i, m := range meters() {
		if m == no.Meter {
			r.has[i] = true
			r.at[i] = quota.Standing{Rule: no.Rule, Limit: no.Limit, Left: max(no.Left, 0), Full: no.RetryAfter}
		}
	}
	return r
}

// set writes the headers that the client of an API knows: OpenAI's give times as durations,
// Anthropic's as moments. What a worker or provider said of its own limits is removed: it
// is the gateway's affair.
func (r *rateHeader) set(h http.Header, api API, now time.Time) {
	for name := range h {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ratelimit-") || strings.HasPrefix(lower, "anthropic-ratelimit-") {
			delete(h, name)
		}
	}
	for i, kind := range [rateKinds]string{"requests", "tokens", "input-tokens", "output-tokens"} {
		if !r.has[i] {
			continue
		}
		s := &r.at[i]
		limit, left := strconv.FormatInt(s.Limit, 10), strconv.FormatInt(s.Left, 10)
		if api == Messages {
			const prefix = "Anthropic-Ratelimit-"
			h.Set(prefix+kind+"-Limit", limit)
			h.Set(prefix+kind+"-Remaining", left)
			h.Set(prefix+kind+"-Reset", now.Add(s.Full+time.Second-1).UTC().Truncate(time.Second).Format(time.RFC3339))
			continue
		}
		h.Set("X-Ratelimit-Limit-"+kind, limit)
		h.Set("X-Ratelimit-Remaining-"+kind, left)
		h.Set("X-Ratelimit-Reset-"+kind, (s.Full + time.Millisecond - 1).Truncate(time.Millisecond).String())
	}
}

// AnswerHeader returns what is to be set in the header of the answer to the client, however
// that comes about: how the limits stand that the request has passed, by the names that
// clients of its API know (x-ratelimit-... with durations; anthropic-ratelimit-... with
// moments). It is nil without limits. Headers of these names that the worker sent must be
// removed if it is not. A [Transport] does both.
func (s *Selection) AnswerHeader() http.Header {
	if s.account.hold == nil {
		return nil
	}
	h := http.Header{}
	s.account.header.set(h, s.parsed.api, s.router.opts.now())
	return h
}

// mark sets AnswerHeader.
func (s *Selection) mark(h http.Header) {
	if s.account.hold != nil {
		s.account.header.set(h, s.parsed.api, s.router.opts.now())
	}
}

// limitOf is the limit that refused, nil if none did.
func (e *Error) limitOf() *quota.Error {
	var no *quota.Error
	if e.Code != CodeLimited && e.Code != CodeTooLarge || !errors.As(e.Err, &no) {
		return nil
	}
	return no
}
