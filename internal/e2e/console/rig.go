package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
)

const model = "atlas-27b"

// rules are the policies of the demo: one decides, one is on trial. SPARED is a kind of card
// that the latter spares, and to which the former sends a tenant: so they differ for sure,
// and not only while prefixes happen to lie there.
const rules = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: house-rules}
spec:
  priority: 10
  rules:
  - name: personal-data
    matches:
    - tag: pii-detected
    route:
      exclude:
      - name: never-at-the-edge
        drop: {backend: {labels: {site: edge}}}
      - name: never-leaves
        drop: {backend: {type: Provider}}
      select: [{minimize: PredictedTTFT}]
      onEmpty: {action: Reject, status: 503, message: no worker of ours can serve this now}
  - name: bought-its-own-cards
    matches:
    - tenant: initech
    route:
      consider:
      - workers: {labels: {card: SPARED}}
      select: [{minimize: PredictedTTFT}]
      onEmpty: Reject
  - name: trials-are-over
    matches:
    - tenant: trial
    route:
      consider:
      - workers: {labels: {site: showroom}}
      select: [{minimize: PredictedTTFT}]
      onEmpty: {action: Reject, status: 429, message: the trial has ended}
  - name: goes-outside
    matches:
    - tenant: hooli
    route:
      select:
      - {type: Provider, order: [northcloud]}
      - {type: Local, minimize: PredictedTTFT}
      onEmpty: Reject
---
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: spare-the-old-cards}
spec:
  mode: Shadow
  rules:
  - name: h100-first
    matches:
    - qos: interactive
    route:
      exclude:
      - name: old-cards
        drop: {backend: {labels: {card: SPARED}}}
      select: [{minimize: PredictedTTFT}]
      onEmpty: Reject
`

// member is one fake engine of the demo.
type member struct {
	config   fleettest.Config
	labels   map[string]string
	class    string
	noEvents bool
}

// showFleet is a fleet that has something of everything.
func showFleet() []member {
	const speed = 8
	engine := func(name string, blocks int) fleettest.Config {
		return fleettest.Config{Name: name, Model: model, Blocks: blocks, Speed: speed, OutputTokens: 48}
	}
	h100 := engine("gpu-h100-0", 6000)
	h100.Ranks = 2
	return []member{
		{config: engine("gpu-a100-0", 4000), class: "a100", labels: map[string]string{"card": "a100"}},
		{config: engine("gpu-a100-1", 4000), class: "a100", labels: map[string]string{"card": "a100"}},
		{config: h100, class: "h100", labels: map[string]string{"card": "h100"}},
		{config: engine("gpu-l40s-0", 2500), class: "l40s", labels: map[string]string{"card": "l40s"}},
		{config: engine("edge-l40s-0", 2500), class: "l40s", labels: map[string]string{"site": "edge", "card": "l40s"}, noEvents: true},
		{config: engine("gpu-old-0", 2500), class: "t4", labels: map[string]string{"card": "t4"}},
	}
}

// rig is a gateway over fake engines, with a console.
type rig struct {
	engines []*fleettest.Engine
	fleet   *fleet.Fleet
	outside *providers.Set
	router  *kvsteer.Router
	console *debug.Handler
	server  *http.Server
	client  *http.Client
	address string
	served  chan struct{}
}

// start starts everything. spared is the kind of card that the shadow policy would spare.
func start(ctx context.Context, listen string, members []member, spared string) (*rig, error) {
	r := &rig{served: make(chan struct{})}
	if err := r.build(ctx, listen, members, spared); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) build(ctx context.Context, listen string, members []member, spared string) error {
	hub := follow.NewHub()
	var workers []fleet.Worker
	for _, m := range members {
		if !m.noEvents {
			m.config.Hub = hub
		}
		e, err := fleettest.Start(m.config)
		if err != nil {
			return err
		}
		r.engines = append(r.engines, e)
		w := e.Worker()
		w.Class, w.Labels = m.class, m.labels
		workers = append(workers, w)
	}
	err := r.external()
	if err != nil {
		return err
	}
	if r.fleet, err = fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ScrapeInterval: 250 * time.Millisecond, ProbeInterval: time.Second,
	}); err != nil {
		return err
	}
	set, err := policy.Load("rules.yaml", policyText(spared), policy.Options{})
	if err != nil {
		return err
	}
	seen := &debug.Recorder{}
	if r.router, err = kvsteer.New(
		kvsteer.WithFleet(r.fleet), kvsteer.WithProviders(r.outside), kvsteer.WithEvents(hub), kvsteer.WithPolicy(set), kvsteer.WithHooks(seen),
		kvsteer.WithTags("pii-detected"), kvsteer.WithQueue(kvsteer.QueueOptions{MaxWaiting: 64}),
	); err != nil {
		return err
	}
	if r.console, err = debug.New(r.router, debug.Options{Recorder: seen}); err != nil {
		return err
	}
	if err := r.serve(ctx, listen); err != nil {
		return err
	}
	return r.fleet.WaitReady(ctx)
}

// external makes a service that is none of the fleet's: another fake engine, which wants a
// key.
func (r *rig) external() error {
	const secret = "of-the-demo"
	cfg := fleettest.Config{Name: "northcloud", Model: model, APIKey: secret, Speed: 8, OutputTokens: 48}
	e, err := fleettest.Start(cfg)
	if err != nil {
		return err
	}
	r.engines = append(r.engines, e)
	r.outside, err = providers.New([]providers.Provider{{
		Name: "northcloud", Kind: providers.OpenAI{}, URL: e.URL(), Credentials: providers.Static(secret),
		Models: []providers.Model{{Name: model}},
	}}, providers.Options{})
	return err
}

func (r *rig) serve(ctx context.Context, listen string) error {
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	r.address = l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/debug/kvsteer/", http.StripPrefix("/debug/kvsteer", r.console))
	mux.Handle("/v1/", &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, ErrorHandler: kvsteer.WriteError,
		Transport: kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Describe: describe}),
		ErrorLog:  log.New(io.Discard, "", 0), // clients of the demo break off on purpose
	})
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(l) // ends by Close
	}()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	return nil
}

// describe is what a gateway knows of its clients; here they say so themselves.
func describe(h *http.Request, q *kvsteer.Request) {
	q.Tenant, q.QoS = h.Header.Get("X-Demo-Tenant"), h.Header.Get("X-Demo-Class")
	state := policy.TagAbsent
	if h.Header.Get("X-Demo-Pii") != "" {
		state = policy.TagPresent
	}
	q.Tags = []policy.Tag{{Name: "pii-detected", State: state}}
}

func (r *rig) close() {
	if r.console != nil {
		_ = r.console.Close()
	}
	if r.server != nil {
		_ = r.server.Close()
		<-r.served
	}
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	if r.router != nil {
		_ = r.router.Close()
	}
	if r.outside != nil {
		_ = r.outside.Close()
	}
	if r.fleet != nil {
		_ = r.fleet.Close()
	}
	for _, e := range r.engines {
		_ = e.Close()
	}
}
