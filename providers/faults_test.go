package providers

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// A 403 that is about the credential itself closes the provider, as a 401 does: it would
// answer so fast that all requests went there. Others rest the model, once there were
// several with none served between them.
func TestForbidden(t *testing.T) {
	for body, dead := range map[string]bool{
		`{"error_code":"403","message":"Invalid access token."}`:                     true,
		`{"error":{"message":"x","code":"invalid_api_key"}}`:                         true,
		`{"type":"error","error":{"type":"authentication_error","message":"x"}}`:     true,
		`{"type":"error","error":{"type":"permission_error","message":"not this"}}`:  false,
		`{"error_code":"PERMISSION_DENIED","message":"no access to this endpoint."}`: false,
		`no`: false,
	} {
		svc := serve(t, says(http.StatusForbidden, body))
		clock := newClock()
		set := newSet(t, Options{Now: clock.now}, Provider{
			Name: "p", Kind: OpenAI{}, URL: svc.URL, Credentials: Static("k"), Models: []Model{{Name: "ours"}, {Name: "other"}},
		})
		o, other := set.Offers("ours")[0], set.Offers("other")[0]
		for range deniedInRow {
			require.True(t, o.Standing(clock.now()).Ready, body)
			got, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
			assert.Equal(t, ClassAuth, failureOf(t, got).Class)
			assert.Empty(t, got.Header.Get("Retry-After"))
			if dead {
				break
			}
		}
		st := o.Standing(clock.now())
		assert.Equal(t, !dead, other.Standing(clock.now()).Ready, body)
		if dead {
			assert.Equal(t, whyAuth, st.Reason, body)
			continue
		}
		assert.Equal(t, whyDenied, st.Reason, body)
		assert.Equal(t, deniedCool, st.RetryAfter)
		assert.Equal(t, BreakerClosed, st.Breaker)
		require.True(t, o.Standing(clock.add(deniedCool)).Ready)

		// Whoever is served in between begins the count anew.
		for range 3 {
			for range deniedInRow - 1 {
				send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
			}
			svc.will(says(http.StatusOK, `{}`))
			send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
			svc.will(says(http.StatusForbidden, body))
		}
		assert.True(t, o.Standing(clock.now()).Ready)
	}
}

// An answer that has begun and is cut by the request's deadline says nothing of the provider;
// that it fell silent, which whoever cuts it says by the cause, does.
func TestDeadlineWithinAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		open bool
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(context.DeadlineExceeded) }
		}, false},
		"deadline with words": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errors.Join(errors.New("the gateway's limit"), context.DeadlineExceeded)) }
		}, false},
		"client left": {context.WithCancel, false},
		"other cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errors.New("the gateway stops")) }
		}, false},
		"silence": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(silent{}) }
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			svc := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"model\":\"theirs\"}\n\n")
				assert.NoError(t, http.NewResponseController(w).Flush())
				<-r.Context().Done()
			})
			clock := newClock()
			o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock))
			for range failuresInRow + failuresOfAll {
				ctx, end := c.end(t.Context())
				resp, err := o.RoundTripper(nil, Exchange{API: chat}).RoundTrip(newRequest(t, ctx, chat, `{"model":"ours","stream":true}`))
				require.NoError(t, err)
				_, err = io.ReadFull(resp.Body, make([]byte, 10))
				require.NoError(t, err)
				end()
				_, err = io.Copy(io.Discard, resp.Body)
				require.Error(t, err)
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, c.open, o.Standing(clock.now()).Breaker == BreakerOpen)
		})
	}
}

type silent struct{}

func (silent) Error() string { return "nothing came for a while" }
func (silent) Timeout() bool { return true }

// A redirect is not followed, and says nothing of how the provider serves.
func TestRedirectsOpenNothing(t *testing.T) {
	svc := serve(t, says(http.StatusFound, ``, "Location", "https://x.test/", "Retry-After", "9"))
	o := oneOffer(t, OpenAI{}, svc.URL)
	for range 2 * window {
		got, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
		f := failureOf(t, got)
		require.Equal(t, ClassServer, f.Class)
		require.Zero(t, f.RetryAfter)
	}
	assert.True(t, o.Standing(time.Now()).Ready)
}

// What a provider asks for by Retry-After is what is done, and what clients are told.
func TestRetryAfterIsKept(t *testing.T) {
	for status, why := range map[int]string{500: whyAsked, 502: whyAsked, 504: whyAsked, 503: whyLoad, 529: whyLoad, 429: whyRate} {
		svc := serve(t, says(status, `{}`, "Retry-After", "120"))
		clock := newClock()
		o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock))
		got, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
		assert.Equal(t, 2*time.Minute, failureOf(t, got).RetryAfter, status)
		assert.Equal(t, "120", got.Header.Get("Retry-After"))
		st := o.Standing(clock.now())
		assert.Equal(t, why, st.Reason)
		assert.Equal(t, 2*time.Minute, st.RetryAfter)
	}
	for _, status := range []int{400, 404, 413} { // nobody leaves it alone for these
		svc := serve(t, says(status, `{}`, "Retry-After", "120"))
		o := oneOffer(t, OpenAI{}, svc.URL)
		got, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
		assert.Zero(t, failureOf(t, got).RetryAfter, status)
		assert.Empty(t, got.Header.Get("Retry-After"))
		assert.True(t, o.Standing(time.Now()).Ready)
	}
}

// Who listens to changes is told that the breaker opened, also where a cool-down came first.
func TestOpeningIsTold(t *testing.T) {
	svc := serve(t, says(http.StatusServiceUnavailable, `{}`, "Retry-After", "1"))
	var told []StateChange
	clock := newClock()
	o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock), func(_ *Provider, o *Options) {
		o.OnState = func(c StateChange) { told = append(told, c) }
	})
	for range failuresInRow {
		send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	}
	require.Equal(t, BreakerOpen, o.Standing(clock.now()).Breaker)
	require.Len(t, told, 2)
	assert.Equal(t, whyLoad, told[0].Reason)
	assert.Equal(t, BreakerClosed, told[0].Breaker)
	assert.Equal(t, whyBreaker, told[1].Reason)
	assert.Equal(t, BreakerOpen, told[1].Breaker)
	assert.GreaterOrEqual(t, told[1].RetryAfter, firstPause)

	// Where the cool-down is news, too, the one that lasts longer is told.
	told = nil
	o = oneOffer(t, OpenAI{}, svc.URL, clocked(clock), func(_ *Provider, o *Options) {
		o.OnState = func(c StateChange) { told = append(told, c) }
	})
	for range failuresInRow {
		send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
		clock.add(time.Second)
	}
	require.Len(t, told, failuresInRow)
	assert.Equal(t, whyLoad, told[0].Reason)
	assert.Equal(t, whyBreaker, told[failuresInRow-1].Reason)
}

// A kind that has no endpoint for what is asked fails for all: that opens the breaker.
func TestNoEndpoint(t *testing.T) {
	o := oneOffer(t, nowhere{}, "https://x.test")
	for range failuresInRow {
		assert.Equal(t, ClassServer, fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`)).Class)
	}
	assert.Equal(t, BreakerOpen, o.Standing(time.Now()).Breaker)
}

type nowhere struct{ OpenAI }

func (nowhere) Endpoint(*url.URL, *Target) (*url.URL, error) { return nil, errors.New("there is none") }

// An error of a malformed answer quotes none of it.
func TestErrorsQuoteNoAnswer(t *testing.T) {
	const canary = "CANARY-7f3a"
	for _, text := range []string{
		canary + "\r\n\r\n", "HTTP/1.1 " + canary + "\r\n\r\n", "HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n",
	} {
		for _, kind := range []Kind{OpenAI{}, Anthropic{}} { // as it is, and translated
			o := oneOffer(t, kind, "http://"+rawServer(t, text))
			resp, err := o.RoundTripper(nil, Exchange{API: chat}).RoundTrip(newRequest(t, t.Context(), chat, chatRequest+`}`))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.Error(t, err, text)
				continue
			}
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.NotContains(t, err.Error(), canary)
			for e := error(e); e != nil; e = errors.Unwrap(e) {
				assert.NotContains(t, e.Error(), canary)
			}
		}
	}
	require.ErrorIs(t, plainly(errCustom), errCustom)
	assert.NotContains(t, plainly(errCustom).Error(), errCustom.Error())
}

var errCustom = errors.New("what a base says")

// rawServer answers each connection with a text.
func rawServer(t *testing.T, text string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// OpenAI's own service is known however its URL is spelled.
func TestOwnURLs(t *testing.T) {
	for given, own := range map[string]bool{
		"": true, openAIURL: true, "https://api.openai.com": true, "https://api.openai.com/": true, "https://api.openai.com/v1/": true,
		"https://API.OpenAI.com/v1": true, "https://api.openai.com:443/v1//": true, "https://api.openai.com./v1": true, "HTTPS://api.openai.com": true,
		"http://api.openai.com/v1": false, "https://api.openai.com.x.test/v1": false, "https://x.test/v1": false, "https://api.openai.com:8443": false,
		"https://api.openai.com/v2": false,
	} {
		p := Provider{URL: given}
		require.NoError(t, OpenAI{}.Check(&p))
		assert.Equal(t, own, OpenAI{}.ListName(&p) == "openai", given)
		if own {
			assert.Equal(t, openAIURL, p.URL, given)
			assert.Contains(t, OpenAI{}.APIs(&p), prompt.Responses)
		}
	}
	p := Provider{URL: "https://eu.api.openai.com/v1"}
	assert.Contains(t, OpenAI{}.APIs(&p), prompt.Responses)
	for given, own := range map[string]bool{
		"": true, "https://API.anthropic.com/v1/": true, "https://api.anthropic.com:443": true, "https://x.test": false,
	} {
		p := Provider{URL: given}
		require.NoError(t, Anthropic{}.Check(&p))
		assert.Equal(t, own, Anthropic{}.ListName(&p) == "anthropic", given)
	}
}
