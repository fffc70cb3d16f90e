package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/tenancy/labels"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	"github.com/kvsteer/kvsteer/tenancy/salt"
)

// base is the model that all workers serve.
const base = "base"

// patient is for whatever must happen, on a machine that others use.
const patient = 2 * time.Minute

// Headers by which the load says what a gateway would have found out.
const (
	headerTenant = "X-Soak-Tenant"
	headerClass  = "X-Soak-Class"
)

// classGreedy is for tenants that ask for more than they may.
const classGreedy = "greedy"

// rig is the gateway and what it needs.
type rig struct {
	list      *list
	fleet     *fleet.Fleet
	encoder   *prompt.Encoder
	asks      *http.Transport // of the encoder
	limits    *quota.Limiter
	sink      *ledger.JSONL
	ledger    *ledger.Ledger
	books     books
	metrics   *prometheus.Metrics
	registry  *prom.Registry
	router    *kvsteer.Router
	transport *kvsteer.Transport
	leaks     *leaks
	injected  *injected
	trails    sync.Map // of requests under way, by number
	server    *http.Server
	served    chan struct{}
	address   string
	folder    string
	idle      float64 // bytes of the heap, see idle.go
}

// books count what the ledger has acknowledged.
type books struct{ reserved, settled, voided, lost atomic.Int64 }

func (b *books) durable(records []ledger.Record) {
	for i := range records {
		switch records[i].State {
		case ledger.Reserved:
			b.reserved.Add(1)
		case ledger.Settled:
			b.settled.Add(1)
		case ledger.Voided:
			b.voided.Add(1)
		}
	}
}

func newRig(ctx context.Context, c *config) (*rig, error) {
	r := &rig{list: newList(), registry: prom.NewRegistry(), folder: c.folder, injected: newInjected()}
	err := r.build(c)
	if err == nil {
		err = r.listen(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) build(c *config) (err error) {
	// Nothing here may be judged by how fast this machine is, which others use as well.
	if r.fleet, err = fleet.New(fleet.Options{
		Discoverer: r.list, ProbeInterval: time.Second, ScrapeInterval: 2 * time.Second,
		ProbeTimeout: patient, UnhealthyAfter: 50, StaleAfter: patient,
	}); err != nil {
		return err
	}
	r.asks = &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	r.encoder = prompt.NewEncoder(prompt.Options{
		Sources: []prompt.Source{ownTokens{}}, Client: &http.Client{Transport: r.asks}, Deadline: 5 * time.Second, CacheBytes: 1 << 20,
	})
	tenancy, err := r.tenancy(c)
	if err != nil {
		return err
	}
	if r.router, err = kvsteer.New(
		kvsteer.WithFleet(r.fleet), kvsteer.WithEvents(&zmtp.Transport{}), kvsteer.WithEncoder(r.encoder), kvsteer.WithHooks(r.metrics),
		kvsteer.WithIndex(kvcache.Options{MaxBytes: 64 << 20}), kvsteer.WithTenancy(tenancy),
		kvsteer.WithQueue(kvsteer.QueueOptions{Hold: time.Second, MaxWaiting: 1 << 16, MaxWait: patient}),
	); err != nil {
		return err
	}
	r.metrics.Attach(r.router)
	var leaking error
	r.leaks, leaking = newLeaks(c.leak, r.router, r.registry)
	return errors.Join(r.registry.Register(r.metrics), leaking)
}

func (r *rig) tenancy(c *config) (kvsteer.TenancyOptions, error) {
	var o kvsteer.TenancyOptions
	var err error
	rules := []quota.Rule{
		{
			Name: "greedy", Level: "rate", Scope: quota.PerTenant, Classes: []string{classGreedy},
			Requests: quota.Rate{Amount: 1, Per: time.Second, Burst: 2},
		},
		{
			Name: "tenants", Level: "rate", Scope: quota.PerTenant,
			Requests: quota.Rate{Amount: 1000, Per: time.Second}, Tokens: quota.Rate{Amount: 1 << 20, Per: time.Second},
		},
	}
	if c.warm >= 2*time.Minute { // else those who have come in a window become more all the time
		budget := quota.Budget{Tokens: 1 << 40, Window: time.Minute}
		rules = append(rules, quota.Rule{Name: "minute", Level: "budget", Scope: quota.PerTenant, Budget: budget})
	}
	if r.limits, err = quota.New(quota.Options{MaxAge: 10 * time.Minute, Rules: rules}); err != nil {
		return o, err
	}
	prices, err := price.New([]price.Entry{{Provider: price.Fleet, Model: "*", Prices: price.Prices{Input: 100_000, Output: 400_000}}}, nil)
	if err != nil {
		return o, err
	}
	if r.sink, err = ledger.OpenJSONL(filepath.Join(r.folder, "usage.jsonl"), ledger.JSONLOptions{MaxBytes: 16 << 20}); err != nil {
		return o, err
	}
	if r.ledger, err = ledger.New(ledger.Options{
		Sink: r.sink, Spool: filepath.Join(r.folder, "usage.spool"), OnDurable: r.books.durable, CloseTimeout: patient,
		OnLost: func(*ledger.Record, error) { r.books.lost.Add(1) },
	}); err != nil {
		return o, err
	}
	salter, err := salt.New(salt.Key{ID: "soak", Secret: bytes.Repeat([]byte("s"), salt.MinSecret)})
	if err != nil {
		return o, err
	}
	// The series of a model end an hour after its last use: here that is a fifth of the warm-up.
	began, faster := time.Now(), float64(time.Hour)/float64(c.warm/5)
	clock := func() time.Time { return began.Add(time.Duration(float64(time.Since(began)) * faster)) }
	if r.metrics, err = prometheus.New(prometheus.Options{Limiter: r.limits, Ledger: r.ledger, Now: clock}); err != nil {
		return o, err
	}
	named, err := labels.New(labels.Options{Mode: labels.All, Budget: 50, Window: 5 * time.Second, OnFold: r.metrics.FoldTenant})
	if err != nil {
		return o, err
	}
	return kvsteer.TenancyOptions{
		Limits: r.limits, Prices: prices, Ledger: r.ledger, RefuseUnrecorded: true, Salter: salter, Labels: named,
	}, nil
}

func (r *rig) listen(ctx context.Context) error {
	r.transport = kvsteer.NewTransport(r.router, kvsteer.TransportOptions{
		Describe: func(h *http.Request, q *kvsteer.Request) {
			q.Tenant, q.QoS = h.Header.Get(headerTenant), h.Header.Get(headerClass)
		},
		Base: &witness{base: kvsteer.NewBase(), injected: r.injected},
		OnDecision: func(h *http.Request, d *kvsteer.Decision) {
			if t := trailOf(h.Context()); t != nil {
				if w := d.Winner(); w != nil {
					t.choose(w.Name)
				}
			}
		},
	})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: r.transport, ErrorHandler: kvsteer.WriteError,
		ErrorLog: log.New(io.Discard, "", 0), // clients break off on purpose
	}
	named := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if t, ok := r.trails.Load(q.Header.Get(headerNumber)); ok {
			q = q.WithContext(context.WithValue(q.Context(), trailKey{}, t))
		}
		proxy.ServeHTTP(w, q)
	})
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.address, r.served = l.Addr().String(), make(chan struct{})
	r.server = &http.Server{Handler: r.leaks.wrap(named), ReadHeaderTimeout: patient, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(l) // ends by Shutdown
	}()
	return nil
}

// prune deletes the ledger's files that are complete, as whoever has charged them would.
func (r *rig) prune() error {
	old, err := filepath.Glob(filepath.Join(r.folder, "usage-*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// close ends everything in the order that the documentation gives.
func (r *rig) close() error {
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if r.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		add("the server's Shutdown", r.server.Shutdown(ctx))
		<-r.served
		r.transport.CloseIdleConnections()
	}
	if r.leaks != nil {
		r.leaks.close()
	}
	if r.router != nil {
		add("the router's Close", r.router.Close())
	}
	if r.encoder != nil {
		add("the encoder's Close", r.encoder.Close())
		r.asks.CloseIdleConnections()
	}
	if r.fleet != nil {
		add("the fleet's Close", r.fleet.Close())
	}
	if r.ledger != nil {
		add("the ledger's Close", r.ledger.Close())
	}
	if r.sink != nil {
		add("the sink's Close", r.sink.Close())
	}
	return errors.Join(errs...)
}
