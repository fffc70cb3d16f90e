package providers

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestQuotaHeaders(t *testing.T) {
	now := newClock().now()
	in := now.Add
	for name, c := range map[string]struct {
		kind Kind
		h    http.Header
		want Quota
	}{
		"OpenAI": {OpenAI{}, header(
			"x-ratelimit-limit-requests", "10000", "x-ratelimit-remaining-requests", "9999", "x-ratelimit-reset-requests", "6m0s",
			"x-ratelimit-limit-tokens", "200000", "x-ratelimit-remaining-tokens", "199000", "x-ratelimit-reset-tokens", "20ms",
		), Quota{
			Requests: Limit{true, 10000, 9999, in(6 * time.Minute)},
			Tokens:   Limit{true, 200000, 199000, in(20 * time.Millisecond)},
		}},
		"OpenAI, days": {OpenAI{}, header(
			"x-ratelimit-limit-requests", "200", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "7h12m0.5s",
		), Quota{Requests: Limit{true, 200, 0, in(maxRetry)}}},
		"fractions, as Groq": {OpenAI{}, header(
			"x-ratelimit-limit-tokens", "6000", "x-ratelimit-remaining-tokens", "5997.5", "x-ratelimit-reset-tokens", "7.66s",
		), Quota{Tokens: Limit{true, 6000, 5997, in(7660 * time.Millisecond)}}},
		"Azure: seconds, and no limits": {AzureOpenAI{}, header(
			"x-ratelimit-remaining-requests", "119", "x-ratelimit-remaining-tokens", "79000", "x-ratelimit-reset-tokens", "12",
			"retry-after-ms", "1500", "retry-after", "2",
		), Quota{
			Requests: Limit{true, 0, 119, in(unsaidReset)}, Tokens: Limit{true, 0, 79000, in(12 * time.Second)},
			RetryAfter: 1500 * time.Millisecond, Told: true,
		}},
		"Together": {OpenAI{}, header(
			"x-ratelimit-limit", "600", "x-ratelimit-remaining", "599", "x-ratelimit-reset", "1",
		), Quota{Requests: Limit{true, 600, 599, in(time.Second)}}},
		"a moment in Unix time, and in milliseconds": {OpenAI{}, header(
			"x-ratelimit-remaining-requests", "1", "x-ratelimit-reset-requests", "1796040030",
			"x-ratelimit-remaining-tokens", "1", "x-ratelimit-reset-tokens", "1796040040000",
		), Quota{
			Requests: Limit{true, 0, 1, in(30 * time.Second)}, Tokens: Limit{true, 0, 1, in(40 * time.Second)},
		}},
		"Anthropic": {Anthropic{}, header(
			"anthropic-ratelimit-requests-limit", "50", "anthropic-ratelimit-requests-remaining", "49",
			"anthropic-ratelimit-requests-reset", "2026-11-30T12:00:01Z",
			"anthropic-ratelimit-tokens-limit", "90000", "anthropic-ratelimit-tokens-remaining", "88000",
			"anthropic-ratelimit-tokens-reset", "2026-11-30T13:00:30+01:00",
			"anthropic-ratelimit-input-tokens-limit", "50000", "anthropic-ratelimit-input-tokens-remaining", "50000",
			"anthropic-ratelimit-input-tokens-reset", "2026-11-30T11:59:00Z",
			"anthropic-ratelimit-output-tokens-limit", "10000", "anthropic-ratelimit-output-tokens-remaining", "0",
			"anthropic-ratelimit-output-tokens-reset", "2026-11-30T12:00:45.5Z", "retry-after", "45",
		), Quota{
			Requests: Limit{true, 50, 49, in(time.Second)}, Tokens: Limit{true, 90000, 88000, in(30 * time.Second)},
			InputTokens:  Limit{true, 50000, 50000, in(0)},
			OutputTokens: Limit{true, 10000, 0, in(45500 * time.Millisecond)},
			RetryAfter:   45 * time.Second, Told: true,
		}},
		"Gemini": {Gemini{}, header("retry-after", "Mon, 30 Nov 2026 12:00:20 GMT"), Quota{RetryAfter: 20 * time.Second, Told: true}},
		"a date that is over": {
			OpenAI{}, header("retry-after", "Mon, 30 Nov 2026 11:00:20 GMT"), Quota{Told: true},
		},
		"nothing":              {OpenAI{}, http.Header{}, Quota{}},
		"those of another":     {OpenAI{}, header("anthropic-ratelimit-requests-remaining", "0"), Quota{}},
		"unknown":              {AzureOpenAI{}, header("x-ratelimit-limit-tokens", "-1", "x-ratelimit-remaining-tokens", "-1", "x-ratelimit-limit-requests", "100", "x-ratelimit-remaining-requests", "-1"), Quota{}},
		"of an unknown height": {OpenAI{}, header("x-ratelimit-limit-tokens", "-1", "x-ratelimit-remaining-tokens", "7"), Quota{Tokens: Limit{true, 0, 7, in(unsaidReset)}}},
		"more than all":        {OpenAI{}, header("x-ratelimit-limit-tokens", "100", "x-ratelimit-remaining-tokens", "700"), Quota{Tokens: Limit{true, 100, 100, in(unsaidReset)}}},
		"no numbers": {OpenAI{}, header(
			"x-ratelimit-remaining-tokens", "NaN", "x-ratelimit-remaining-requests", "0x10", "retry-after", "inf", "retry-after-ms", "-1",
		), Quota{}},
		"huge": {OpenAI{}, header(
			"x-ratelimit-limit-tokens", "1e300", "x-ratelimit-remaining-tokens", "99999999999999999999", "x-ratelimit-reset-tokens", "1e200",
			"retry-after", "1e18",
		), Quota{Tokens: Limit{true, maxCount, maxCount, in(0)}, RetryAfter: 24 * time.Hour, Told: true}},
		"infinitely many": {OpenAI{}, header("x-ratelimit-remaining-tokens", "1e999"), Quota{}},
	} {
		t.Run(name, func(t *testing.T) {
			var q Quota
			c.kind.Quota(c.h, now, &q)
			if name == "huge" { // whatever moment that is, it is within bounds
				assert.False(t, q.Tokens.Reset.After(now.Add(maxRetry)))
				q.Tokens.Reset = now
			}
			assert.Equal(t, c.want, q)
		})
	}
}

// What headers say must not panic, overflow, or keep a provider away for longer than we allow.
func FuzzQuota(f *testing.F) {
	f.Add("6m0s", "10", "3", "20")
	f.Add("2026-11-30T12:00:00Z", "-1", "1e400", "Mon, 30 Nov 2026 12:00:20 GMT")
	f.Add("9223372036854775807h", "\x00", "99999999999999999999999", "")
	f.Fuzz(func(t *testing.T, reset, limit, left, retry string) {
		now := newClock().now()
		for _, kind := range []Kind{OpenAI{}, Anthropic{}} {
			h := http.Header{
				"X-Ratelimit-Limit-Tokens": {limit}, "X-Ratelimit-Remaining-Tokens": {left}, "X-Ratelimit-Reset-Tokens": {reset},
				"Anthropic-Ratelimit-Tokens-Limit": {limit}, "Anthropic-Ratelimit-Tokens-Remaining": {left},
				"Anthropic-Ratelimit-Tokens-Reset": {reset}, "Retry-After": {retry}, "Retry-After-Ms": {reset},
			}
			var q Quota
			kind.Quota(h, now, &q)
			s := newState(&Model{}, 0)
			s.told(&q)
			s.begin(&Booking{begun: now, prompt: maxTokens, output: maxTokens})
			st := s.standing(now)
			if st.Remaining < 0 || st.Remaining > 1 || st.RetryAfter < 0 || st.RetryAfter > maxRetry {
				t.Fatalf("%+v of %+v", st, q)
			}
			if d, _ := s.bad(nil, ClassRateLimited, q.RetryAfter, q.Told, now); d < minRetry || d > maxRetry {
				t.Fatalf("cools down for %v", d)
			}
			if !s.standing(now.Add(maxRetry+time.Second)).Ready && s.standing(now.Add(maxRetry+time.Second)).Reason != s.gate.reason {
				t.Fatalf("still away: %+v", s.standing(now.Add(maxRetry+time.Second)))
			}
		}
	})
}

// What is booked is taken from what the headers said, until they say anew, or the limit is reset.
func TestQuotaIsBookedUntilHeadersSay(t *testing.T) {
	clock := newClock()
	svc := serve(t, says(http.StatusOK, `{"model":"theirs"}`,
		"x-ratelimit-limit-requests", "10", "x-ratelimit-remaining-requests", "2", "x-ratelimit-reset-requests", "30s",
		"x-ratelimit-limit-tokens", "1000", "x-ratelimit-remaining-tokens", "900", "x-ratelimit-reset-tokens", "30s"))
	o := oneOffer(t, OpenAI{}, svc.URL, func(_ *Provider, o *Options) { o.Now = clock.now })
	st := o.Standing(clock.now())
	assert.False(t, st.QuotaKnown)
	assert.InDelta(t, 1, st.Remaining, 0)

	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	st = o.Standing(clock.now())
	assert.True(t, st.QuotaKnown)
	assert.InDelta(t, 0.2, st.Remaining, 1e-9, "the requests are what least is left of")

	used(o.Begin(100, 50)).End()
	st = o.Standing(clock.now())
	assert.InDelta(t, 0.1, st.Remaining, 1e-9)
	assert.Equal(t, int64(750), o.state.quota.Tokens.Remaining)
	b := o.Begin(0, 0)
	st = o.Standing(clock.now())
	assert.False(t, st.Ready)
	assert.Equal(t, whyNothing, st.Reason)
	assert.Equal(t, 30*time.Second, st.RetryAfter)

	send(t, o, Exchange{API: chat, Booking: b}, `{"model":"ours"}`)
	assert.True(t, o.Standing(clock.now()).Ready, "headers said anew")
	b.End()
	used(o.Begin(0, 0)).End()
	used(o.Begin(0, 0)).End()
	require.False(t, o.Standing(clock.now()).Ready)
	st = o.Standing(clock.add(30 * time.Second))
	assert.True(t, st.Ready, "the limit is reset")
	assert.InDelta(t, 1, st.Remaining, 0)
}

// used is a booking whose request was sent.
func used(b *Booking) *Booking {
	b.used()
	return b
}

// What was booked and never sent is given back: it must not make a provider look used up.
func TestQuotaOfWhatWasNeverSent(t *testing.T) {
	headers := []string{
		"Anthropic-Ratelimit-Requests-Limit", "50", "Anthropic-Ratelimit-Requests-Remaining", "49",
		"Anthropic-Ratelimit-Requests-Reset", "2026-11-30T12:05:00Z",
		"Anthropic-Ratelimit-Input-Tokens-Limit", "1000", "Anthropic-Ratelimit-Input-Tokens-Remaining", "900",
	}
	clock := newClock()
	svc := serve(t, says(http.StatusOK, messagesAnswer, headers...))
	o := oneOffer(t, Anthropic{}, svc.URL, clocked(clock))
	send(t, o, Exchange{API: prompt.Messages}, messagesRequest+`}`)
	n := svc.count()
	book := func() *Booking { return o.Begin(10, 10) }
	for range 60 {
		b := book() // can't be carried over
		no := fails(t, o, Exchange{API: chat, Booking: b}, newRequest(t, t.Context(), chat, `{"model":"ours","n":3,"messages":[{"role":"user","content":"x"}]}`))
		assert.Equal(t, ClassUnsupported, no.Class)
		b.End()
		b.End()
		book().End() // nobody asked for it to be sent
	}
	assert.Equal(t, n, svc.count())
	st := o.Standing(clock.now())
	assert.True(t, st.Ready)
	assert.InDelta(t, 0.9, st.Remaining, 1e-9)

	// Those that no connection was made for, too.
	dead := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock))
	dead.state.told(&Quota{Requests: Limit{true, 10, 5, clock.now().Add(time.Minute)}})
	b := dead.Begin(1, 1)
	assert.Equal(t, ClassConnect, fails(t, dead, Exchange{API: chat, Booking: b}, newRequest(t, t.Context(), chat, `{"model":"ours"}`)).Class)
	b.End()
	assert.Equal(t, int64(5), dead.state.quota.Requests.Remaining)

	// Those that were sent count, even if no answer came.
	svc.will(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	b = book()
	require.Error(t, fails(t, o, Exchange{API: prompt.Messages, Booking: b}, newRequest(t, t.Context(), prompt.Messages, messagesRequest+`}`)))
	b.End()
	assert.Equal(t, int64(48), o.state.quota.Requests.Remaining)

	svc.will(says(http.StatusOK, messagesAnswer)) // with no word of limits
	b = book()
	send(t, o, Exchange{API: prompt.Messages, Booking: b}, messagesRequest+`}`)
	b.End()
	assert.Equal(t, int64(47), o.state.quota.Requests.Remaining)

	// What was told meanwhile, or is there anew, doesn't have it.
	b = book()
	o.state.told(&Quota{Requests: Limit{true, 50, 30, clock.now().Add(time.Minute)}})
	b.End()
	assert.Equal(t, int64(30), o.state.quota.Requests.Remaining)
	b = book()
	o.Standing(clock.add(time.Minute))
	b.End()
	assert.Equal(t, int64(50), o.state.quota.Requests.Remaining)
}
