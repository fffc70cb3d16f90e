package providers

import (
	"fmt"
	"log/slog"
	"net/url"
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
	// what they can do. Nil: only what Models say.
	Prices *price.Table
	// OnState is told when an Offer opens or closes to requests. It is called by whoever
	// caused the change, with no lock held, and must return soon.
	OnState func(StateChange)
	// CredentialTimeout is how long a CredentialSource may take; 0 means 5 s.
	CredentialTimeout time.Duration
}

// StateChange is told to Options.OnState.
type StateChange struct {
	Provider, Model string
	// Breaker is the state of the circuit breaker now.
	Breaker Breaker
	// Reason is a fixed phrase; RetryAfter is how long no request is sent, 0 for open again.
	Reason     string
	RetryAfter time.Duration
}

// Prior is what is expected of a model before anything was measured. Zeros are the
// defaults: 700 ms and 60 ms for each thousand tokens of the prompt, 20 ms between tokens.
type Prior struct {
	TTFT, TTFTPerThousand, ITL time.Duration
}

// Set is the providers in force. It is safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	count int
	now   atomic.Pointer[snapshot]
}

type snapshot struct {
	models map[string][]*Offer
	all    []*Offer
	paths  map[string]*Offer
}

// New returns a Set of providers. The error is a *ConfigError that joins all that is wrong.
func New(list []Provider, _ Options) (*Set, error) {
	s := &Set{}
	if err := s.Update(list); err != nil {
		return nil, err
	}
	return s, nil
}

// Update replaces the providers, or changes nothing and says why. What is learned of a
// model at a provider is kept if name, kind, URL and the model's Upstream stay. Requests
// under way go on as they were begun.
func (s *Set) Update(list []Provider) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &snapshot{models: map[string][]*Offer{}}
	for _, p := range list {
		u, err := url.Parse(p.URL)
		if err != nil {
			return &ConfigError{Provider: p.Name, Field: "url", Reason: "is no URL"}
		}
		for _, m := range p.Models {
			if m.Upstream == "" {
				m.Upstream = m.Name
			}
			s.count++
			o := &Offer{id: fmt.Sprintf("%s/%s@%d", p.Name, m.Name, s.count), from: p, model: m, url: u, labels: merged(p.Labels, m.Labels)}
			next.models[m.Name] = append(next.models[m.Name], o)
			next.all = append(next.all, o)
		}
	}
	s.now.Store(next)
	return nil
}

// Close ends what the Set runs, and waits for it. Offers serve no more after it.
func (s *Set) Close() error { return nil }

// Offers returns those of a model, in the order of the configuration; nil for none. It
// must not be modified.
func (s *Set) Offers(model string) []*Offer { return s.now.Load().models[model] }

// All returns all Offers, in the order of the configuration. It must not be modified.
func (s *Set) All() []*Offer { return s.now.Load().all }

// ForPath returns who keeps the state of a path, nil for nobody.
func (s *Set) ForPath(path string) *Offer { return s.now.Load().paths[path] }

// ConfigError is what is wrong with a provider.
type ConfigError struct {
	// Provider is its name, "" for none; Index is its place in the list; Field is the part of
	// the configuration, like "models[2].name".
	Provider string
	Index    int
	Field    string
	Reason   string
	Err      error
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("providers: %s: %s %s", e.Provider, e.Field, e.Reason)
}

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }
