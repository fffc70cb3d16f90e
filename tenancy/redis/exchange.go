package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb"
)

// ExchangeOptions are for [NewExchange].
type ExchangeOptions struct {
	// Channel is the channel of pub/sub that the replicas of one gateway share; other
	// gateways on the same Redis need another one. Empty means "kvsteer:replicas".
	Channel string
	// Sharded uses the commands of sharded pub/sub. In a Redis Cluster a message goes to
	// the nodes of one shard then, and not to all nodes. All replicas need the same.
	Sharded bool
	// Deadline is how long Publish waits for Redis, if its context doesn't end sooner. 0
	// means a second.
	Deadline time.Duration
	// Silence is how long Receive takes a connection that says nothing, not even to a PING,
	// for one that is alive. 0 means 10 s; from a second to an hour.
	Silence time.Duration
	// Logger gets a line when messages come that can't be read: the first time in each
	// Receive. Nil: none.
	Logger *slog.Logger
}

const (
	defaultChannel  = "kvsteer:replicas"
	defaultPublish  = time.Second
	defaultSilence  = 10 * time.Second
	maxSilence      = time.Hour
	pingsPerSilence = 3
)

// What Receive may find.
var (
	errResubscribed = errors.New("the client has connected anew by itself, or Redis has ended the subscription; messages were lost")
	errSilent       = errors.New("nothing came for as long as ExchangeOptions.Silence says, not even an answer to PING")
)

// Exchange carries messages between the replicas of a gateway by pub/sub of Redis or
// Valkey. It is a [replica.Exchange]: make it with [NewExchange]; it has nothing to be
// closed. Safe for concurrent use; each Receive has a connection of its own.
//
// Redis keeps no message: one that comes while a replica isn't connected is lost for it,
// and routers are made for that. One that doesn't take its messages fast enough is cut off
// by Redis, once client-output-buffer-limit of class pubsub is reached (32 MB, or 8 MB for
// a minute, if nobody has set it), and Receive reports that.
type Exchange struct {
	client goredis.UniversalClient
	opts   ExchangeOptions
	counts exchangeCounts
}

var _ replica.Exchange = (*Exchange)(nil)

// NewExchange returns an Exchange on a client of go-redis, which stays the caller's, to be
// closed after the Router; it doesn't wait for Redis. The client's ContextTimeoutEnabled
// must be true. The error says which option is wrong and how.
func NewExchange(client goredis.UniversalClient, o ExchangeOptions) (*Exchange, error) {
	switch {
	case client == nil:
		return nil, errors.New("replica/redis: the client is nil; give NewExchange a client of go-redis")
	case !keepsDeadlines(client):
		return nil, errors.New("replica/redis: the client would not keep deadlines; set ContextTimeoutEnabled in its options")
	case o.Deadline < 0:
		return nil, errors.New("replica/redis: the Deadline can't be negative; 0 means the default")
	case o.Silence != 0 && (o.Silence < time.Second || o.Silence > maxSilence):
		return nil, fmt.Errorf("replica/redis: the Silence is %v, not between 1s and %v", o.Silence, maxSilence)
	}
	setDefault(&o.Channel, defaultChannel)
	setDefault(&o.Deadline, defaultPublish)
	setDefault(&o.Silence, defaultSilence)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Exchange{client: client, opts: o}, nil
}

// Publish implements replica.Exchange. It returns at ctx's deadline, or after
// ExchangeOptions.Deadline; the error wraps [replica.ErrBounds] if the message can't be
// sent by anyone. That nobody listens is no error. The client may try again by itself: then
// the message may come twice.
func (e *Exchange) Publish(ctx context.Context, m *replica.Message) error {
	if err := ended(ctx); err != nil {
		return err
	}
	data, err := pb.Marshal(m)
	if err != nil {
		e.counts.failed.Add(1)
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, e.opts.Deadline)
	defer cancel()
	if e.opts.Sharded {
		err = e.client.SPublish(bounded, e.opts.Channel, data).Err()
	} else {
		err = e.client.Publish(bounded, e.opts.Channel, data).Err()
	}
	if err != nil {
		e.counts.failed.Add(1)
		if over := ended(ctx); over != nil {
			return over
		}
		if ended(bounded) != nil {
			return fmt.Errorf("replica/redis: publish: no answer within the Deadline of %v: %w", e.opts.Deadline, err)
		}
		return fmt.Errorf("replica/redis: publish: %w", err)
	}
	e.counts.published.Add(1)
	e.counts.sent.Add(uint64(len(data)))
	return nil
}

// Receive implements replica.Exchange. It returns ctx's error, or how the connection was
// lost: whatever go-redis says when it is, Silence, or a subscription that was confirmed a
// second time or ended, for go-redis connects anew by itself, and Redis ends subscriptions
// when the slots of a cluster move. A message that can't be read is counted and left out; one
// of another version is delivered with its Version and nothing else.
func (e *Exchange) Receive(ctx context.Context, subscribed func(), deliver func(*replica.Message)) error {
	if err := ended(ctx); err != nil {
		return err
	}
	err := e.receive(ctx, subscribed, deliver)
	if over := ended(ctx); over != nil {
		return over
	}
	e.counts.lost.Add(1)
	return fmt.Errorf("replica/redis: receive: %w", err)
}

func (e *Exchange) receive(outer context.Context, subscribed func(), deliver func(*replica.Message)) error {
	ctx, cancel := context.WithCancelCause(outer)
	silent := time.AfterFunc(e.opts.Silence, func() { cancel(errSilent) }) // it may be that long until there is a connection
	r := &receiver{exchange: e, silent: silent, subscribed: subscribed, deliver: deliver}
	if e.opts.Sharded {
		r.sub = e.client.SSubscribe(ctx, e.opts.Channel)
	} else {
		r.sub = e.client.Subscribe(ctx, e.opts.Channel)
	}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	defer silent.Stop()
	helpers.Go(func() { // reading doesn't end with its context, but with its connection
		<-ctx.Done()
		_ = r.sub.Close()
	})
	helpers.Go(func() { r.ping(ctx) })
	for {
		err := r.next(ctx)
		if err == nil {
			err = context.Cause(ctx) // deliver may have ended it
		}
		if err == nil {
			continue
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
}

// receiver is one Receive.
type receiver struct {
	exchange   *Exchange
	sub        *goredis.PubSub
	silent     *time.Timer
	subscribed func()
	deliver    func(*replica.Message)

	confirmed           bool
	malformed, versions atomicOnce   // told
	heard               atomic.Int64 // what came so far, of any kind
	delivering          atomic.Bool
}

// next takes what comes next. There is no deadline on reading: go-redis would go on in the
// middle of a message after it.
func (r *receiver) next(ctx context.Context) error {
	got, err := r.sub.Receive(ctx)
	if err != nil {
		return err
	}
	r.heard.Add(1)
	r.delivering.Store(true)
	r.silent.Stop() // deliver may take its time
	defer func() {
		r.delivering.Store(false)
		r.silent.Reset(r.exchange.opts.Silence)
	}()
	switch got := got.(type) {
	case *goredis.Subscription:
		if r.confirmed || got.Kind != "subscribe" && got.Kind != "ssubscribe" {
			return errResubscribed
		}
		r.confirmed = true
		if r.subscribed != nil {
			r.subscribed()
		}
	case *goredis.Message:
		r.message(got)
	}
	return nil
}

func (r *receiver) message(got *goredis.Message) {
	e := r.exchange
	e.counts.arrived.Add(uint64(len(got.Payload)))
	m, err := pb.Unmarshal([]byte(got.Payload))
	var other *pb.VersionError
	switch {
	case errors.As(err, &other):
		e.counts.versions.Add(1)
		r.deliver(&replica.Message{Version: int(min(other.Version, math.MaxInt32))}) // to be counted there, too
		if r.versions.first() {
			e.opts.Logger.Warn("a replica speaks another version; it is left out", "channel", e.opts.Channel, "error", err)
		}
	case err != nil:
		e.counts.malformed.Add(1)
		if planted.StrangerInLog {
			err = fmt.Errorf("%w: %s", err, got.Payload)
		}
		if r.malformed.first() {
			e.opts.Logger.Warn("a message of no replica is on the channel; who else writes to it?", "channel", e.opts.Channel, "error", err)
		}
	default:
		e.counts.received.Add(1)
		r.deliver(m)
	}
}

// ping asks whether Redis is still there, when nothing else has come for a while. An error
// needs no telling: then the connection is closed, and whoever reads knows.
func (r *receiver) ping(ctx context.Context) {
	every := r.exchange.opts.Silence / pingsPerSilence
	tick := time.NewTicker(every)
	defer tick.Stop()
	for before := r.heard.Load(); ; before = r.heard.Load() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if r.heard.Load() != before || r.delivering.Load() {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, every)
		_ = r.sub.Ping(bounded)
		cancel()
	}
}

// ExchangeStats are for metrics.
type ExchangeStats struct {
	// Published are messages that Redis has taken, Failed those that it has not, or not in
	// time.
	Published, Failed uint64
	// Received are messages of this version, one's own included. Malformed could not be
	// read or were beyond the bounds; OtherVersion are of replicas that are newer or older.
	Received, Malformed, OtherVersion uint64
	// Lost is how often Receive ended without being told to.
	Lost uint64
	// SentBytes and ReceivedBytes are those of the messages, as they are encoded.
	SentBytes, ReceivedBytes uint64
}

type exchangeCounts struct {
	published, failed, received, malformed, versions, lost, sent, arrived atomic.Uint64
}

// Stats returns what has happened since NewExchange.
func (e *Exchange) Stats() ExchangeStats {
	c := &e.counts
	return ExchangeStats{
		Published: c.published.Load(), Failed: c.failed.Load(),
		Received: c.received.Load(), Malformed: c.malformed.Load(), OtherVersion: c.versions.Load(),
		Lost: c.lost.Load(), SentBytes: c.sent.Load(), ReceivedBytes: c.arrived.Load(),
	}
}
