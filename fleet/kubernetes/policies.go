package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers/file"
)

// ErrNoPolicy: there is no InferencePolicy. Seen by operators in Policies.Status and
// OpenPolicies: the namespace or the selector is probably wrong. To have none, say so
// with PolicyOptions.AllowNone.
var ErrNoPolicy = errors.New("kubernetes: there is no InferencePolicy; correct namespace and selector, or allow none")

// Pauses between two attempts to read the cluster.
const (
	firstPause = time.Second
	maxPause   = 5 * time.Second
)

// PolicyOptions are for [OpenPolicies]. Client is required.
type PolicyOptions struct {
	// Client reads all kinds of kvsteer.dev, list and watch, and writes their status:
	// patch.
	Client dynamic.Interface
	// Namespaces are looked through. None means all.
	Namespaces []string
	// Selector is of labels of the policies. Empty means all of them.
	Selector string
	// AllowNone: without any policy the default is in force. Else having none is an
	// error, and what was in force stays.
	AllowNone bool
	// ReadOnly: nothing is written to the cluster.
	ReadOnly bool
	// Compile is what the policies are compiled with, Check says what they may refer to
	// beside the objects of the cluster. Together is always true.
	Compile policy.Options
	Check   policy.CheckOptions
	// Providers takes what the InferenceProviders say: a *[providers.Set], which is still to
	// be closed by whoever made it. Each object counts for itself. Nil: they are only checked.
	// ReadProviders says how they are read: which kinds there are besides, where Secrets are
	// mounted.
	Providers     file.Set
	ReadProviders file.Options
	// Timeout bounds the wait for each answer of the API server. Default 30 s.
	Timeout time.Duration
	// OnLoad is told of every Set that came into force after the first, OnError of every
	// problem, once: of an object (*[ObjectError]) or of reading the cluster. They are
	// called one after the other and must not call Close.
	OnLoad  func(*policy.Set)
	OnError func(error)
	// Logger gets a line for each of both. Nil: none.
	Logger *slog.Logger
}

// Policies is a policy that is what the InferencePolicies of a cluster say. It is safe
// for concurrent use. Create it with [OpenPolicies] and end it with Close.
//
// Each object counts for itself: one that is changed into something wrong goes on
// saying what it said before, and one that is new and wrong says nothing; its status
// and OnError tell why. InferenceProviders, GatewayBackends, pools and worker sets are
// read for their names, which policies may use; providers and backends are checked
// too, and providers given to PolicyOptions.Providers.
type Policies struct {
	opts PolicyOptions
	set  atomic.Pointer[policy.Set]
	// good is what each policy said last that was right, by namespace/name. Of providers
	// read is what they say, inForce what requests may be sent to.
	good          map[string]*policy.File
	read, inForce map[string]*served

	writer statusWriter
	told   *problems

	mu     sync.Mutex
	status PolicyStatus

	first chan error
	stop  context.CancelFunc
	done  chan struct{}
}

var _ policy.Source = (*Policies)(nil)

// PolicyStatus says what is in force and why it may be something else than what the
// cluster says.
type PolicyStatus struct {
	// Version is of the Set in force, Loaded is when it came, Loads counts them.
	Version string
	Loaded  time.Time
	Loads   uint64
	// Objects are the policies that are in force, as namespace/name.
	Objects []string
	// Errs are what is wrong with policies, by namespace/name.
	Errs map[string]error
	// Err is why the cluster can't be read or nothing can be loaded, nil if it can.
	Err error
}

// OpenPolicies reads the policies and goes on following them until Close. It fails if
// one of them is wrong, for there is nothing that it said before: to go on without it
// could send requests where it forbids. ctx bounds the wait.
func OpenPolicies(ctx context.Context, opts PolicyOptions) (*Policies, error) {
	common := Options{Timeout: opts.Timeout, Logger: opts.Logger, OnProblem: opts.OnError}
	if opts.Client == nil {
		return nil, errors.New("kubernetes: PolicyOptions.Client is nil; make one with dynamic.NewForConfig of client-go")
	}
	if err := errors.Join(checkSelector("PolicyOptions.Selector", opts.Selector), common.validate()); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Check.Together = true
	// Their life is bounded by Close, not by the context of opening them.
	life, stop := context.WithCancel(context.Background())
	p := &Policies{
		opts: opts, good: map[string]*policy.File{}, told: newProblems(&common),
		writer: statusWriter{Client: opts.Client, Timeout: opts.Timeout},
		first:  make(chan error, 1), stop: stop, done: make(chan struct{}),
	}
	go p.run(life, &common)
	var err error
	select {
	case err = <-p.first:
	case <-ctx.Done():
		err = errors.Join(fmt.Errorf("kubernetes: reading policies: %w", ctx.Err()), p.Status().Err)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Current implements [policy.Source]: the Set in force.
func (p *Policies) Current() policy.Policy { return p.set.Load() }

// Set is what is in force.
func (p *Policies) Set() *policy.Set { return p.set.Load() }

// Evaluate implements [policy.Policy] by the Set in force.
func (p *Policies) Evaluate(req *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	p.set.Load().Evaluate(req, candidates, plan)
}

// Status says how things stand. The caller must not modify what it refers to.
func (p *Policies) Status() PolicyStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Close ends following and waits until no hook runs. What is in force stays so.
// Further calls do nothing; the error is always nil.
func (p *Policies) Close() error {
	p.stop()
	<-p.done
	return nil
}

func (p *Policies) run(ctx context.Context, common *Options) {
	defer close(p.done)
	pause := firstPause
	for ctx.Err() == nil {
		err := keep(ctx, common, p.told, func(s *session) error {
			err := p.round(s)
			if err == nil {
				pause = firstPause
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		p.away(err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, maxPause)
	}
}

// away notes that the cluster can't be read.
func (p *Policies) away(err error) {
	p.mu.Lock()
	news := p.status.Err == nil || p.status.Err.Error() != err.Error()
	p.status.Err = err
	p.mu.Unlock()
	if !news {
		return
	}
	p.opts.Logger.Error("policies stay as they were", "error", err)
	if p.opts.OnError != nil {
		p.opts.OnError(err)
	}
}
