package kvsteercaddy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Config says what router a [Handler] asks. Handlers with equal ones share a router. The
// names of its options are those of the Caddyfile's directive. In strings, placeholders
// such as {env.HOME} are replaced when the configuration is loaded.
type Config struct {
	// Fleet is the file that lists the workers, which may change while Caddy runs: see
	// package fleet/file. One of Fleet and Workers is required.
	Fleet string `json:"fleet,omitempty"`
	// Workers are the workers themselves. In a Caddyfile: worker NAME URL [EVENTS [REPLAY]].
	Workers []fleet.Worker `json:"workers,omitempty"`
	// Policy is a file or directory of policies, which may change while Caddy runs.
	// Empty: the lowest predicted TTFT.
	Policy string `json:"policy,omitempty"`
	// Models are directories of models' files by the models' names, to compute prompts
	// from instead of asking an engine. In a Caddyfile: model NAME DIR.
	Models map[string]string `json:"models,omitempty"`
	// Queue, if set, holds requests while every worker is busy.
	Queue *Queue `json:"queue,omitempty"`
	// Record is the file to append the decision log to. Empty: none.
	Record string `json:"record,omitempty"`
	// Redis, if set, lets this gateway and its replicas know of each other's requests.
	Redis *Redis `json:"redis,omitempty"`
	// Snapshot is the file in which a router leaves at the end what it knows of caches, and
	// with which it begins. No two gateways may have the same. Empty: none.
	Snapshot string `json:"snapshot,omitempty"`
	// SnapshotFrom are addresses of replicas' snapshots, one of which a router begins with
	// if there is any: see [kvsteer.SnapshotHandler]. They come before the file.
	SnapshotFrom []string `json:"snapshot_from,omitempty"`
	// MaxBody is the largest request body, in bytes: 0 = 32 MiB. In a Caddyfile it may
	// have a unit, such as 64MiB.
	MaxBody int64 `json:"max_body,omitempty"`
	// MaxAttempts is how many workers a request is tried on, 0 = 3.
	MaxAttempts int `json:"max_attempts,omitempty"`
}

// Queue is how requests wait for a worker; see [kvsteer.QueueOptions].
type Queue struct {
	// Hold is the predicted wait on a worker from which on a request waits here
	// instead, 0 = any.
	Hold caddy.Duration `json:"hold,omitempty"`
	// MaxWaiting bounds the requests that wait, 0 = 1,024.
	MaxWaiting int `json:"max_waiting,omitempty"`
	// MaxWait bounds how long one waits, 0 = 30 s.
	MaxWait caddy.Duration `json:"max_wait,omitempty"`
}

// Options are what a [Handler] does with requests, beyond the router that it asks.
type Options struct {
	// Tenant is whom a request is for, as a placeholder that whoever authenticates
	// fills in, such as {http.auth.user.id}, or a fixed name. Empty: nobody in
	// particular. A placeholder of what clients send lets them say who they are.
	Tenant string `json:"tenant,omitempty"`
	// QoS is a request's class of service, as Tenant.
	QoS string `json:"qos,omitempty"`
	// Pool is the group of workers that may serve a request, as Tenant. Empty: all. If it
	// is a placeholder and that is empty, the request is refused with 503.
	Pool string `json:"pool,omitempty"`
	// ReadyPath are the paths on which readiness is told: 200 while a worker can take
	// requests and Caddy does not shut down, else 503. Default: /healthz and /health.
	ReadyPath []string `json:"ready_path,omitempty"`
	// ReadyTimeout is how long loading a configuration waits for the first worker of a
	// fleet that is new in it, 0 = 5 s. Then it is loaded all the same. Negative: no wait.
	ReadyTimeout caddy.Duration `json:"ready_timeout,omitempty"`
	// FirstByteTimeout bounds the wait for a worker's first byte, then the next one is
	// tried. 0 = 30 minutes, negative: no bound.
	FirstByteTimeout caddy.Duration `json:"first_byte_timeout,omitempty"`
	// IdleTimeout bounds the wait for more of an answer that has begun. 0 = 10 minutes,
	// negative: no bound.
	IdleTimeout caddy.Duration `json:"idle_timeout,omitempty"`
}

const defaultReadyTimeout = 5 * time.Second

// check says what is wrong with the values, as far as one can tell without opening
// anything.
func (h *Handler) check() error {
	switch {
	case h.Fleet == "" && len(h.Workers) == 0:
		return errors.New("there are no workers: give fleet a file that lists them, or name each by worker")
	case h.Fleet != "" && len(h.Workers) > 0:
		return errors.New("both fleet and worker are given: put all workers into the file, or drop fleet")
	case h.MaxBody < 0:
		return fmt.Errorf("max_body: %d is negative; give a size in bytes, or leave it out for 32 MiB", h.MaxBody)
	case h.MaxAttempts < 0:
		return fmt.Errorf("max_attempts: %d is negative; give 1 or more, or leave it out for 3", h.MaxAttempts)
	}
	for _, p := range h.ReadyPath {
		if !strings.HasPrefix(p, "/") {
			return fmt.Errorf("ready_path: %q is no path; it must begin with a slash", p)
		}
	}
	if !slices.ContainsFunc(h.Workers, replaced) { // else it is known when they are
		if err := fleet.Validate(h.Workers); err != nil {
			return err
		}
	}
	if h.Redis != nil {
		if err := h.Redis.check(); err != nil {
			return err
		}
	}
	for _, address := range h.SnapshotFrom {
		if err := checkPeer(address); err != nil {
			return err
		}
	}
	if h.Queue == nil {
		return nil
	}
	switch q := h.Queue; {
	case q.Hold < 0:
		return fmt.Errorf("queue: hold: %v is negative; leave it out to wait for a free worker", time.Duration(q.Hold))
	case q.MaxWaiting < 0:
		return fmt.Errorf("queue: max_waiting: %d is negative; leave queue out for none to wait", q.MaxWaiting)
	case q.MaxWait < 0:
		return fmt.Errorf("queue: max_wait: %v is negative; leave queue out for none to wait", time.Duration(q.MaxWait))
	}
	return nil
}

// replaced reports whether a worker's addresses have placeholders.
func replaced(w fleet.Worker) bool {
	return strings.Contains(w.URL, "{") || slices.ContainsFunc(w.Events, func(at follow.Endpoint) bool {
		return strings.Contains(at.Events+at.Replay, "{")
	})
}

// resolved returns the configuration with its placeholders replaced and its paths
// absolute: what is compared with others.
func (c *Config) resolved(repl *caddy.Replacer) (Config, error) {
	r := *c
	var failed error
	text := func(option, s string) string {
		s, err := repl.ReplaceOrErr(s, true, true)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", option, err))
		}
		return s
	}
	path := func(option, s string) string {
		if s == "" {
			return ""
		}
		abs, err := filepath.Abs(text(option, s))
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", option, err))
		}
		return abs
	}
	r.Fleet, r.Policy, r.Record = path("fleet", c.Fleet), path("policy", c.Policy), path("record", c.Record)
	r.Snapshot = path("snapshot", c.Snapshot)
	r.SnapshotFrom = slices.Clone(c.SnapshotFrom)
	for i, address := range r.SnapshotFrom {
		r.SnapshotFrom[i] = text("snapshot_from", address)
	}
	if c.Redis != nil {
		at := c.Redis
		r.Redis = &Redis{URL: text("redis: url", at.URL), Channel: text("redis: channel", at.Channel), Name: text("redis: name", at.Name)}
	}
	r.Models = maps.Clone(c.Models)
	for name, dir := range c.Models {
		r.Models[name] = path("model "+name, dir)
	}
	r.Workers = slices.Clone(c.Workers)
	for i := range r.Workers {
		w := &r.Workers[i]
		option := "worker " + w.Name
		w.URL = text(option, w.URL)
		w.Events = slices.Clone(w.Events)
		for k := range w.Events {
			at := &w.Events[k]
			at.Events, at.Replay = text(option, at.Events), text(option, at.Replay)
		}
	}
	return r, failed
}
