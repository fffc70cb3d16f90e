package providers

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Quota is what headers say of an account's limits. Of a limit that they don't speak of,
// Known is false.
type Quota struct {
	Requests, Tokens, InputTokens, OutputTokens Limit
	// RetryAfter is how long to wait, as it was said; Told is whether it was.
	RetryAfter time.Duration
	Told       bool
}

// Limit is one of them.
type Limit struct {
	Known bool
	// Limit is how much there is when all of it is left, 0 for unknown; Remaining is what
	// is left now.
	Limit, Remaining int64
	// Reset is when all of it is there again; the zero time for unknown.
	Reset time.Time
}

const (
	// The bounds of what a service can say: less is a busy loop, more a typing error, or a
	// service that has changed its mind long before.
	minRetry, maxRetry = time.Second, 10 * time.Minute
	// unsaidReset is when a limit is full again that doesn't say it: most count by the minute.
	unsaidReset = time.Minute
	// maxCount bounds limits, so that sums can't overflow.
	maxCount = 1 << 50
	// maxHeader is as long as a header is read, in bytes.
	maxHeader = 128
)

// clampRetry brings what a service said within bounds.
func clampRetry(d time.Duration) time.Duration { return min(max(d, minRetry), maxRetry) }

// readOpenAI reads x-ratelimit-*, as OpenAI, Azure and most that followed have them.
func readOpenAI(h http.Header, now time.Time, q *Quota) {
	for _, l := range []struct {
		into *Limit
		unit string
	}{{&q.Requests, "requests"}, {&q.Tokens, "tokens"}} {
		readLimit(h, now, l.into, "X-Ratelimit-Limit-"+l.unit, "X-Ratelimit-Remaining-"+l.unit, "X-Ratelimit-Reset-"+l.unit)
	}
	if !q.Requests.Known { // Together
		readLimit(h, now, &q.Requests, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset")
	}
	readRetry(h, now, q)
}

// readAnthropic reads anthropic-ratelimit-*.
func readAnthropic(h http.Header, now time.Time, q *Quota) {
	for _, l := range []struct {
		into *Limit
		unit string
	}{
		{&q.Requests, "Requests"},
		{&q.Tokens, "Tokens"},
		{&q.InputTokens, "Input-Tokens"},
		{&q.OutputTokens, "Output-Tokens"},
	} {
		p := "Anthropic-Ratelimit-" + l.unit
		readLimit(h, now, l.into, p+"-Limit", p+"-Remaining", p+"-Reset")
	}
	readRetry(h, now, q)
}

// readLimit reads one limit. One that says how much is left is known; what is no number
// is as if it weren't there.
func readLimit(h http.Header, now time.Time, l *Limit, limit, remaining, reset string) {
	left, ok := count(get(h, remaining))
	if !ok {
		return
	}
	*l = Limit{Known: true, Remaining: left, Reset: now.Add(unsaidReset)}
	l.Limit, _ = count(get(h, limit))
	l.Limit = max(l.Limit, 0)
	if l.Limit > 0 {
		l.Remaining = min(l.Remaining, l.Limit)
	}
	if d, ok := span(get(h, reset), now); ok {
		l.Reset = now.Add(min(max(d, 0), maxRetry))
	}
}

// readRetry reads when to come back, the most precise header first.
func readRetry(h http.Header, now time.Time, q *Quota) {
	if ms, ok := number(get(h, "Retry-After-Ms")); ok && ms >= 0 {
		q.RetryAfter, q.Told = seconds(ms/1000), true
		return
	}
	text := get(h, "Retry-After")
	if n, ok := number(text); ok && n >= 0 {
		q.RetryAfter, q.Told = seconds(n), true
	} else if at, err := http.ParseTime(text); err == nil {
		q.RetryAfter, q.Told = max(at.Sub(now), 0), true
	}
}

// get returns a header's first value, "" for one that is absurdly long.
func get(h http.Header, name string) string {
	v := strings.TrimSpace(h.Get(name))
	if len(v) > maxHeader {
		return ""
	}
	return v
}

// count reads a whole number; some services write it with a fraction. What is below 0 is
// unknown: some write -1 for that.
func count(s string) (int64, bool) {
	n, ok := number(s)
	if !ok || n < 0 {
		return 0, false
	}
	return int64(min(n, maxCount)), true
}

// number reads a number that is finite.
func number(s string) (float64, bool) {
	for i := range len(s) { // neither hexadecimal nor "inf"
		if c := s[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// seconds makes a duration of a number, within a day.
func seconds(n float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(max(n, 0), day) * float64(time.Second))
}

// span reads how long it is until a limit is full: "6m0s", "20ms", seconds, a Unix time,
// or a moment as RFC 3339 has it.
func span(s string, now time.Time) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	if n, ok := number(s); ok {
		// A number that is no span is a moment, in seconds or thousandths of them.
		const eon, eonMilli = 1e9, 1e12
		switch {
		case n >= eonMilli:
			return time.UnixMilli(int64(min(n, maxCount))).Sub(now), true
		case n >= eon:
			return time.Unix(int64(n), 0).Sub(now), true
		default:
			return seconds(n), true
		}
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, true
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at.Sub(now), true
	}
	return 0, false
}
