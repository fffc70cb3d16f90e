package providers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// account is a provider's credentials and what became of them. It outlives an Update that
// leaves the source as it is.
type account struct {
	source CredentialSource
	pool   *pool
	// What must stay for the account to be kept: as it was configured.
	given CredentialSource
	kind  Kind
	url   string

	// closedUntil is set while the service refuses the credentials: Unix nanoseconds, 0 for not.
	closedUntil atomic.Int64

	mu   sync.Mutex
	call *fetch     // the one that is under way
	last Credential // what was sent last, to see it change
}

// pool is where credentials are fetched: what Close ends.
type pool struct {
	timeout time.Duration
	ctx     context.Context //nolint:containedctx // that of all fetches, each of which serves several requests
	stop    context.CancelFunc

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup
}

func newPool(timeout time.Duration) *pool {
	p := &pool{timeout: timeout}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// run calls f in a goroutine of its own. It reports whether it does.
func (p *pool) run(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.wg.Go(f)
	return true
}

// close ends fetches, and waits for them.
func (p *pool) close() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.stop()
	p.wg.Wait()
}

type fetch struct {
	done chan struct{}
	c    Credential
	err  error
}

// The reasons why there is no credential. They are the operator's, in logs.
var (
	errClosed       = errors.New("the Set is closed")
	errNoCredential = errors.New("the credential is empty; check its source")
	errPanic        = errors.New("the credential's source panicked")
	errBadSecret    = errors.New("the credential has characters that no header can have; check its source")
)

// credential returns what to send. Requests that come while a source is being asked share
// its answer.
func (a *account) credential(ctx context.Context) (Credential, error) {
	switch s := a.source.(type) {
	case nil:
		return Credential{}, nil
	case static:
		return s.c, nil
	case *followed:
		c := s.get()
		a.saw(c)
		return c, nil
	default:
	}
	f, err := a.fetch()
	if err != nil {
		return Credential{}, err
	}
	select {
	case <-f.done:
		return f.c, f.err
	case <-ctx.Done():
		return Credential{}, context.Cause(ctx)
	}
}

func (a *account) fetch() (*fetch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.call != nil {
		return a.call, nil
	}
	f := &fetch{done: make(chan struct{})}
	if !a.pool.run(func() { a.run(f) }) {
		return nil, errClosed
	}
	a.call = f
	return f, nil
}

// run asks the source. Whoever waits for one that doesn't heed its deadline gets an error
// in time, as does whoever comes until it has answered: it is not asked by two at a time.
func (a *account) run(f *fetch) {
	ctx, cancel := context.WithTimeout(a.pool.ctx, a.pool.timeout)
	defer cancel()
	var once sync.Once
	end := func(c Credential, err error) { once.Do(func() { f.c, f.err = c, err; close(f.done) }) }
	alarm := context.AfterFunc(ctx, func() {
		end(Credential{}, fmt.Errorf("the credential's source gave none within %v", a.pool.timeout))
	})
	defer alarm()
	c, err := ask(ctx, a.source)
	if err == nil {
		a.saw(c)
	}
	a.mu.Lock()
	a.call = nil
	a.mu.Unlock()
	end(c, err)
}

// ask asks a source, whose panic is an error.
func ask(ctx context.Context, s CredentialSource) (c Credential, err error) {
	defer func() {
		if recover() != nil { // what it says may hold a secret
			c, err = Credential{}, errPanic
		}
	}()
	c, err = s.Credential(ctx)
	if err != nil {
		return Credential{}, fmt.Errorf("the credential's source failed: %w", err)
	}
	return c, usable(c.Reveal())
}

// usable says whether a secret can be sent.
func usable(secret string) error {
	if secret == "" {
		return errNoCredential
	}
	for i := range len(secret) {
		if c := secret[i]; c <= ' ' || c > '~' {
			return errBadSecret
		}
	}
	return nil
}

// saw notes what is sent. Another credential than was refused is worth a try at once.
func (a *account) saw(c Credential) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c != a.last {
		a.last = c
		a.closedUntil.Store(0)
	}
}

// refuse closes the account for a while, or until its credential is another one. c is what
// was refused, the zero Credential if there was none to send. It reports whether the account
// was open.
func (a *account) refuse(now time.Time, pause time.Duration, c Credential) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c != (Credential{}) {
		if a.last != (Credential{}) && c != a.last {
			return false // refused was one that isn't sent any more
		}
		a.last = c
	}
	return a.closedUntil.Swap(now.Add(pause).UnixNano()) <= now.UnixNano()
}

// authPause is how long a provider that refuses our credentials is left alone, unless they change.
const authPause = time.Minute

// sourcePause is how long it is left alone after its credential could not be had.
const sourcePause = 10 * time.Second

// closed is how long the account is closed for, 0 for not.
func (a *account) closed(now time.Time) time.Duration {
	until := a.closedUntil.Load()
	if until == 0 {
		return 0
	}
	if f, ok := a.source.(*followed); ok {
		a.saw(f.get())
		until = a.closedUntil.Load()
	}
	return max(time.Unix(0, until).Sub(now), 0)
}
