package kvsteer

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/replica"
)

// Option configures a Router.
type Option interface {
	apply(o *options)
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

type options struct {
	fleet     *fleet.Fleet
	events    follow.Transport
	encoder   *prompt.Encoder
	policy    policy.Policy
	providers *providers.Set  // nil: there are none
	tenancy   *TenancyOptions // nil: nobody is identified or limited
	predictor Predictor
	// classifiers is nil if there are none; tags are the gateway's own.
	classifiers *classify.Set
	tags        []string
	index       kvcache.Options
	weights     kvcache.TierWeights
	queue       *QueueOptions    // nil: requests don't wait
	exchange    replica.Exchange // nil: no other routers are known
	replicas    ReplicaOptions
	gather      time.Duration // that requests wait for others of their moment
	// transferRate is the tokens a second between workers.
	transferRate float64
	hooks        hookSet
	logger       *slog.Logger
	now          func() time.Time
	seed         uint64
	maxBody      int64
	maxAttempts  int
	maxIdle      time.Duration
	bookTTL      time.Duration
	approxTTL    time.Duration
	snapshots    []SnapshotSource
}

// Defaults of the options.
const (
	// DefaultMaxBody is the largest request body accepted, in bytes: 32 MiB holds
	// any text prompt and a few images.
	DefaultMaxBody = 32 << 20
	// DefaultMaxAttempts is how many workers a request is tried on.
	DefaultMaxAttempts = 3
	// DefaultMaxIdle is how long a Selection may show no sign of life before the
	// router takes it for forgotten and releases it.
	DefaultMaxIdle = 15 * time.Minute

	// defaultBookTTL is how long a booked block counts without an event to confirm
	// it: longer than any queue that a gateway's client would sit out.
	defaultBookTTL = time.Minute
	// defaultApproxTTL is the same for workers that send no events, where booking
	// is all there is: as long as a conversation plausibly pauses.
	defaultApproxTTL = 20 * time.Minute
	// DefaultTransferRate is the tokens per second that a worker fetches from the one
	// that computed a prompt: 128 KiB a token (an 8B model with grouped attention)
	// over 200 Gb/s.
	DefaultTransferRate = 200_000
)

func defaultOptions() options {
	return options{
		policy:      policy.Default{},
		weights:     kvcache.DefaultTierWeights(),
		now:         time.Now,
		maxBody:     DefaultMaxBody,
		maxAttempts: DefaultMaxAttempts,
		maxIdle:     DefaultMaxIdle,
		bookTTL:     defaultBookTTL,
		approxTTL:   defaultApproxTTL,

		transferRate: DefaultTransferRate,
		gather:       DefaultGather,
	}
}

// check says what New can't work with.
func (o *options) check() error {
	switch {
	case o.fleet == nil:
		return errors.New("kvsteer: New needs WithFleet")
	case o.fleet.Closed():
		return fmt.Errorf("kvsteer: WithFleet: %w; close a fleet after its Router", fleet.ErrClosed)
	case slices.ContainsFunc(o.snapshots, func(s SnapshotSource) bool { return s == nil }):
		return errors.New("kvsteer: WithSnapshot takes no nil source")
	case o.policy == nil || o.now == nil:
		return errors.New("kvsteer: WithPolicy and WithClock take no nil")
	case len(o.hooks.strangers) > 0:
		return fmt.Errorf("kvsteer: WithHooks: %s implements no Hook interface; check its methods' signatures",
			strings.Join(o.hooks.strangers, ", "))
	case len(o.replicas.Name) > replica.MaxName || !utf8.ValidString(o.replicas.Name):
		return fmt.Errorf("kvsteer: WithReplicas: the Name has %d bytes; give at most %d, of UTF-8", len(o.replicas.Name), replica.MaxName)
	}
	for t, w := range o.weights {
		if !(w >= 0 && w <= 1) {
			return fmt.Errorf("kvsteer: WithTierWeights: the weight of tier %d is %v; give one from 0 to 1", t, w)
		}
	}
	return o.checkTags()
}

// WithFleet sets the workers to route to. It is required. The caller closes the
// fleet, after the Router.
func WithFleet(f *fleet.Fleet) Option {
	return optionFunc(func(o *options) { o.fleet = f })
}

// WithEvents sets the transport by which KV events of workers that name event
// endpoints are followed (zmtp.Transport, or the zmq module's). Without it such
// workers are routed approximately, and decisions say so. Endpoints at an http or
// https address are TensorRT-LLM's; they are polled with package trtllm, with or
// without this option.
func WithEvents(t follow.Transport) Option {
	return optionFunc(func(o *options) { o.events = t })
}

// WithEncoder sets how prompts become token ids. The default asks the engines
// and falls back to the prompt's bytes; so does nil. The caller closes an encoder
// that it passes in.
func WithEncoder(e *prompt.Encoder) Option {
	return optionFunc(func(o *options) { o.encoder = e })
}

// WithPolicy sets the policy. The default is [policy.Default]. It is asked while a
// lock is held: it must not block, nor call the Router. One that is a [policy.Source]
// may change while the router runs, one that is a [policy.Scoped] may send requests to
// other models than they name, one that is a [policy.Needy] asks for tags and headers.
func WithPolicy(p policy.Policy) Option {
	return optionFunc(func(o *options) { o.policy = p })
}

// WithPredictor sets the predictor. The default, and nil, is NewPredictor's.
func WithPredictor(p Predictor) Option {
	return optionFunc(func(o *options) { o.predictor = p })
}

// WithIndex sets the bounds of the cache index.
func WithIndex(idx kvcache.Options) Option {
	return optionFunc(func(o *options) { o.index = idx })
}

// WithTierWeights sets what a cached block is worth by where it lies, each from
// 0, as good as absent, to 1, as good as in GPU memory. The default is
// [kvcache.DefaultTierWeights]. Weights count when a time to first token is
// predicted; what an engine reports as cached is compared with all blocks.
func WithTierWeights(w kvcache.TierWeights) Option {
	return optionFunc(func(o *options) { o.weights = w })
}

// WithTransferRate sets how many tokens per second a worker fetches from another
// that has computed a prompt for it ([fleet.RolePrefill]). Values that are not
// positive mean [DefaultTransferRate].
func WithTransferRate(tokensPerSecond float64) Option {
	return optionFunc(func(o *options) {
		if !(tokensPerSecond > 0) {
			tokensPerSecond = DefaultTransferRate
		}
		o.transferRate = tokensPerSecond
	})
}

// WithHooks adds observers; each value implements at least one Hook interface,
// else New fails.
func WithHooks(hooks ...any) Option {
	return optionFunc(func(o *options) {
		for _, h := range hooks {
			o.hooks.add(h)
		}
	})
}

// WithLogger sets where the router reports what an operator should know. The
// default is silence. Prompts, tokens and credentials are never logged.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(o *options) { o.logger = l })
}

// WithClock sets the source of time, for tests and simulations.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(o *options) { o.now = now })
}

// WithSeed makes the breaking of ties reproducible. 0, the default, draws a seed.
func WithSeed(seed uint64) Option {
	return optionFunc(func(o *options) { o.seed = seed })
}

// WithMaxBody sets the largest request body accepted, in bytes.
// Values below 1 mean DefaultMaxBody.
func WithMaxBody(n int64) Option {
	return optionFunc(func(o *options) {
		if n < 1 {
			n = DefaultMaxBody
		}
		o.maxBody = min(n, math.MaxInt64-1) // one more is read to see that there is more
	})
}

// WithMaxAttempts sets on how many workers a request is tried at most, the
// first included. Values below 1 mean DefaultMaxAttempts.
func WithMaxAttempts(n int) Option {
	return optionFunc(func(o *options) {
		if n < 1 {
			n = DefaultMaxAttempts
		}
		o.maxAttempts = n
	})
}

// WithMaxIdle sets after how long without a sign of life (FirstToken, Touch, Next,
// or a Transport waiting for bytes) a Selection is taken for forgotten and released.
// Values below 1 mean DefaultMaxIdle.
func WithMaxIdle(d time.Duration) Option {
	return optionFunc(func(o *options) {
		if d < 1 {
			d = DefaultMaxIdle
		}
		o.maxIdle = d
	})
}
