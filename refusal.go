package kvsteer

import (
	"errors"
	"net/http"
	"time"
)

// HookRefusal is told of every request that the router turns down before anybody is asked,
// once each and whatever the reason: a body that can't be read, a model that nobody
// serves, a limit, the policy, nobody well, too many in line, a path that is not forwarded,
// a router that was closed; and of those whose client went away before a worker was chosen
// ([CodeCanceled]). It is told when Select or Place return an error, and when a Transport does
// before it has asked for either; of second attempts it is not, they end with an [Outcome]. So every
// request has either a Refusal or an Outcome, but for those without a prompt that were
// forwarded, and those that a gateway refuses without a word: see [Router.Refuse].
type HookRefusal interface {
	OnRefusal(f *Refusal)
}

// Refusal is a request that was turned down. It may be kept.
type Refusal struct {
	// API is what the request was for, "" for one without a prompt that was to be forwarded.
	// Model is the model that it names, "" if it was not read so far: whatever a client
	// chose to write, of any length, and no label for metrics.
	API, Model string
	// TenantLabel is the tenant's name in metrics, "" without a [tenancy.Labels] or if it
	// is not known whom the request comes from.
	TenantLabel string
	// Took is the time from Select to the refusal, waiting for a worker included; 0 if it was
	// refused before.
	Took time.Duration
	// Err says why.
	Err *Error
}

// Refuse tells the hooks of a request that the gateway itself turns down, for a reason that
// the router never hears of: it is then counted as others are. An Err is needed, or nothing is
// told. It is not for errors of Select, Place or a Transport, of which the hooks know, nor for
// a request that has a [Selection]. It may be called from many goroutines at once.
func (r *Router) Refuse(f *Refusal) {
	if f == nil || f.Err == nil {
		return
	}
	for _, h := range r.opts.hooks.refusal {
		h.OnRefusal(f)
	}
}

// refusal tells the hooks that a request was turned down because of err.
func (r *Router) refusal(f Refusal, err error) {
	if len(r.opts.hooks.refusal) > 0 && errors.As(err, &f.Err) {
		r.Refuse(&f)
	}
}

// unread is refusal for a request whose body a Transport could not read.
func (t *Transport) unread(api string, err error) error {
	t.router.refusal(Refusal{API: api}, err)
	return err
}

// listed is refusal for a request about models that a Transport answers itself.
func (t *Transport) listed(model string, resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		t.router.refusal(Refusal{Model: model}, err)
	}
	return resp, err
}
