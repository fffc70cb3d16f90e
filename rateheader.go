package kvsteer

import (
	"errors"
	"fmt"
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
	// soft are the budgets that are nearly spent.
	soft []quota.Notice
}

// HeaderBudget tells a client of a budget that has reached its soft limit, one value for
// each: rule, scope, who, spent and limit in the unit (money in millionths of the currency,
// or tokens), and the moment when the period ends.
const HeaderBudget = "X-Kvsteer-Budget"

// told is a budget as a header has it.
func told(n *quota.Notice) string {
	unit, spent, limit := "money", n.Money, n.MoneyLimit
	if limit == 0 || n.TokensLimit > 0 && float64(n.Tokens)/float64(n.TokensLimit) > float64(spent)/float64(limit) {
		unit, spent, limit = "tokens", n.Tokens, n.TokensLimit
	}
	return fmt.Sprintf("rule=%s; scope=%s; who=%s; spent=%d; limit=%d; unit=%s; reset=%s",
		strconv.QuoteToASCII(n.Rule), strconv.QuoteToASCII(n.Scope.String()), strconv.QuoteToASCII(n.Who),
		spent, limit, unit, n.Reset.UTC().Format(time.RFC3339))
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
	r.soft = h.Soft()
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
	h.Del(HeaderBudget)
	for i := range r.soft {
		h.Add(HeaderBudget, told(&r.soft[i]))
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

// MarkAnswer sets in the header of the answer to the client how the limits stand that the
// request has passed, by the names that clients of its API know (x-ratelimit-... with
// durations; anthropic-ratelimit-... with moments), and removes what the worker said of its
// own. Budgets that are nearly spent are told by [HeaderBudget]. Without limits it only
// removes what is internal (see [InternalHeader]): workers don't speak for the router. A
// [Transport] does it for its requests.
func (s *Selection) MarkAnswer(h http.Header) {
	strip(h)
	if s.account.hold != nil {
		s.account.header.set(h, s.parsed.api, s.router.opts.now())
	}
}

// MarkAnswer is as for a [Selection].
func (p *Placement) MarkAnswer(h http.Header) { p.asked.MarkAnswer(h) }

// limitOf is the limit that refused, nil if none did.
func (e *Error) limitOf() *quota.Error {
	var no *quota.Error
	if e.Code != CodeLimited && e.Code != CodeTooLarge || !errors.As(e.Err, &no) {
		return nil
	}
	return no
}
