package kvsteercaddy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/policy"
	policyfile "github.com/kvsteer/kvsteer/policy/file"
	"github.com/kvsteer/kvsteer/record"
)

// What outlives a configuration, by what it was made from.
//
//nolint:gochecknoglobals // configurations share through Caddy's usage pools, which are of the process
var (
	routers = caddy.NewUsagePool()
	fleets  = caddy.NewUsagePool()
)

// reopenTimeout bounds how long a disk that hangs holds up a reload.
const reopenTimeout = 5 * time.Second

// fleetRoom is a fleet and what was learned of its workers, which routers share. That
// way each knows what the others have sent there.
type fleetRoom struct {
	key       string
	path      string // "" for workers of the configuration itself
	fleet     *fleet.Fleet
	predictor kvsteer.Predictor
	exchange  *exchange // nil without one
	logs      *sink
	waited    atomic.Bool // for the first worker
}

// routerRoom is a router and what belongs to it.
type routerRoom struct {
	key    string
	config Config
	fleet  *fleetRoom
	router *kvsteer.Router
	rules  *policyfile.Source // nil for the default policy
	ruled  policy.CheckOptions
	log    *record.Recorder // nil without one
	logs   *sink
	trails trails
	peers  http.Transport // to ask peers for snapshots
	// snapshots serves the router's snapshot.
	snapshots http.Handler
	// inForce: a configuration with it came into force, or handed its duty to save on.
	inForce atomic.Bool
	// closers end what chooses workers, lasting what answers need to their end, the
	// last of each first.
	closers, lasting []func() error
	requests         requests
}

// enter returns the room of a configuration, which the caller must leave. The logger
// hears what is said while it is opened.
func enter(c *Config, logger slog.Handler) (*routerRoom, error) {
	key, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	v, _, err := routers.LoadOrNew(string(key), func() (caddy.Destructor, error) {
		r := &routerRoom{key: string(key), config: *c, logs: newSink(logger)}
		standing.set(r, opening)
		if failed := r.open(logger); failed != nil {
			return nil, errors.Join(failed, r.Destruct())
		}
		standing.set(r, serving)
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*routerRoom), nil //nolint:forcetypeassert // there are no others in the pool
}

// hear adds a logger to those that hear of the room and of its fleet. The latest that is
// there does.
func (r *routerRoom) hear(h slog.Handler) (stop func()) {
	router, of := r.logs.push(h), r.fleet.logs.push(h)
	return func() {
		router()
		of()
	}
}

func (r *routerRoom) leave() error {
	_, err := routers.Delete(r.key)
	return err
}

// check says what is wrong with the files by now.
func (r *routerRoom) check() error {
	if r.fleet.path != "" {
		if _, err := file.Load(r.fleet.path); err != nil {
			return fmt.Errorf("fleet: %w", err)
		}
	}
	if r.rules != nil {
		// Not by what rules has seen: it looks now and then, and takes its time to believe it.
		now, err := policyfile.Open(r.config.Policy, policyfile.Options{Check: r.ruled})
		if err != nil {
			return fmt.Errorf("policy: %w", err)
		}
		return now.Close()
	}
	return nil
}

// reopen makes the decision log go on in a file of its name, where that was renamed. If
// it can't, the log says so by itself: nothing else depends on it.
func (r *routerRoom) reopen() {
	if r.log == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), reopenTimeout)
	defer cancel()
	_ = r.log.Reopen(ctx)
}

// Destruct implements caddy.Destructor: nobody asks the router any more. It ends what
// open began, what answers that are on their way need after the last of them.
func (r *routerRoom) Destruct() error {
	standing.set(r, ending)
	err := closeAll(&r.closers)
	return errors.Join(err, r.requests.afterwards(func() error {
		defer standing.remove(r)
		return closeAll(&r.lasting)
	}, func(err error) {
		r.logs.logger().Error("what answers needed did not close well", "error", err)
	}))
}

func closeAll(closers *[]func() error) (err error) {
	for _, end := range slices.Backward(*closers) {
		err = errors.Join(err, end())
	}
	*closers = nil
	return err
}

func (r *routerRoom) open(first slog.Handler) (err error) {
	logger := r.logs.logger()
	if r.fleet, err = enterFleet(&r.config, first); err != nil {
		return err
	}
	r.lasting = append(r.lasting, r.fleet.leave)
	opts := []kvsteer.Option{
		kvsteer.WithFleet(r.fleet.fleet), kvsteer.WithPredictor(r.fleet.predictor), kvsteer.WithEvents(&zmtp.Transport{}),
		kvsteer.WithLogger(logger), kvsteer.WithHooks(&r.trails),
		kvsteer.WithMaxBody(r.config.MaxBody), kvsteer.WithMaxAttempts(r.config.MaxAttempts),
	}
	if q := r.config.Queue; q != nil {
		opts = append(opts, kvsteer.WithQueue(kvsteer.QueueOptions{
			Hold: time.Duration(q.Hold), MaxWaiting: q.MaxWaiting, MaxWait: time.Duration(q.MaxWait),
		}))
	}
	told, leave := r.fleet.exchange.join()
	opts = append(opts, told...)
	r.closers = append(r.closers, func() error { leave(); return nil }) // after the router's Close
	for _, part := range []func(*slog.Logger) ([]kvsteer.Option, error){r.openRecord, r.openRules, r.openModels, r.openSnapshot} {
		more, failed := part(logger)
		if failed != nil {
			return failed
		}
		opts = append(opts, more...)
	}
	if r.router, err = kvsteer.New(opts...); err != nil {
		return err
	}
	r.peers.CloseIdleConnections() // none is asked again
	r.closers = append(r.closers, r.router.Close)
	r.snapshots = kvsteer.SnapshotHandler(r.router, func(http.ResponseWriter, *http.Request) bool { return true })
	if r.config.Snapshot != "" {
		heirs.add(r)
		r.closers = append(r.closers, r.save)
	}
	return nil
}

func (r *routerRoom) openRecord(logger *slog.Logger) ([]kvsteer.Option, error) {
	if r.config.Record == "" {
		return nil, nil
	}
	log, err := record.Open(r.config.Record, record.Options{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r.log, r.lasting = log, append(r.lasting, log.Close)
	return []kvsteer.Option{kvsteer.WithHooks(log)}, nil
}

// enterFleet returns the room of a configuration's fleet, which the caller must leave.
func enterFleet(c *Config, first slog.Handler) (*fleetRoom, error) {
	key, err := json.Marshal(Config{Fleet: c.Fleet, Workers: c.Workers, Redis: c.Redis})
	if err != nil {
		return nil, err
	}
	v, _, err := fleets.LoadOrNew(string(key), func() (caddy.Destructor, error) {
		return openFleet(string(key), c, newSink(first))
	})
	if err != nil {
		return nil, err
	}
	return v.(*fleetRoom), nil //nolint:forcetypeassert // there are no others in the pool
}

func openFleet(key string, c *Config, logs *sink) (*fleetRoom, error) {
	r := &fleetRoom{key: key, path: c.Fleet, predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{}), logs: logs}
	source := fleet.Static(c.Workers...)
	if c.Fleet != "" {
		// Later a wrong file changes nothing and is logged; now it is an error.
		if _, err := file.Load(c.Fleet); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
		source = &file.Discoverer{Path: c.Fleet}
	}
	var err error
	if r.exchange, err = openExchange(c.Redis, logs.logger()); err != nil {
		return nil, err
	}
	if r.fleet, err = fleet.New(fleet.Options{Discoverer: source, Logger: logs.logger()}); err != nil {
		return nil, errors.Join(err, r.exchange.Close())
	}
	return r, nil
}

func (r *fleetRoom) leave() error {
	_, err := fleets.Delete(r.key)
	return err
}

// Destruct implements caddy.Destructor.
func (r *fleetRoom) Destruct() error { return errors.Join(r.fleet.Close(), r.exchange.Close()) }

// ready waits for the first worker, once: later configurations, and other handlers of
// the first, know as much after no time. The error says what is wrong if none can serve.
func (r *fleetRoom) ready(ctx context.Context, timeout time.Duration) error {
	if timeout <= 0 || r.waited.Swap(true) {
		timeout = 0
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.fleet.WaitReady(ctx)
}
