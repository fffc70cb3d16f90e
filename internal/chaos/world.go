package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/file"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
	"github.com/kvsteer/kvsteer/replica/replicatest"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// world is one or two gateways and everything around them.
type world struct {
	plan  Plan
	setup setup
	dir   string
	host  string
	// patience bounds waits for what must happen.
	patience time.Duration

	// The clocks of the router, the fleet, the limits and the providers; and of the second
	// gateway's router and fleet.
	clocks  [6]clock
	journal journal
	sites   []*site
	names   int // of engines, so far
	// sharedNames are those of engines that private requests must not go to.
	sharedNames sync.Map
	cables      cables
	inventory   *inventory
	listed      []fleet.Worker // what the fleet is to have, once it could be told
	tokenizer   tokenizers
	encoder     *prompt.Encoder
	source      *file.Source
	version     string // of the policy that is to be in force
	gate        gate
	tally       *Tally
	vault       vault
	ledger      *ledger.Ledger
	provider    *providertest.Server
	provides    atomic.Int32 // what the provider does
	set         *providers.Set
	bus         *replicatest.Bus
	gateways    []*gateway
	past        []*gateway // that were closed
	http        *http.Client
	losses      observer // of the ledger

	clients  int
	checked  int          // of ended, so many
	noted    *Violation   // of a step
	numbers  map[int]bool // of prompts that were sent
	nudges   int
	failed   error // of the world itself
	mended   bool  // nothing fails any more
	provided atomic.Int64
	open     []*client
	ended    []*client
	bodies   map[int]string // by client
	prompts  map[int]string // the same, for who only computes the prompt, without what asks for that
	driven   atomic.Int64   // Selections that were driven by hand
	leavers  sync.Map       // clients that leave on a leg, by id
	relics   []relic
	senders  sync.WaitGroup
	pulse    pulse

	stopPulse func()

	closers []func() error // last first
}

// hosts gives every world an address of its own, where there are enough, and every process
// others: a port that one has closed can't be taken by another before it listens there again.
var hosts atomic.Uint32 //nolint:gochecknoglobals // worlds of one process must not share an address

func newHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	n := hosts.Add(1)
	return net.IPv4(127, 1+byte(os.Getpid()%250), byte(n/250%250), 2+byte(n%250)).String()
}

// build makes the world of a plan. dir is for its files. On an error close is to be called
// all the same.
func build(plan Plan, o Options, dir string) (*world, error) {
	w := &world{
		plan: plan, patience: o.patience(), setup: plan.setup(), dir: dir, host: newHost(),
		bodies: make(map[int]string), prompts: make(map[int]string), numbers: make(map[int]bool), inventory: newInventory(), tally: o.Tally,
	}
	w.provides.Store(providerWorks)
	stop := make(chan struct{})
	w.senders.Go(func() { w.pulse.beat(stop) })
	w.stopPulse = sync.OnceFunc(func() { close(stop) })
	logger := slog.New(slog.NewJSONHandler(&w.journal, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, part := range []func(*slog.Logger) error{
		w.buildSites, w.buildEncoder, w.buildTenancy, w.buildPolicy, w.buildProviders, w.buildGateways,
	} {
		if err := part(logger); err != nil {
			return w, err
		}
	}
	return w, nil
}

// closing notes how something is closed, which is done in reverse order.
func (w *world) closing(f func() error) { w.closers = append(w.closers, f) }

func (w *world) buildSites(*slog.Logger) error {
	for i := range w.setup.engines {
		s := &site{world: w, index: i}
		for range w.setup.ranks {
			s.wires = append(s.wires, &wire{host: w.host})
		}
		w.sites = append(w.sites, s)
		w.closing(s.close)
		if err := s.occupy(); err != nil {
			return err
		}
	}
	w.listed = w.workers()
	w.inventory.put(w.listed, inventoryTells)
	return nil
}

func (w *world) buildEncoder(*slog.Logger) error {
	w.tokenizer.base = &http.Transport{}
	w.encoder = prompt.NewEncoder(prompt.Options{
		Client: &http.Client{Transport: &w.tokenizer}, Deadline: tokenizerTime, Now: w.clocks[0].now,
	})
	w.closing(func() error {
		defer w.tokenizer.base.CloseIdleConnections()
		return w.encoder.Close()
	})
	return nil
}

func (w *world) buildTenancy(logger *slog.Logger) error {
	limiter, err := quota.New(quota.Options{
		Now: w.clocks[2].now, MaxAge: maxIdle,
		Rules: []quota.Rule{
			{Name: "tight", Tenants: []string{tightTenant}, Scope: quota.PerTenant, Tokens: quota.Rate{Amount: tightRate, Burst: tightBurst}},
			{Name: "all", Scope: quota.PerTenant, Concurrency: 64, Tokens: quota.Rate{Amount: 1 << 30}, Requests: quota.Rate{Amount: 1 << 20}},
		},
	})
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	w.gate.to = limiter
	l, err := ledger.New(ledger.Options{Sink: &w.vault, Logger: logger, OnLost: w.losses.onLost})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	w.ledger = l
	w.closing(l.Close)
	return nil
}

func (w *world) buildPolicy(logger *slog.Logger) error {
	if err := os.WriteFile(w.policyPath(), []byte(goodPolicies()[0]), 0o600); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	source, err := file.Open(w.policyPath(), file.Options{
		// The world looks when it has written.
		Interval: time.Hour, Logger: logger, Check: policy.CheckOptions{Tags: []string{tagPrivate}},
	})
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	w.source = source
	w.closing(source.Close)
	w.version = source.Status().Version
	return nil
}

func (w *world) policyPath() string { return filepath.Join(w.dir, "policy.yaml") }

func (w *world) buildProviders(logger *slog.Logger) error {
	p, err := providertest.Start(providertest.OpenAI, providertest.Options{Key: providerKey, Reply: w.mischief})
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	w.provider = p
	w.closing(p.Close)
	if !w.setup.outside {
		return nil
	}
	w.set, err = providers.New([]providers.Provider{{
		Name: providerName, Kind: providers.OpenAI{}, URL: p.URL(), Credentials: providers.Static(providerKey),
		Models: []providers.Model{{Name: model}}, MaxConcurrent: 100,
	}}, providers.Options{Now: w.clocks[3].now, Logger: logger})
	if err != nil {
		return fmt.Errorf("providers: %w", err)
	}
	w.closing(w.set.Close)
	return nil
}

// describe is what the gateway knows of a request.
func (w *world) describe(r *http.Request, q *kvsteer.Request) {
	if only := r.Header.Get(headerAmong); only != "" {
		q.Among, q.WorkersOnly = strings.Split(only, ","), true
	}
	q.Tenant = r.Header.Get(headerTenant)
	q.Tags = w.tags(r.Header.Get(headerPrivate) != "")
}

func (w *world) tags(private bool) []policy.Tag {
	state := policy.TagAbsent
	if private {
		state = policy.TagPresent
	}
	return []policy.Tag{{Name: tagPrivate, State: state}}
}

// close ends everything there is, in the order in which users are to.
func (w *world) close() error {
	var errs []error
	for _, c := range slices.Backward(w.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// launch starts a goroutine that the world waits for.
func (w *world) launch(ctx context.Context, c *client, run func(context.Context, *client)) {
	c.met = c.gateway.weather()
	c.met.late = w.pulse.late()
	w.open = append(w.open, c)
	w.senders.Go(func() { run(ctx, c) })
}
