package prompt

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// clock is a hand-wound clock.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func (c *clock) add(d time.Duration) { c.t = c.t.Add(d) }

func newClock() *clock { return &clock{time.Unix(1790000000, 0)} }

func TestAbsentIsRemembered(t *testing.T) {
	t.Parallel()
	c := newClock()
	answers := map[string]http.HandlerFunc{"/tokenize": reply(200, ids123)}
	eng := newEngine(t, answers)
	e := newEncoder(t, Options{Now: c.now, CacheBytes: -1})
	for range 3 {
		assert.Equal(t, "render: endpoint not available; ", reasons(encode(t, e, Completions, text("a"), eng.URL)))
	}
	assert.Equal(t, []string{"/v1/completions/render", "/tokenize", "/tokenize", "/tokenize"}, eng.paths())
	encode(t, e, Chat, chatBody, eng.URL)
	assert.Equal(t, "/v1/chat/completions/render", eng.paths()[4], "each endpoint for itself")
	c.add(absentFor)
	encode(t, e, Completions, text("a"), eng.URL)
	assert.Equal(t, "/v1/completions/render", eng.paths()[6], "asked again")
	h := e.health
	require.ErrorIs(t, h.check(&Engine{BaseURL: eng.URL}, renderCompletions), errAbsent)
	require.NoError(t, h.check(&Engine{ID: "restarted", BaseURL: eng.URL}, renderCompletions))
}

func TestRefusalsAreRemembered(t *testing.T) {
	t.Parallel()
	c := newClock()
	eng := newEngine(t, map[string]http.HandlerFunc{"/tokenize": reply(422, `{}`)})
	e := newEncoder(t, Options{Now: c.now, NoRender: true})
	for i := range refusalsToForget + 3 {
		want := "tokenize: engine refused the request; "
		if i >= refusalsToForget {
			want = "tokenize: endpoint not available; "
		}
		assert.Equal(t, want, reasons(encode(t, e, Chat, chatBody, eng.URL)))
	}
	assert.Len(t, eng.paths(), refusalsToForget)
}

func TestPause(t *testing.T) {
	t.Parallel()
	c := newClock()
	calls, healthy := 0, false
	e := newEncoder(t, Options{Now: c.now, NoRender: true, CacheBytes: -1, Client: roundTrip(func(*http.Request) (*http.Response, error) {
		calls++
		if !healthy {
			return nil, errors.New("down")
		}
		return ok(ids123)
	}).client()})
	ask := func() string { return reasons(encode(t, e, Completions, text("a"), "http://a")) }
	for range failuresToPause {
		assert.Equal(t, "tokenize: engine unreachable; ", ask())
	}
	assert.Equal(t, "tokenize: engine paused after failures; ", ask())
	assert.Equal(t, failuresToPause, calls)
	assert.False(t, e.Available(&Engine{BaseURL: "http://a"}))
	assert.True(t, e.Available(&Engine{BaseURL: "http://b"}))
	assert.False(t, e.Available(&Engine{}))
	pauses := []int{1, 2, 4, 8, 16, 30, 30}
	for i, p := range pauses {
		c.add(time.Duration(p)*time.Second - 1)
		assert.Equal(t, "tokenize: engine paused after failures; ", ask(), "pause %d", i)
		c.add(1)
		healthy = i == len(pauses)-1
		want := "tokenize: engine unreachable; "
		if healthy {
			want = ""
		}
		assert.Equal(t, want, ask(), "pause %d is over", i)
	}
	healthy = false
	for range failuresToPause { // from the start again
		assert.Equal(t, "tokenize: engine unreachable; ", ask())
	}
	c.add(firstPause)
	healthy = true
	assert.Empty(t, ask())
}

func TestOneProbeEndsAPause(t *testing.T) {
	t.Parallel()
	c := newClock()
	h := newHealth(c.now, 10)
	e := &Engine{BaseURL: "http://a"}
	for range failuresToPause {
		require.NoError(t, h.begin(e, tokenizeText))
		h.end(e, tokenizeText, outcomeFailed)
	}
	c.add(firstPause)
	require.NoError(t, h.check(e, tokenizeText))
	require.NoError(t, h.begin(e, tokenizeText))
	require.ErrorIs(t, h.begin(e, tokenizeText), errPaused, "one at a time")
	h.end(e, tokenizeText, outcomeNeutral)
	require.NoError(t, h.begin(e, tokenizeText), "the probe told nothing")
	h.end(e, tokenizeText, outcomeOK)
	require.NoError(t, h.begin(e, tokenizeText))
	require.NoError(t, h.begin(e, tokenizeText))
}

func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHealth(newClock().now, 2)
	e := &Engine{BaseURL: "http://a"}
	require.NoError(t, h.begin(e, renderChat))
	require.NoError(t, h.begin(e, tokenizeText))
	require.ErrorIs(t, h.begin(e, tokenizeText), errBusy)
	require.ErrorIs(t, h.check(e, tokenizeText), errBusy)
	require.NoError(t, h.begin(&Engine{BaseURL: "http://b"}, renderChat))
	h.end(e, renderChat, outcomeOK)
	require.NoError(t, h.begin(e, tokenizeText))
}

func TestEnginesAreBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	h := newHealth(c.now, 2)
	busy := &Engine{ID: "busy", BaseURL: "http://a"}
	require.NoError(t, h.begin(busy, renderChat))
	for i := range 3 * maxEngines {
		c.add(time.Second)
		e := &Engine{ID: fmt.Sprint(i), BaseURL: "http://a"}
		require.NoError(t, h.begin(e, renderChat))
		h.end(e, renderChat, outcomeAbsent)
		assert.LessOrEqual(t, len(h.engines), maxEngines)
	}
	assert.Contains(t, h.engines, "busy")
	assert.Contains(t, h.engines, fmt.Sprint(3*maxEngines-1))
	h.end(&Engine{ID: "forgotten"}, renderChat, outcomeOK)
}

// length counts the ring, forwards and backwards.
func (c *lru) length() int {
	n, back := 0, 0
	for e := c.ring.next; e != &c.ring; e = e.next {
		n++
	}
	for e := c.ring.prev; e != &c.ring; e = e.prev {
		back++
	}
	if n != back {
		return -1
	}
	return n
}

func TestCacheBound(t *testing.T) {
	t.Parallel()
	c := newLRU(10_000)
	for i := range 1000 {
		enc := Encoding{Source: SourceTokenize, Tokens: make([]uint32, i%300), Items: []kvcache.Item{{ID: strings.Repeat("x", 64)}}}
		key := cacheKey{byte(i), byte(i >> 8)}
		c.put(key, clip(enc))
		assert.LessOrEqual(t, c.used, c.max)
		assert.Len(t, c.byKey, c.length())
		got, ok := c.get(key)
		assert.True(t, ok, "the latest stays")
		assert.Len(t, got.Tokens, i%300)
	}
	// The one in use outlives the others.
	hot := cacheKey{0xff, 0xff}
	c.put(hot, Encoding{})
	for i := range 200 {
		c.put(cacheKey{byte(i), 0x7f}, Encoding{Tokens: make([]uint32, 100)})
		_, ok := c.get(hot)
		assert.True(t, ok)
	}
	c.put(hot, Encoding{Tokens: make([]uint32, 10_000)})
	got, ok := c.get(hot)
	assert.True(t, ok && got.Tokens == nil, "an entry beyond the bound is not kept")
	c.put(hot, Encoding{Tokens: make([]uint32, 5)})
	got, _ = c.get(hot)
	assert.Len(t, got.Tokens, 5, "replaced")
	c.clear()
	assert.Zero(t, c.used)
	assert.True(t, c.empty())
	assert.LessOrEqual(t, cap(clip(Encoding{Tokens: make([]uint32, 100, 1000)}).Tokens), 128)
}
