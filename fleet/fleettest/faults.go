package fleettest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// HangPoint is where a hanging engine stops answering.
type HangPoint uint8

// The points. A request that hangs goes on when the fault is lifted.
const (
	// HangNever is no fault.
	HangNever HangPoint = iota
	// HangBeforeHeaders: the request is read, nothing is sent.
	HangBeforeHeaders
	// HangBeforeFirstToken: a streaming answer's headers are sent, then nothing.
	HangBeforeFirstToken
	// HangMidStream: the answer stops after its first token.
	HangMidStream
)

// Faults switches an engine's faults while it runs. All methods are safe for
// concurrent use and take effect for what happens after the call. Faults that
// count affect the next n occurrences.
type Faults struct {
	mu     sync.Mutex
	rng    *rand.Rand
	resume chan struct{} // closed when what hangs may look again
	faultState
}

// faultState is the faults in force.
type faultState struct {
	loseEvents    int
	loseRate      float64
	burnEvents    int
	corruptEvents int
	delayEvents   time.Duration
	muteCleared   bool
	muteRemoved   bool
	eventBlock    int

	template  int
	tokenizer bool

	fails    []failure
	failRate failure

	hang      HangPoint
	hangAdmin bool

	slow       float64
	dieTimes   int
	dieTokens  int
	noUsage    bool
	unhealthy  bool
	hideMetric bool
	freeze     bool
	blockSize  int
}

// failure answers requests with an error status.
type failure struct {
	left       int
	rate       float64
	status     int
	retryAfter time.Duration
}

func newFaults(seed uint64) *Faults {
	return &Faults{
		rng:    rand.New(rand.NewPCG(seed, faultStream)),
		resume: make(chan struct{}),

		faultState: faultState{slow: 1},
	}
}

// Clear lifts every fault, and with them what hangs.
func (f *Faults) Clear() {
	f.change(func() { f.faultState = faultState{slow: 1} })
}

// LoseEvents loses the next n event messages on their way to subscribers. With a
// publisher that can (a follow.Pipe), their sequence numbers are used up and a
// replay still has them; with others they never existed.
func (f *Faults) LoseEvents(n int) { f.set(func() { f.loseEvents = n }) }

// LoseEventRate loses event messages with probability p.
func (f *Faults) LoseEventRate(p float64) { f.set(func() { f.loseRate = p }) }

// BurnEvents loses the next n event messages for good, sequence number used up,
// as when an engine fails to encode them: a gap that no replay fills. Publishers
// that can't burn a number lose the message without a gap.
func (f *Faults) BurnEvents(n int) { f.set(func() { f.burnEvents = n }) }

// CorruptEvents cuts the next n event messages short, so that they can't be
// decoded.
func (f *Faults) CorruptEvents(n int) { f.set(func() { f.corruptEvents = n }) }

// DelayEvents publishes event messages d later than they happen, in order; d is
// real time, not divided by Speed.
func (f *Faults) DelayEvents(d time.Duration) { f.set(func() { f.delayEvents = d }) }

// MuteCleared keeps AllBlocksCleared to the engine itself: the cache is reset and
// nobody is told.
func (f *Faults) MuteCleared(on bool) { f.set(func() { f.muteCleared = on }) }

// MuteRemoved keeps evictions to the engine itself: blocks go and nobody is told.
func (f *Faults) MuteRemoved(on bool) { f.set(func() { f.muteRemoved = on }) }

// EventBlockSize makes events speak of blocks of so many tokens, though the engine
// reuses whole blocks of its own only, as engines do that hash more finely than they
// cache. It must divide Config.BlockSize, and counts for an engine without images and
// with msgpack events; 0 is the true size. Switch it before there are events, or restart
// the engine: what was announced before has other hashes.
func (f *Faults) EventBlockSize(tokens int) { f.set(func() { f.eventBlock = tokens }) }

// OtherTemplate makes the engine compute prompts that begin with so many more tokens
// than /tokenize and rendering say, as when the router has another chat template.
func (f *Faults) OtherTemplate(tokens int) { f.set(func() { f.template = tokens }) }

// OtherTokenizer makes the engine compute prompts of other ids, and of more, than
// /tokenize and rendering say, as when the router has another tokenizer.
func (f *Faults) OtherTokenizer(on bool) { f.set(func() { f.tokenizer = on }) }

// Fail answers the next n API requests with status (for example 500, 429 or 503)
// and, unless it is 0, a Retry-After header of retryAfter rounded up to seconds.
// Calls add up in order.
func (f *Faults) Fail(n, status int, retryAfter time.Duration) {
	f.set(func() { f.fails = append(f.fails, failure{left: n, status: status, retryAfter: retryAfter}) })
}

// FailRate does so with probability p, until called with 0.
func (f *Faults) FailRate(p float64, status int, retryAfter time.Duration) {
	f.set(func() { f.failRate = failure{rate: p, status: status, retryAfter: retryAfter} })
}

// Hang makes API requests stop at a point; HangNever lets them go on.
func (f *Faults) Hang(at HangPoint) { f.change(func() { f.hang = at }) }

// HangAdmin makes everything but the API hang: /health, /metrics, /tokenize,
// rendering, /v1/models.
func (f *Faults) HangAdmin(on bool) { f.change(func() { f.hangAdmin = on }) }

// Slow makes every step take factor times as long; 1 is normal, and 0 and less
// count as 1.
func (f *Faults) Slow(factor float64) {
	if factor <= 0 {
		factor = 1
	}
	f.set(func() { f.slow = factor })
}

// DieMidStream cuts the connection of the next n answers after the given number
// of tokens: 0 is before anything but a streaming answer's headers, and answers
// that are shorter survive.
func (f *Faults) DieMidStream(n, tokens int) {
	f.set(func() { f.dieTimes, f.dieTokens = n, tokens })
}

// NoUsage leaves usage out of every answer.
func (f *Faults) NoUsage(on bool) { f.set(func() { f.noUsage = on }) }

// Unhealthy makes /health answer 503. The API goes on.
func (f *Faults) Unhealthy(on bool) { f.set(func() { f.unhealthy = on }) }

// HideMetrics makes /metrics answer 404.
func (f *Faults) HideMetrics(on bool) { f.set(func() { f.hideMetric = on }) }

// FreezeMetrics makes /metrics repeat its next answer for as long as it is on.
func (f *Faults) FreezeMetrics(on bool) { f.set(func() { f.freeze = on }) }

// MetricsBlockSize makes /metrics and /server_info report a block size that
// isn't the cache's; 0 reports the true one.
func (f *Faults) MetricsBlockSize(tokens int) { f.set(func() { f.blockSize = tokens }) }

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// change is set for faults that requests wait on.
func (f *Faults) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.resume)
	f.resume = make(chan struct{})
}

// fate is what happens to one event message.
type fate uint8

const (
	fateSend fate = iota
	fateLose
	fateBurn
	fateCorrupt
)

// eventFate decides the next event message's fate and how much later it goes.
func (f *Faults) eventFate() (fate, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.burnEvents > 0:
		f.burnEvents--
		return fateBurn, f.delayEvents
	case f.loseEvents > 0:
		f.loseEvents--
		return fateLose, f.delayEvents
	case f.loseRate > 0 && f.rng.Float64() < f.loseRate:
		return fateLose, f.delayEvents
	case f.corruptEvents > 0:
		f.corruptEvents--
		return fateCorrupt, f.delayEvents
	default:
		return fateSend, f.delayEvents
	}
}

// nextFailure returns the error that the next request gets, if any.
func (f *Faults) nextFailure() (failure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.fails) > 0 {
		if f.fails[0].left > 0 {
			f.fails[0].left--
			return f.fails[0], true
		}
		f.fails = f.fails[1:]
	}
	if f.failRate.rate > 0 && f.rng.Float64() < f.failRate.rate {
		return f.failRate, true
	}
	return failure{}, false
}

// nextDeath returns after how many tokens the next answer's connection is cut,
// -1 for never.
func (f *Faults) nextDeath() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dieTimes == 0 {
		return -1
	}
	f.dieTimes--
	return f.dieTokens
}

// waitHang blocks while API requests hang at the point. It returns ctx's error
// if that ends first.
func (f *Faults) waitHang(ctx context.Context, at HangPoint) error {
	return f.wait(ctx, func() bool { return f.hang == at })
}

// waitAdmin blocks while everything but the API hangs.
func (f *Faults) waitAdmin(ctx context.Context) error {
	return f.wait(ctx, func() bool { return f.hangAdmin })
}

func (f *Faults) wait(ctx context.Context, hangs func() bool) error {
	for {
		f.mu.Lock()
		stuck, resume := hangs(), f.resume
		f.mu.Unlock()
		if !stuck {
			return nil
		}
		select {
		case <-resume:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// view is the faults that are only looked at.
type view struct {
	slow                                                float64
	noUsage, unhealthy, hideMetric, freeze, muteCleared bool
	muteRemoved, tokenizer                              bool
	blockSize, eventBlock, template                     int
}

func (f *Faults) view() view {
	f.mu.Lock()
	defer f.mu.Unlock()
	return view{
		slow: f.slow, noUsage: f.noUsage, unhealthy: f.unhealthy, hideMetric: f.hideMetric,
		freeze: f.freeze, muteCleared: f.muteCleared, blockSize: f.blockSize,
		muteRemoved: f.muteRemoved, tokenizer: f.tokenizer, eventBlock: f.eventBlock, template: f.template,
	}
}
