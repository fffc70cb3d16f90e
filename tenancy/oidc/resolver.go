package oidc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/tenancy"
)

const byToken = "jwt"

// ErrKeys: the keys of a token's issuer can't be had, so that nobody knows whether it is
// valid. Seen by whoever resolves; the cause is wrapped, too, and Options.OnError has it.
var ErrKeys = errors.New("tenancy/oidc: the issuer's keys can't be had")

// ErrClosed: the Resolver was closed.
var ErrClosed = errors.New("tenancy/oidc: the Resolver is closed")

// Resolver is a [tenancy.Resolver] by tokens. It is safe for concurrent use, and ends
// with Close.
type Resolver struct {
	opts    Options
	client  *http.Client
	own     *http.Transport // if the client is ours
	issuers map[string]*keySet

	ctx  context.Context //nolint:containedctx // what Close ends
	stop func()

	mu      sync.Mutex
	closed  bool
	fetches sync.WaitGroup
}

var _ tenancy.Resolver = (*Resolver)(nil)

// New returns a Resolver. It fetches nothing yet: a gateway starts even if an issuer is
// down. Use [Resolver.Ready] to wait.
func New(opts Options) (*Resolver, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	r := &Resolver{opts: opts, issuers: make(map[string]*keySet, len(opts.Issuers))}
	r.client = r.newClient()
	r.ctx, r.stop = context.WithCancel(context.Background())
	for i := range r.opts.Issuers {
		is := &r.opts.Issuers[i]
		r.issuers[is.URL] = &keySet{resolver: r, issuer: is}
	}
	return r, nil
}

// Close ends fetches and waits for them. From then on every token is answered by
// [ErrClosed]. Further calls do nothing; the error is always nil.
func (r *Resolver) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.fetches.Wait()
	if r.own != nil {
		r.own.CloseIdleConnections()
	}
	return nil
}

// Ready waits until the keys of every issuer are there, and returns what is wrong with
// those whose are not, which wraps [ErrKeys]. It tries once, or, if MinInterval has not
// passed since another try, tells of that.
func (r *Resolver) Ready(ctx context.Context) error {
	errs := make([]error, len(r.opts.Issuers))
	var wg sync.WaitGroup
	for i := range r.opts.Issuers {
		wg.Go(func() { errs[i] = r.issuers[r.opts.Issuers[i].URL].ready(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Status says how it stands with an issuer.
type Status struct {
	Issuer string
	// Keys is how many there are that can be used, Fetched is when they came.
	Keys    int
	Fetched time.Time
	// Err is why the last fetch failed, nil if it didn't.
	Err error
}

// Status is that of every issuer, in the order of Options.
func (r *Resolver) Status() []Status {
	out := make([]Status, len(r.opts.Issuers))
	for i := range r.opts.Issuers {
		out[i] = r.issuers[r.opts.Issuers[i].URL].status()
	}
	return out
}

// Resolve implements [tenancy.Resolver]. It blocks only where the keys for a token have
// to be fetched, no longer than ctx and Options.Timeout allow.
func (r *Resolver) Resolve(ctx context.Context, p *tenancy.Presented) (*tenancy.Identity, error) {
	secret, headers, err := p.Secret(byToken)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(headers, "Authorization") || !isToken(secret):
		return nil, nil //nolint:nilnil // as Resolver's contract has it
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	t, err := r.parse(secret)
	if err != nil {
		return nil, err
	}
	payload, err := t.verify(ctx)
	if err != nil {
		return nil, err
	}
	id, err := r.identity(t.keys.issuer, payload)
	if err != nil {
		return nil, err
	}
	id.By, id.Spent = byToken, headers
	if err := id.Validate(); err != nil {
		return nil, &tenancy.UnverifiedError{Kind: byToken, Reason: "a claim is not fit", Err: err}
	}
	return id, nil
}

// refused is an error about a token. Reasons are fixed: nothing of a token is in them.
func refused(reason string) error { return &tenancy.UnverifiedError{Kind: byToken, Reason: reason} }
