package fleet

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Defaults of Options.
const (
	defaultProbeInterval    = 5 * time.Second
	defaultProbeTimeout     = 2 * time.Second
	defaultScrapeInterval   = time.Second
	defaultStaleAfter       = 10 * time.Second
	defaultUnhealthyAfter   = 3
	defaultHealthyAfter     = 1
	defaultMaxWorkers       = 4096
	defaultMaxResponseBytes = 8 << 20
)

// Options configure a Fleet. The zero value of each field is its default.
type Options struct {
	// Discoverer says which workers there are. A Fleet without any has no workers.
	Discoverer Discoverer
	// Discoverers are more of them; the fleet is the union of all lists. A name
	// that one has listed is refused to the others.
	Discoverers []Discoverer

	// HTTPClient probes and scrapes. Default: a client of its own that follows no
	// redirect and uses no proxy. A client given without CheckRedirect is used
	// through a copy that follows none: an engine must not be able to send us
	// elsewhere.
	HTTPClient *http.Client
	// Prepare, if set, may change a probe before it is sent, for example to add
	// an API key. It is called concurrently.
	Prepare func(r *http.Request, w *Worker)

	// ProbeInterval is the time between two health checks of a worker, give or
	// take a tenth; a worker that isn't healthy is checked each second if that is
	// more often. Default 5 s.
	ProbeInterval time.Duration
	// ProbeTimeout bounds each request to an engine. Default 2 s.
	ProbeTimeout time.Duration
	// ScrapeInterval is the time between two readings of a worker's metrics, give
	// or take a tenth. Default 1 s. Negative: never.
	ScrapeInterval time.Duration
	// StaleAfter is the age from which a reading counts for nothing. Default 10 s.
	StaleAfter time.Duration
	// UnhealthyAfter failures in a row take a worker out. Default 3. A refused
	// connection or a plain 503 does so at once.
	UnhealthyAfter int
	// HealthyAfter successes in a row bring a worker back. Default 1.
	HealthyAfter int

	// MaxWorkers bounds the fleet; a longer list is refused. Default 4096.
	MaxWorkers int
	// MaxResponseBytes bounds what is read of an engine's answer; a longer one is
	// an error. Default 8 MiB.
	MaxResponseBytes int64

	// Now tells the time. Default time.Now.
	Now func() time.Time
	// Logger is told of changes and problems. Default: silent.
	Logger *slog.Logger
	// OnChange is a watcher from the start, see [Fleet.Watch].
	OnChange func(Change)
	// OnError is told when a Discoverer fails, once for each new error. It is
	// called from the goroutine of that Discoverer and must not call Close.
	OnError func(error)
}

// setDefaults puts the defaults in place of zeros.
func (o *Options) setDefaults() error {
	durations := []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"ProbeInterval", &o.ProbeInterval, defaultProbeInterval},
		{"ProbeTimeout", &o.ProbeTimeout, defaultProbeTimeout},
		{"StaleAfter", &o.StaleAfter, defaultStaleAfter},
	}
	for _, d := range durations {
		if *d.value < 0 {
			return fmt.Errorf("fleet: Options.%s is %v; give a positive duration, or 0 for %v", d.name, *d.value, d.def)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.ScrapeInterval == 0 {
		o.ScrapeInterval = defaultScrapeInterval
	}
	counts := []struct {
		name  string
		value *int
		def   int
	}{
		{"UnhealthyAfter", &o.UnhealthyAfter, defaultUnhealthyAfter},
		{"HealthyAfter", &o.HealthyAfter, defaultHealthyAfter},
		{"MaxWorkers", &o.MaxWorkers, defaultMaxWorkers},
	}
	for _, c := range counts {
		if *c.value < 0 {
			return fmt.Errorf("fleet: Options.%s is %d; give a positive number, or 0 for %d", c.name, *c.value, c.def)
		}
		if *c.value == 0 {
			*c.value = c.def
		}
	}
	if o.MaxResponseBytes < 0 {
		return fmt.Errorf("fleet: Options.MaxResponseBytes is %d; give a positive number, or 0 for %d",
			o.MaxResponseBytes, int64(defaultMaxResponseBytes))
	}
	if o.MaxResponseBytes == 0 {
		o.MaxResponseBytes = defaultMaxResponseBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// probeClient is the client to probe with, and a function that frees what it
// holds.
func (o *Options) probeClient() (client *http.Client, release func()) {
	if o.HTTPClient == nil {
		transport := &http.Transport{
			// No proxy: probes go to the address that was registered and nowhere else.
			Proxy:                  nil,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        2 * max(o.ProbeInterval, o.ScrapeInterval),
			MaxResponseHeaderBytes: 64 << 10,
		}
		return &http.Client{Transport: transport, CheckRedirect: refuseRedirect}, transport.CloseIdleConnections
	}
	copied := *o.HTTPClient
	if copied.CheckRedirect == nil {
		copied.CheckRedirect = refuseRedirect
	}
	return &copied, func() {}
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
