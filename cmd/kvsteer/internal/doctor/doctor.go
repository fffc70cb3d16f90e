package doctor

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

const (
	// DefaultTimeout is that of Options.Timeout.
	DefaultTimeout = 30 * time.Second
	// maxAsk bounds one question to an engine, and askShare is the share of the
	// whole time that it may take at most.
	maxAsk   = 5 * time.Second
	askShare = 6
	// leastPatience is how long events and metrics are waited for at least, and
	// patienceShare the share of the whole time.
	leastPatience = 3 * time.Second
	patienceShare = 8
	// parallel workers are examined at a time.
	parallel = 16
)

// Options say what to examine.
type Options struct {
	// Workers of the fleet. They must be valid, see [fleet.Validate].
	Workers []fleet.Worker
	// Discover takes the ranks and event addresses of a worker that has none from the
	// engine itself, where it tells them. Without it they are advice only.
	Discover bool
	// Files are the models whose prompts are computed here, by name.
	Files map[string]local.Model
	// Probe allows requests that make the engines compute something.
	Probe bool
	// Key, if not empty, is sent to the workers as a bearer token.
	Key string
	// Timeout bounds everything together. 0 means [DefaultTimeout].
	Timeout time.Duration
	// Events subscribes to event publishers. Nil means ZeroMQ in pure Go.
	Events follow.Transport
	// Now is the clock that engines' clocks are compared with. Nil means time.Now.
	Now func() time.Time
}

func (o *Options) complete() {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Events == nil {
		o.Events = &zmtp.Transport{HandshakeTimeout: o.ask(), RetryMax: time.Second}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// ask is how long one question may take.
func (o *Options) ask() time.Duration { return min(maxAsk, o.Timeout/askShare) }

// patience is how long events and metrics are waited for.
func (o *Options) patience() time.Duration { return max(leastPatience, o.Timeout/patienceShare) }

// check looks at one thing. What it returns is filed under its name.
type check struct {
	name string
	// http: it makes no sense while the worker doesn't answer at all.
	http bool
	run  func(ctx context.Context, p *patient) findings
}

// checks are all of them, in order.
func checks() []check {
	return []check{
		{"health", false, checkHealth},
		{"clock", true, checkClock},
		{"engine", true, checkEngine},
		{"models", true, checkModels},
		{"files", true, checkFiles},
		{"tokens", true, checkTokens},
		{"metrics", true, checkMetrics},
		{"caching", true, checkCaching},
		{"ranks", true, checkRanks},
		{"events", false, checkEvents},
		{"probe", true, checkProbe},
		{"blocks", true, checkBlocks},
	}
}

// Run examines the fleet. The error says that it could not be done at all; what is
// wrong with workers is in the Report.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.complete()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	client := newClient()
	defer client.CloseIdleConnections()
	watched, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(o.Workers...), HTTPClient: client, ProbeTimeout: o.ask(),
		Prepare: func(r *http.Request, _ *fleet.Worker) { authorise(r.Header, o.Key) },
	})
	if err != nil {
		return nil, err
	}
	defer watched.Close() //nolint:errcheck // it has nothing to report
	files := loadFiles(o.Files)
	defer files.close()

	patients := make([]*patient, len(o.Workers))
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i := range o.Workers {
		patients[i] = newPatient(&o, &o.Workers[i], client, watched, files)
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			patients[i].examine(ctx)
		})
	}
	wg.Wait()
	return newReport(o.Now(), files.findings(patients), patients), nil
}

// examine runs the checks.
func (p *patient) examine(ctx context.Context) {
	defer p.close()
	p.settle(ctx)
	for _, c := range checks() {
		var found findings
		switch {
		case ctx.Err() != nil:
			found = fault("there was no time left to look").advise("Give it more with -timeout.")
		case c.http && !p.reachable:
			found = skipped("the worker does not answer")
		default:
			found = c.run(ctx, p)
		}
		for i := range found {
			found[i].Check = c.name
		}
		found.explained(p.found)
		p.found = append(p.found, found...)
	}
}

// newClient is one that goes to the workers themselves and nowhere else.
func newClient() *http.Client {
	const (
		idle      = 30 * time.Second
		maxHeader = 64 << 10 // bytes of an answer's
	)
	return &http.Client{
		Transport: &http.Transport{
			DialContext: new(net.Dialer).DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: idle, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func authorise(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}
