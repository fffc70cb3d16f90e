package trtllm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Path is where an engine serves its events.
const Path = "/kv_cache_events"

// Defaults of [Transport].
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultTimeout  = 30 * time.Second
	DefaultPatience = 10 * time.Second
	DefaultMaxReply = 128 << 20
	// MaxInterval bounds Interval: the engine's buffer overflows when it is
	// emptied too rarely.
	MaxInterval = time.Second
)

// Errors of Dial.
var (
	// ErrAddress: Endpoint.Events is not an address that can be polled. The
	// message says what to write.
	ErrAddress = errors.New("trtllm: not an address of events")
	// ErrConsumed: this Transport polls the address for that rank already, and
	// what one consumer takes the other one misses. Close the other connection,
	// or correct the endpoint's rank.
	ErrConsumed = errors.New("trtllm: this rank's events have a consumer already")
)

// Transport polls engines for their events. The zero value works. It is safe for
// concurrent use, must not be changed once used, and must not be copied; without
// Linger there is nothing to close but the connections.
type Transport struct {
	// Interval is the pause between the end of one poll and the next. 0 means
	// DefaultInterval, 200 ms; more than MaxInterval, 1 s, is that.
	Interval time.Duration
	// Timeout bounds one poll. Engines may hold it for some seconds when they
	// have nothing to say, and giving up may cost events: be generous. 0 means
	// DefaultTimeout, 30 s.
	Timeout time.Duration
	// Patience is how long polls may fail before a connection counts as lost. 0
	// means DefaultPatience, 10 s.
	Patience time.Duration
	// Linger is how long an address is polled on after its last connection was
	// closed. Who dials it meanwhile is given what was taken out since the engine
	// started, if that was within a minute and is no more than 8 MiB a rank: so a
	// restarted engine can pass from one follower to the next and stay exact,
	// though its first event came to the former. They are held packed, in about
	// an eighth of that. 0 means not at all; otherwise call Close at the end.
	Linger time.Duration
	// MaxReply bounds, in bytes, one answer, and the events of one rank that
	// wait to be received. What is beyond is lost, which the numbers show. 0
	// means DefaultMaxReply, 128 MiB: that many events are in the buffer of an
	// engine that nobody has polled for long.
	MaxReply int64
	// Client makes the requests; its Timeout should be 0. nil means one of the
	// Transport's own, with no proxy. Redirects are not followed, unless it has a
	// CheckRedirect.
	Client *http.Client
	// Prepare, if not nil, is called with each request before it is sent, for
	// example to add a header that a gateway in between wants. It must be safe
	// for concurrent use.
	Prepare func(*http.Request)
	// Logger hears of what is left out. nil is silence.
	Logger *slog.Logger

	mu      sync.Mutex
	closed  bool
	sources map[string]*source // by URL
}

var _ follow.Transport = (*Transport)(nil)

// Dial implements [follow.Transport]. ep.Events is the engine's address, with or
// without [Path]: "http://10.0.0.7:8000". ep.Rank selects the data-parallel rank;
// Replay and Topic have no meaning here. Dial returns at once and polls in the
// background. ctx is not used beyond the call.
//
// The Conn's Replay returns [follow.ErrNoReplay]. It also has a method
// Malformed() int64, the number of elements of answers that could not be numbered,
// and Foreign() int64, the number of events of ranks without a connection; both
// count for the address.
func (t *Transport) Dial(ctx context.Context, ep follow.Endpoint) (follow.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := eventsURL(ep.Events)
	if err != nil {
		return nil, err
	}
	if ep.Rank < 0 || ep.Rank >= maxRanks {
		return nil, fmt.Errorf("%w: rank %d is not between 0 and %d", ErrAddress, ep.Rank, maxRanks-1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[at]
	if s == nil {
		s = newSource(t, at)
		if t.sources == nil {
			t.sources = make(map[string]*source)
		}
		t.sources[at] = s
	}
	return s.connect(ep.Rank)
}

// Close ends the polling of addresses without a connection, and waits for it. From
// then on there is no Linger. It always returns nil.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	var idle []*source
	for _, s := range t.sources {
		if s.retire() {
			idle = append(idle, s)
		}
	}
	t.mu.Unlock()
	for _, s := range idle {
		<-s.done
	}
	return nil
}

// drop forgets a source that polls no more. t.mu is not held.
func (t *Transport) drop(s *source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sources[s.url] == s {
		delete(t.sources, s.url)
	}
}

// eventsURL returns the full address to poll. Its errors do not quote the
// address, which may hold a password.
func eventsURL(addr string) (string, error) {
	u, err := url.Parse(addr)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return "", fmt.Errorf("%w: write the engine's address, for example http://10.0.0.7:8000", ErrAddress)
	case u.User != nil:
		return "", fmt.Errorf("%w: it contains a user name or password, which would end up in logs; add credentials in Prepare", ErrAddress)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%w: it has a query or a fragment; end it after the path", ErrAddress)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	if !strings.HasSuffix(u.Path, Path) {
		u = u.JoinPath(Path)
	}
	return u.String(), nil
}

func (t *Transport) interval() time.Duration {
	return min(orDefault(t.Interval, DefaultInterval), MaxInterval)
}

func (t *Transport) maxReply() int64 { return orDefault(t.MaxReply, DefaultMaxReply) }

func orDefault[T ~int64](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// newClient has connections of its own, so that closing them disturbs nobody.
func newClient() *http.Client {
	const (
		idleFor   = time.Minute
		maxHeader = 64 << 10 // bytes of an answer's header
	)
	return staying(&http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: idleFor, MaxResponseHeaderBytes: maxHeader},
	})
}

// staying is a client that goes to the engine's address and nowhere else.
func staying(c *http.Client) *http.Client {
	if c.CheckRedirect != nil {
		return c
	}
	copied := *c
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}
