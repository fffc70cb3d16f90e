package kvsteer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/labels"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	"github.com/kvsteer/kvsteer/tenancy/salt"
)

// TenancyOptions are the settings of [WithTenancy]. Each part works without the others;
// the zero value lets everybody do everything.
type TenancyOptions struct {
	// Identify finds out whom a request comes from, unless Request.Identity says so.
	Identify tenancy.Resolver
	// RefuseUnverified refuses, with a [CodeUnauthenticated], requests that present what
	// is not valid, such as a token that has expired. By default they are anonymous.
	RefuseUnverified bool
	// RefuseAnonymous refuses, with a [CodeUnauthenticated], requests that nobody has
	// verified: neither Identify, nor the gateway by Request.Identity or Request.Tenant.
	RefuseAnonymous bool
	// PassCredentials passes Authorization, X-Api-Key and Api-Key on to workers where they
	// were no proof of the request's sender. By default, if there is an Identify, no worker
	// is sent these, nor headers that Identify would have believed of others: what clients
	// show the gateway is for the gateway. A worker that wants a key is given one by
	// TransportOptions.Base.
	PassCredentials bool

	// Limits let requests through, or refuse them with a [CodeLimited]. They are asked
	// when the prompt's length is known and before a worker is chosen.
	Limits Limits
	// Outputs estimates how long answers will be. Nil means one of the router's own.
	Outputs *quota.Outputs
	// Prices say what requests cost. Nil means nothing. What a model costs that has no
	// price is taken for nothing, and decisions say so. At a provider its own prices go
	// before these.
	Prices Prices

	// Ledger is told what was reserved and used.
	Ledger Ledger
	// RefuseUnrecorded refuses, with a [CodeUnavailable], requests that the Ledger does
	// not take. By default they are served, and the logger is told.
	RefuseUnrecorded bool

	// Salter keeps the caches of tenants apart: each request is sent to workers with its
	// tenant's cache salt, to providers with none, and to nobody with one that the client
	// chose.
	Salter *salt.Salter
	// ClientSalts lets clients divide their own tenant's cache further, by the salts that
	// they send. Without a Salter these are passed on as they are in any case.
	ClientSalts bool

	// Labels give tenants the values that they have in metrics: Decision.TenantLabel. What
	// they may become is told to the logger at the start. Nil means no labels.
	Labels *labels.Policy

	// private are headers that are never passed on.
	private []string
}

// Limits is who may be served now: a [quota.Limiter], or that of package redis. The error
// is, or wraps, a [*quota.Error] if the request is refused; any other means that nobody
// could find out, and the request is answered with a [CodeUnavailable].
type Limits interface {
	Admit(ctx context.Context, d *quota.Demand) (quota.Hold, error)
}

// Prices is what requests cost, in millionths of the currency: a [price.Table], for
// example. known is false if there is no price.
type Prices interface {
	Cost(provider, model string, t *price.Tokens) (cost int64, known bool)
}

// Ledger takes records of what requests reserve and use. Append must not block for longer
// than a moment; an error means that the record is not kept.
type Ledger interface {
	Append(r *ledger.Record) error
}

// WithTenancy sets whom requests come from and what they may use.
func WithTenancy(t TenancyOptions) Option {
	return optionFunc(func(o *options) {
		if t.Outputs == nil {
			t.Outputs = new(quota.Outputs)
		}
		t.private = nil
		if h, ok := t.Identify.(interface{ Headers() []string }); ok {
			t.private = h.Headers()
		}
		if t.Identify != nil && !t.PassCredentials {
			t.private = append(t.private, "Authorization", "X-Api-Key", "Api-Key")
		}
		o.tenancy = &t
	})
}

// byGateway is in Identity.By where the gateway itself has named the tenant.
const byGateway = "gateway"

// identify finds out whom a request comes from; nil without WithTenancy.
func (r *Router) identify(ctx context.Context, req *Request) (*tenancy.Identity, *Error) {
	t := r.opts.tenancy
	switch {
	case req.Identity != nil:
		if t != nil && t.RefuseAnonymous && !req.Identity.Verified() {
			return nil, anonymous()
		}
		return req.Identity, nil
	case t == nil:
		return nil, nil
	case req.Tenant != "":
		return &tenancy.Identity{Tenant: req.Tenant, Class: req.QoS, Priority: req.Priority, By: byGateway}, nil
	}
	id, err := r.resolve(ctx, t, req)
	if err != nil {
		return nil, err
	}
	if id == nil {
		id = tenancy.Anonymous()
	}
	if t.RefuseAnonymous && !id.Verified() {
		return nil, anonymous()
	}
	return id, nil
}

func anonymous() *Error {
	return &Error{Code: CodeUnauthenticated, Message: "the request says not, or not in a way that can be verified, whom it comes from"}
}

func (r *Router) resolve(ctx context.Context, t *TenancyOptions, req *Request) (*tenancy.Identity, *Error) {
	if t.Identify == nil {
		return nil, nil
	}
	id, err := t.Identify.Resolve(ctx, &tenancy.Presented{Header: req.Header, Remote: req.Remote, TLS: req.TLS})
	var wrong *tenancy.UnverifiedError
	switch {
	case err == nil:
		return id, nil
	case ctx.Err() != nil:
		return nil, canceled(ctx)
	case !errors.As(err, &wrong):
		r.warn("it could not be found out whom a request comes from", err)
		return nil, &Error{
			Code: CodeUnavailable, RetryAfter: retrySoon, Err: err,
			Message: "it could not be found out whom the request comes from",
		}
	case t.RefuseUnverified:
		r.warn("a request is refused, since what it presents is not valid", err)
		return nil, &Error{Code: CodeUnauthenticated, Err: err, Message: "what the request presents as proof of whom it comes from is not valid"}
	default:
		r.warn("a request is taken for anonymous, since what it presents is not valid", err)
		return nil, nil
	}
}

// warn tells the logger, of each kind once in a while.
func (r *Router) warn(kind string, err error) {
	l := r.opts.logger
	if l == nil {
		return
	}
	if untold, tell := r.warnings.due(kind, r.opts.now()); tell {
		l.Warn("kvsteer: "+kind, slog.Any("error", err), slog.Int("untold", untold)) //nolint:sloglint // a constant of each caller
	}
}

// belong makes the request one of id's, where the gateway has not said otherwise.
func (p *parsed) belong(id *tenancy.Identity) {
	if id == nil {
		return
	}
	h := &p.hints
	if h.tenant == "" {
		h.tenant = tenantOf(id)
	}
	if h.qos == "" {
		h.qos = id.Class
	}
	if h.priority == 0 {
		h.priority = id.Priority
	}
}

// tenantOf is the tenant's name. Who is known by another name only is nobody else's tenant
// either, least of all that of all whom nobody knows.
func tenantOf(id *tenancy.Identity) string {
	switch {
	case id.Tenant != "" || !id.Verified():
		return id.Tenant
	case id.Team != "":
		return "team:" + id.Team
	case id.Key != "":
		return "key:" + id.Key
	case id.Org != "":
		return "org:" + id.Org
	default:
		return "verified by " + id.By
	}
}

// label is what the tenant is called in metrics. It is asked once a request, since that is
// how traffic is counted.
func (o *options) label(tenant string) string {
	if o.tenancy == nil || o.tenancy.Labels == nil {
		return ""
	}
	return o.tenancy.Labels.Label(tenant)
}

// permitted refuses a model that id may not name. An empty one is not known.
func permitted(id *tenancy.Identity, model string) *Error {
	if id == nil || model == "" || id.MayUseModel(model) {
		return nil
	}
	return &Error{Code: CodeForbidden, Message: "the model " + quote(model) + " is not one of those that the request's tenant may use"}
}

// came fills in what a request that came over HTTP shows of its sender.
func (q *Request) came(req *http.Request) {
	q.Header, q.TLS = req.Header, req.TLS
	// It is the server's. What can't be read, such as that of a Unix socket, is nobody.
	q.Remote, _ = netip.ParseAddrPort(req.RemoteAddr)
}

// withheld are the headers of a request that no worker is to see: what proves, or would
// prove, whom it comes from.
func (o *options) withheld(id *tenancy.Identity) []string {
	var private []string
	if o.tenancy != nil {
		private = o.tenancy.private
	}
	if id == nil {
		return private
	}
	for _, name := range id.Spent {
		if !slices.Contains(private, name) {
			return slices.Concat(private, id.Spent)
		}
	}
	return private
}
