package fleettest

import (
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Timing is the cost model of a forward pass; its fields are in seconds. The
// zero value is [DefaultTiming].
type Timing = sim.Timing

// DefaultTiming resembles a 27B model in FP8 on one NVIDIA L40S: 16,256 uncached
// tokens take 6.8 s to the first token, then a token takes about 40 ms.
func DefaultTiming() Timing { return sim.DefaultTiming() }

// Dialect is the kind of engine to resemble.
type Dialect uint8

// The dialects. They decide the defaults of what differs between the engines:
// metric names, event encoding, whether prompts in flight can be shared, and
// what usage looks like.
const (
	VLLM Dialect = iota
	SGLang
	// TensorRTLLM answers polls for events instead of publishing them, at its own
	// address; Hub, ZMQ and OpenPublisher are not for it. It has no /tokenize: set
	// Render, its own way to token ids.
	TensorRTLLM
)

// Defaults of [Config]; those of the cache are in package documentation.
const (
	DefaultModel        = "fake-model"
	DefaultMaxModelLen  = 131072
	DefaultOutputTokens = 64
	DefaultRecord       = 256
	DefaultEventBuffer  = 16384
	// DefaultMaxBody is the largest request body that is read.
	DefaultMaxBody = 64 << 20
)

// Errors of [Start].
var (
	// ErrConfig: the configuration contradicts itself. The message says where.
	ErrConfig = errors.New("fleettest: invalid configuration")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("fleettest: engine is closed")
)

// Adapter is a LoRA adapter that the engine serves beside its base model.
type Adapter struct {
	// Name is the model name that selects it.
	Name string
}

// Config describes a fake engine. The zero value is a vLLM on a free loopback
// port, with one rank, at the speed of real hardware, that publishes no events.
type Config struct {
	// Name is the engine's name in Worker and in in-process event addresses. Empty
	// means "engine"; engines that share a Hub or Network need different ones.
	Name string
	// Dialect is the engine to resemble.
	Dialect Dialect
	// Model is the base model's name, "" = DefaultModel. Adapters are further ones.
	Model    string
	Adapters []Adapter
	// MaxModelLen is the most tokens of prompt and output together, 0 =
	// DefaultMaxModelLen. A longer prompt is refused with 400.
	MaxModelLen int
	// APIKey, if not empty, is required as a bearer token on /v1 paths.
	APIKey string

	// Ranks is the number of data-parallel ranks, 0 = 1. Each has its own cache
	// and event sequence.
	Ranks int
	// BlockSize is in tokens, 0 = 16, for TensorRTLLM 32. Blocks is a rank's capacity, 0 = 12,288.
	BlockSize int
	Blocks    int
	// TokenBudget is the most tokens of a step, 0 = 2,048.
	TokenBudget int
	// MaxRunning is the most requests in a rank's batch, 0 = 256.
	MaxRunning int
	// Timing is the cost of a step before Speed.
	Timing Timing
	// Speed divides every modelled duration: 10 is ten times faster than modelled,
	// 0 = 1, +Inf takes no time at all.
	Speed float64
	// Speculative lowers every hit by one block, as EAGLE and MTP do.
	Speculative bool
	// Role is what Worker says of the engine, which itself does whatever it is asked:
	// vLLM's kv_transfer_params make it compute a prompt for another, or go on from
	// one that another has computed.
	Role fleet.Role
	// NoPrefixCache turns prefix caching off.
	NoPrefixCache bool

	// OutputTokens is how many tokens a request gets that doesn't say, 0 =
	// DefaultOutputTokens. A lower max_tokens cuts it, "ignore_eos":true makes
	// max_tokens exact.
	OutputTokens int
	// Reply, if set, makes up the answer instead of pseudo-random words. It is
	// called concurrently.
	Reply func(Call) string
	// NoCachedTokens leaves cached tokens out of usage, as vLLM does without
	// --enable-prompt-tokens-details.
	NoCachedTokens bool
	// Render serves /render below /v1/chat/completions, /v1/completions,
	// /v1/messages and /v1/responses, which is 404 otherwise. NoTokenize makes
	// /tokenize 404.
	Render     bool
	NoTokenize bool
	// NoDevMode makes /server_info, /reset_prefix_cache, /sleep, /wake_up and
	// /is_sleeping 404.
	NoDevMode bool

	// Hub publishes each rank's events in this process, at "inproc://NAME" for
	// rank 0 and "inproc://NAME.dpN" for rank N. At most one of Hub, ZMQ and
	// OpenPublisher is set.
	Hub *follow.Hub
	// ZMQ publishes on loopback ports as ZeroMQ does, with replay, on the same ports
	// after a restart. Use kvcache/zmtp or kvcache/zmq to subscribe.
	ZMQ bool
	// OpenPublisher opens the publisher of a rank and says where it can be reached.
	// It is called by Start and again after a restart, for publishers that can't
	// restart themselves (see Publisher).
	OpenPublisher func(rank int) (Publisher, follow.Endpoint, error)
	// EventBuffer is how many events TensorRTLLM keeps for who polls, for each
	// rank: 0 = DefaultEventBuffer, negative = none. When it is full the oldest
	// event goes.
	EventBuffer int
	// Events is the encoding, by default the dialect's current one. TensorRTLLM has
	// one of its own.
	Events EventFormat
	// BytesHashes encodes block hashes as 32 bytes, as vLLM does with
	// VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0.
	BytesHashes bool

	// Listener receives the connections; nil = a free loopback port. A restarted
	// engine listens on the same address again.
	Listener net.Listener
	// Network, if set, is where the engine listens instead of on a socket, under
	// its Name. For tests in testing/synctest bubbles.
	Network *Network
	// Seed makes block hashes and faults with rates reproducible. Two engines with
	// different names or seeds give equal blocks different hashes.
	Seed uint64
	// Record is how many of the latest requests Requests returns, with headers and
	// bodies: 0 = DefaultRecord, negative = none.
	Record int
	// MaxBody is the largest request body in bytes, 0 = DefaultMaxBody; more is
	// refused with 413.
	MaxBody int64
}

// Call is what a Reply function is told about a request.
type Call struct {
	// Path is the API's, for example "/v1/chat/completions".
	Path string
	// Model is the model name asked for.
	Model string
	// Body is the request as received. It must not be changed.
	Body []byte
}

// complete fills in what is zero and checks the rest.
func complete(c Config) (Config, error) {
	c.Name = either(c.Name, "engine")
	c.Model = either(c.Model, DefaultModel)
	c.MaxModelLen = either(c.MaxModelLen, DefaultMaxModelLen)
	c.Ranks = either(c.Ranks, 1)
	c.Speed = either(c.Speed, 1)
	c.OutputTokens = either(c.OutputTokens, DefaultOutputTokens)
	c.Record = max(0, either(c.Record, DefaultRecord))
	c.MaxBody = either(c.MaxBody, DefaultMaxBody)
	c.EventBuffer = either(c.EventBuffer, DefaultEventBuffer)
	if c.Dialect == TensorRTLLM {
		c.BlockSize = either(c.BlockSize, trtllmBlockSize)
	}
	if c.Timing == (Timing{}) {
		c.Timing = DefaultTiming()
	}
	if c.Events == EventsDefault {
		c.Events = EventsVLLM
		if c.Dialect == SGLang {
			c.Events = EventsSGLang
		}
	}
	switch {
	case c.Ranks < 0 || c.MaxModelLen < 0 || c.OutputTokens < 0 || c.MaxBody < 0:
		return c, fmt.Errorf("%w: Ranks, MaxModelLen, OutputTokens and MaxBody must not be negative", ErrConfig)
	case c.Speed < 0 || math.IsNaN(c.Speed):
		return c, fmt.Errorf("%w: Speed must be positive", ErrConfig)
	case (c.Hub != nil && (c.ZMQ || c.OpenPublisher != nil)) || (c.ZMQ && c.OpenPublisher != nil):
		return c, fmt.Errorf("%w: at most one of Hub, ZMQ and OpenPublisher can be set", ErrConfig)
	case c.Dialect > TensorRTLLM:
		return c, fmt.Errorf("%w: unknown dialect", ErrConfig)
	case c.Dialect == TensorRTLLM && (c.Hub != nil || c.ZMQ || c.OpenPublisher != nil):
		return c, fmt.Errorf("%w: TensorRT-LLM publishes nothing; leave out Hub, ZMQ and OpenPublisher", ErrConfig)
	case c.Listener != nil && c.Network != nil:
		return c, fmt.Errorf("%w: Listener and Network are both set", ErrConfig)
	case c.Events > EventsSGLangArray:
		return c, fmt.Errorf("%w: unknown event format", ErrConfig)
	}
	if c.ZMQ {
		c.OpenPublisher = (&sockets{topic: "kv@" + c.Name + "@" + c.Model, ranks: make(map[int]follow.Endpoint)}).open
	}
	return c, nil
}

// either returns v, or def when v is zero.
func either[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// model returns the configuration of a rank's simulated engine.
func (c *Config) model() sim.Config {
	return sim.Config{
		BlockSize:          c.BlockSize,
		Blocks:             c.Blocks,
		TokenBudget:        c.TokenBudget,
		MaxRunning:         c.MaxRunning,
		Timing:             c.Timing,
		InsertAfterPrefill: c.Dialect != VLLM,
		Speculative:        c.Speculative,
		NoPrefixCache:      c.NoPrefixCache,
		NoEvents:           c.Hub == nil && c.OpenPublisher == nil && !c.polled(),
	}
}

// scaled returns how long a modelled duration lasts at the given speed and
// slowdown.
func scaled(d time.Duration, speed, slow float64) time.Duration {
	return time.Duration(float64(d) * slow / speed)
}
