package prompt

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// Encoder turns requests into token ids by an ordered chain of sources. Make it
// with [NewEncoder], close it when done. Safe for concurrent use.
type Encoder struct {
	opts    Options
	direct  []Source // run by the caller, before the cache
	chain   []Source
	cache   *lru
	health  *health
	client  *http.Client
	ownsCli bool

	root   context.Context //nolint:containedctx // ends what runs when Close is called
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	flights map[cacheKey]*flight
	joined  uint64
	running sync.WaitGroup

	served served
}

// planner is a source that knows without working whether it could serve.
type planner interface {
	plan(r *Request) (endpoint, error)
}

// NewEncoder returns an Encoder. It starts nothing until it is used.
func NewEncoder(o Options) *Encoder {
	o = o.withDefaults()
	e := &Encoder{opts: o, cache: newLRU(o.CacheBytes), flights: map[cacheKey]*flight{}}
	if o.Client == nil {
		e.client, e.ownsCli = newClient(), true
	} else {
		e.client = staying(o.Client)
	}
	e.root, e.cancel = context.WithCancel(context.Background())
	e.health = newHealth(o.Now, o.MaxCalls)
	c := &caller{client: e.client, health: e.health, maxReply: o.MaxReply}
	local := 0
	for local < len(o.Sources) && o.Sources[local].Kind() == SourceLocal {
		local++
	}
	e.direct = append(e.direct, o.Sources[:local]...)
	e.chain = append(e.chain, o.Sources[local:]...)
	if !o.NoRender {
		e.chain = append(e.chain, render{c})
	}
	if !o.NoTokenize {
		e.chain = append(e.chain, tokenize{c})
	}
	return e
}

// Encode returns the request's prompt as exactly as its sources can within the
// deadline. The only error is a [*BodyError], the client's fault. All else, the
// end of ctx included, gives an Encoding that says how it is degraded.
func (e *Encoder) Encode(ctx context.Context, r *Request) (Encoding, error) {
	began := e.opts.Now()
	enc, err := e.encode(ctx, r)
	if err == nil {
		e.served.count(enc.Source, e.opts.Now().Sub(began))
	}
	return enc, err
}

func (e *Encoder) encode(ctx context.Context, r *Request) (Encoding, error) {
	q := *r
	some, err := q.parse()
	if err != nil || !some {
		return Encoding{}, err
	}
	enc, err := callerIDs(&q, q.Object)
	if err == nil {
		return enc, nil
	}
	var degraded []Degradation
	note(&degraded, SourceCaller, err)
	enc, found := e.compute(ctx, &q, &degraded)
	if found {
		if degraded != nil || enc.Degraded == nil {
			enc.Degraded = append(degraded, enc.Degraded...) // what a source says about itself comes last
		}
		return enc, nil
	}
	enc, found = e.ask(ctx, &q)
	if degraded == nil {
		degraded = enc.Degraded
	} else {
		degraded = append(degraded, enc.Degraded...)
	}
	if !found {
		degraded = slices.Clip(degraded) // others may wait for the same
		if enc, found = e.begin(ctx, &q, &degraded); !found {
			enc = bytesOf(q.API, q.Object)
		}
	}
	enc.Degraded = degraded
	if enc.Source == SourceNone {
		enc.Degraded = nil // nothing is missing from no prompt
	}
	return enc, nil
}

// parse fills in the Object and reports whether there is a prompt.
func (r *Request) parse() (bool, error) {
	if r.TokenIDs != nil {
		return true, nil
	}
	if len(r.Object.Bytes()) == 0 {
		if len(r.Body) == 0 {
			return false, nil
		}
		o, err := jsonscan.Parse(r.Body, 0)
		if err != nil {
			return false, bodyError(err)
		}
		r.Object = o
	}
	return !promptless(r.API, r.Object), nil
}

// compute tries the sources that need nobody. They are as fast as the hash of the
// body that the cache takes, so they go without it, and equal prompts at the same
// time are computed each for itself.
func (e *Encoder) compute(ctx context.Context, r *Request, passed *[]Degradation) (Encoding, bool) {
	if len(e.direct) == 0 {
		return Encoding{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.deadline(len(r.Object.Bytes())))
	defer cancel()
	for _, s := range e.direct {
		var enc Encoding
		err := ctx.Err()
		if err == nil {
			enc, err = s.Encode(ctx, r)
		}
		if err == nil {
			return enc, true
		}
		note(passed, s.Kind(), err)
	}
	return Encoding{}, false
}

// begin computes the beginning of a prompt that nobody has all of. It is of use
// where it is most of the prompt. Where it isn't, the bytes of all of it say more: that
// a conversation goes on behind its image, for example.
func (e *Encoder) begin(ctx context.Context, r *Request, passed *[]Degradation) (Encoding, bool) {
	for _, s := range e.opts.Sources {
		p, ok := s.(Prefixer)
		if !ok {
			continue
		}
		enc, err := e.prefix(ctx, p, r)
		switch {
		case err != nil:
		case enc.Source != SourcePrefix || len(enc.Tokens) == 0:
			err = errSourceFailed
		case len(enc.Tokens) < enc.Count-len(enc.Tokens):
			err = errShortPrefix
		default:
			*passed = append(*passed, enc.Degraded...) // what is not sure about it comes last
			return enc, true
		}
		note(passed, SourcePrefix, err)
	}
	return Encoding{}, false
}

func (e *Encoder) prefix(ctx context.Context, p Prefixer, r *Request) (Encoding, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.deadline(len(r.Object.Bytes())))
	defer cancel()
	if err := ctx.Err(); err != nil {
		return Encoding{}, err //nolint:wrapcheck // note knows it
	}
	return p.Prefix(ctx, r) //nolint:wrapcheck // a source's own
}

// ask gets the encoding from the cache or the chain. When it is not found it
// has only degradations.
func (e *Encoder) ask(ctx context.Context, r *Request) (Encoding, bool) {
	passed, hopeless := e.plan(r)
	if hopeless && (e.cache.max < 0 || e.cache.empty()) {
		return Encoding{Degraded: passed}, false
	}
	key := keyOf(r)
	if enc, ok := e.cache.get(key); ok {
		return enc, true
	}
	if hopeless {
		return Encoding{Degraded: passed}, false
	}
	return e.join(ctx, r, key)
}

// plan reports whether no source can serve, and then why not, without the cost
// of hashing the body and starting a goroutine: the steady state of a fleet whose
// engines lack the endpoints.
func (e *Encoder) plan(r *Request) (passed []Degradation, hopeless bool) {
	for _, s := range e.chain {
		p, ok := s.(planner)
		if !ok {
			return nil, false
		}
		_, err := p.plan(r)
		if err == nil {
			return nil, false
		}
		if passed == nil {
			passed = make([]Degradation, 0, len(e.chain))
		}
		note(&passed, s.Kind(), err)
	}
	return passed, true
}

// run tries the sources in order.
func (e *Encoder) run(ctx context.Context, r *Request) (Encoding, bool) {
	var passed []Degradation
	for _, s := range e.chain {
		var enc Encoding
		err := ctx.Err()
		if err == nil {
			enc, err = s.Encode(ctx, r)
		}
		if err == nil {
			enc.Degraded = passed
			return clip(enc), true
		}
		note(&passed, s.Kind(), err)
	}
	return Encoding{Degraded: passed}, false
}

// note records why a source did not serve, in words that hold no prompt.
func note(to *[]Degradation, kind SourceKind, err error) {
	var why ReasonError
	switch {
	case errors.Is(err, ErrNotApplicable):
		return
	case errors.As(err, &why):
	case errors.Is(err, context.DeadlineExceeded):
		why = errDeadline
	case errors.Is(err, context.Canceled):
		why = errCanceled
	default:
		why = errSourceFailed
	}
	*to = append(*to, Degradation{Source: kind, Reason: string(why)})
}

// Available reports whether an engine could be asked now: it is not paused after
// failures and has calls to spare. Where several engines serve a model, ask for
// one of those that are.
func (e *Encoder) Available(engine *Engine) bool {
	return e.health.check(engine, numEndpoints) == nil
}

// Close ends the calls in flight, waits for them and frees the cache. Encode
// still works afterwards, without asking anybody. It always returns nil.
func (e *Encoder) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.running.Wait()
	e.cache.clear()
	if e.ownsCli {
		e.client.CloseIdleConnections()
	}
	return nil
}
