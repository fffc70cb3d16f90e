package providers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/price"
)

// Options are for New. The zero value works.
type Options struct {
	// Now tells the time; nil is time.Now.
	Now func() time.Time
	// Logger gets changes of state; nil logs nothing.
	Logger *slog.Logger
	// Prices says what models cost, by the provider's name and the model's Upstream, and
	// what they can do. A provider that it doesn't know is looked up by its kind's name in
	// public lists. Nil: only what Models say.
	Prices *price.Table
	// OnState is told when a model at a provider is left alone for a while, and when it
	// serves again. It is called by whoever caused the change, with no lock held, and must
	// return soon.
	OnState func(StateChange)
	// CredentialTimeout is how long a CredentialSource may take; 0 means 5 s.
	CredentialTimeout time.Duration
}

const credentialTimeout = 5 * time.Second

// StateChange is told to Options.OnState.
type StateChange struct {
	// Model is "" for a change of the whole provider.
	Provider, Model string
	// Breaker is the state of the circuit breaker now.
	Breaker Breaker
	// Reason is a fixed phrase; RetryAfter is how long no request is sent, 0 for "serves again".
	Reason     string
	RetryAfter time.Duration
}

// Set is the providers in force. It is safe for concurrent use.
type Set struct {
	opts   Options
	pool   *pool
	base   *http.Transport // for whoever brings none
	closed atomic.Bool
	now    atomic.Pointer[snapshot]

	mu       sync.Mutex // of Update and Close
	count    int        // of Offers, ever
	states   map[stateKey]*state
	accounts map[string]*account // by the provider's name
	files    map[string]*followed
}

// stateKey is what must stay for what was learned to be kept.
type stateKey struct{ provider, kind, url, upstream string }

type snapshot struct {
	models map[string][]*Offer
	all    []*Offer
	paths  map[string]*Offer
}

// New returns a Set of providers. The error joins a *[ConfigError] for each thing that is wrong.
func New(list []Provider, o Options) (*Set, error) {
	if o.CredentialTimeout < 0 {
		return nil, &ConfigError{Field: "Options.CredentialTimeout", Reason: "is negative; give a positive duration, or 0 for 5 s"}
	}
	if o.CredentialTimeout == 0 {
		o.CredentialTimeout = credentialTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{
		opts: o, pool: newPool(o.CredentialTimeout), base: newBase(),
		states: map[stateKey]*state{}, accounts: map[string]*account{}, files: map[string]*followed{},
	}
	s.now.Store(&snapshot{})
	if err := s.Update(list); err != nil {
		return nil, err
	}
	return s, nil
}

// newBase returns a transport whose connections don't take forever to be made. How long an
// answer may take is a matter of the request's context.
func newBase() *http.Transport {
	const patience, idle, perHost = 10 * time.Second, 90 * time.Second, 64
	const header = 1 << 20 // bytes of an answer's
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: patience}).DialContext,
		TLSHandshakeTimeout: patience, IdleConnTimeout: idle, MaxIdleConnsPerHost: perHost,
		ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: header,
	}
}

func (s *Set) clock() time.Time { return s.opts.Now() }

// Close ends what the Set runs, and waits for it: files that are followed, credentials
// that are being fetched. No request is begun after it; those under way go on. Further
// calls do nothing.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.pool.close()
	s.base.CloseIdleConnections()
	for _, f := range s.files {
		f.files.Close()
	}
	clear(s.files)
	return nil
}

// Offers returns those of a model, in the order of the configuration; nil for none. It
// takes no lock, and what it returns must not be modified.
func (s *Set) Offers(model string) []*Offer { return s.now.Load().models[model] }

// All returns all Offers, in the order of the configuration, without those of paths. It
// takes no lock, and what it returns must not be modified.
func (s *Set) All() []*Offer { return s.now.Load().all }

// ForPath returns who keeps the state of a URL path, nil for nobody: the provider that
// lists it, or the longest path that it is below.
func (s *Set) ForPath(path string) *Offer {
	paths := s.now.Load().paths
	if len(paths) == 0 {
		return nil
	}
	for path = clean(path); path != ""; path = path[:strings.LastIndexByte(path, '/')] {
		if o := paths[path]; o != nil {
			return o
		}
	}
	return nil
}

// clean brings a path into the form that the map has: with a slash in front, none behind.
// One that climbs is nobody's; nor is one that may after it was unescaped once more.
func clean(path string) string {
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.Contains(path, "/.") || strings.Contains(path, "%25") {
		return ""
	}
	return strings.TrimRight(path, "/")
}

func (s *Set) tell(c StateChange) {
	if s.opts.Logger.Enabled(context.Background(), slog.LevelInfo) {
		level := slog.LevelWarn
		if c.RetryAfter == 0 {
			level = slog.LevelInfo
		}
		s.opts.Logger.Log(context.Background(), level, "a provider's state has changed", "provider", c.Provider, "model", c.Model,
			"reason", c.Reason, "breaker", c.Breaker.String(), "for", c.RetryAfter)
	}
	if s.opts.OnState != nil {
		s.opts.OnState(c)
	}
}

// ConfigError is something wrong in the configuration. Seen by operators.
type ConfigError struct {
	// Index is the provider's place in the list, Provider its name; "" for none.
	Index    int
	Provider string
	// Field is the part of the configuration, "Models[2].Name"; Reason says what is wrong
	// with it, and what to do.
	Field, Reason string
	// Err is the cause; nil for none.
	Err error
}

// Error implements error.
func (e *ConfigError) Error() string {
	s := "providers: "
	switch {
	case e.Provider != "":
		s += fmt.Sprintf("provider %q: ", e.Provider)
	case !strings.HasPrefix(e.Field, "Options."):
		s += fmt.Sprintf("provider %d: ", e.Index)
	default:
	}
	s += e.Field + " " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// merged returns both, the second counting more.
func merged(a, b map[string]string) map[string]string {
	m := make(map[string]string, len(a)+len(b))
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}
