package providers

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = 30 * time.Second

// A source is asked by one goroutine at a time, and requests that come meanwhile share
// what it says.
func TestCredentialsAreFetchedOnce(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{}`))
	var calls, at atomic.Int64
	gate := make(chan struct{})
	o := oneOffer(t, OpenAI{}, svc.URL, func(p *Provider, _ *Options) {
		p.Credentials = Func(func(context.Context) (string, error) {
			calls.Add(1)
			assert.Equal(t, int64(1), at.Add(1))
			defer at.Add(-1)
			<-gate
			return "token", nil
		})
	})
	first, err := o.account.fetch()
	require.NoError(t, err)
	const clients = 20
	var wg sync.WaitGroup
	for range clients { // all of them come before the source has answered
		same, err := o.account.fetch()
		require.NoError(t, err)
		require.Same(t, first, same)
		wg.Go(func() {
			<-same.done
			assert.Equal(t, "token", same.c.Reveal())
		})
	}
	close(gate)
	wg.Wait()
	assert.Equal(t, int64(1), calls.Load())
	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.Equal(t, "Bearer token", svc.last(t).Header.Get("Authorization"))
}

// A source that fails, is late, panics, or gives what can't be sent: the request fails, the
// provider is left alone for a moment, nothing is sent.
func TestSourcesThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		source CredentialSource
		says   string
	}{
		"fails":     {Func(func(context.Context) (string, error) { return "s3cret", errors.New("no identity") }), "no identity"},
		"panics":    {Func(func(context.Context) (string, error) { panic("s3cret") }), "panicked"},
		"no func":   {Func(nil), "no function"},
		"empty":     {Func(func(context.Context) (string, error) { return "", nil }), "empty"},
		"two lines": {Func(func(context.Context) (string, error) { return "s3cret\r\nHost: x", nil }), "characters"},
		"late": {Func(func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // and heeds that late
			return "s3cret", ctx.Err()
		}), "within 10ms"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := serve(t, says(http.StatusOK, `{}`))
			clock := newClock()
			o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock), func(p *Provider, o *Options) {
				p.Credentials, o.CredentialTimeout = c.source, patience
				if name == "late" {
					o.CredentialTimeout = 10 * time.Millisecond
				}
			})
			no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
			assert.Equal(t, ClassAuth, no.Class)
			assert.Contains(t, no.Error(), c.says)
			assert.NotContains(t, no.Error(), "s3cret")
			assert.Empty(t, no.Message)
			assert.Zero(t, svc.count())
			st := o.Standing(clock.now())
			assert.Equal(t, whyAuth, st.Reason)
			assert.Equal(t, sourcePause, st.RetryAfter)
			assert.True(t, o.Standing(clock.add(sourcePause)).Ready)
		})
	}
}

// A source that fails after it worked leaves the provider alone, too: each request would fail.
func TestSourceThatFailsLater(t *testing.T) {
	svc := serve(t, says(http.StatusOK, `{}`))
	clock := newClock()
	var calls atomic.Int64
	var broken atomic.Bool
	o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock), func(p *Provider, _ *Options) {
		p.Credentials = Func(func(context.Context) (string, error) {
			calls.Add(1)
			if broken.Load() {
				return "", errors.New("the identity provider is down")
			}
			return "token", nil
		})
	})
	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	broken.Store(true)
	no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	assert.Equal(t, ClassAuth, no.Class)
	st := o.Standing(clock.now())
	assert.Equal(t, whyAuth, st.Reason)
	assert.Equal(t, sourcePause, st.RetryAfter)
	broken.Store(false)
	require.True(t, o.Standing(clock.add(sourcePause)).Ready)
	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.True(t, o.Standing(clock.now()).Ready)
	// A refusal of the token that is sent still closes it; one of an older token doesn't.
	assert.False(t, o.account.refuse(clock.now(), time.Minute, NewCredential("older")))
	assert.True(t, o.account.refuse(clock.now(), time.Minute, NewCredential("token")))
}

// A client that doesn't wait for the credential is gone; others still get it.
func TestClientLeavesWhileTheCredentialIsFetched(t *testing.T) {
	gate := make(chan struct{})
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", func(p *Provider, _ *Options) {
		p.Credentials = Func(func(context.Context) (string, error) {
			<-gate
			return "token", nil
		})
	})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	no := fails(t, o, Exchange{API: chat}, newRequest(t, ctx, chat, `{"model":"ours"}`))
	require.ErrorIs(t, no, context.Canceled)
	assert.True(t, o.Standing(time.Now()).Ready)
	close(gate)
	got, err := o.account.credential(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "token", got.Reveal())
}

// Close ends what is being fetched, and waits for it.
func TestCloseWaits(t *testing.T) {
	started, ended := make(chan struct{}), atomic.Bool{}
	set, err := New([]Provider{{
		Name: "p", Kind: OpenAI{}, Models: []Model{{Name: "ours"}},
		Credentials: Func(func(ctx context.Context) (string, error) {
			close(started)
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond)
			ended.Store(true)
			return "", ctx.Err()
		}),
	}}, Options{CredentialTimeout: time.Hour})
	require.NoError(t, err)
	o := set.Offers("ours")[0]
	done := make(chan error)
	go func() {
		_, err := o.account.credential(t.Context())
		done <- err
	}()
	<-started
	require.NoError(t, set.Close())
	assert.True(t, ended.Load())
	require.Error(t, <-done)
	require.NoError(t, set.Close())

	assert.Equal(t, whyClosed, o.Standing(time.Now()).Reason)
	no := fails(t, o, Exchange{API: chat}, newRequest(t, t.Context(), chat, `{"model":"ours"}`))
	require.ErrorIs(t, no, ErrClosed)
	require.ErrorIs(t, set.Update(nil), ErrClosed)
	_, err = o.account.credential(t.Context())
	require.Error(t, err)
}

// A file is followed: what it says is sent, trimmed; a bad one changes nothing. Another
// credential opens a provider that refused the one before.
func TestCredentialFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(" first\r\n")
	svc := serve(t, says(http.StatusUnauthorized, `{}`))
	p := Provider{Name: "p", Kind: OpenAI{}, URL: svc.URL, Models: []Model{{Name: "ours"}}, Credentials: File(path)}
	q := Provider{Name: "q", Kind: OpenAI{}, URL: svc.URL, Models: []Model{{Name: "ours"}}, Credentials: File(path)}
	set := newSet(t, Options{}, p, q)
	assert.Len(t, set.files, 1, "followed once")
	o := set.Offers("ours")[0]
	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.Equal(t, "Bearer first", svc.last(t).Header.Get("Authorization"))
	require.Equal(t, whyAuth, o.Standing(time.Now()).Reason)

	write("\n")
	require.Error(t, set.files[path].files.Reload())
	require.Equal(t, whyAuth, o.Standing(time.Now()).Reason)
	svc.will(says(http.StatusOK, `{}`))
	write("second")
	require.NoError(t, set.files[path].files.Reload())
	assert.True(t, o.Standing(time.Now()).Ready, "at once, with no request in between")
	send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
	assert.Equal(t, "Bearer second", svc.last(t).Header.Get("Authorization"))

	// By itself, within seconds.
	write("third")
	require.Eventually(t, func() bool {
		send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
		return svc.last(t).Header.Get("Authorization") == "Bearer third"
	}, patience, 100*time.Millisecond)

	// An update that needs it keeps it, one that doesn't closes it.
	require.NoError(t, set.Update([]Provider{q}))
	assert.Len(t, set.files, 1)
	bad := q
	bad.Name, bad.Credentials = "r", File(path+"-missing")
	var e *ConfigError
	require.ErrorAs(t, set.Update([]Provider{q, bad}), &e)
	assert.Equal(t, "Credentials", e.Field)
	require.ErrorIs(t, e, os.ErrNotExist)
	assert.Len(t, set.files, 1)
	require.NoError(t, set.Update(nil))
	assert.Empty(t, set.files)

	c, err := File(path).Credential(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "third", c.Reveal())
	_, err = File(filepath.Dir(path)).Credential(t.Context())
	require.ErrorIs(t, err, ErrNotRegular)
}
