package fleet

import (
	"context"
	"errors"
	"net"
	"net/url"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// State is what the fleet thinks of a member's health.
type State uint8

const (
	// StatePending: not probed yet. Takes no requests.
	StatePending State = iota
	// StateHealthy: answers its health check.
	StateHealthy
	// StateSuspect: requests failed; a probe is on its way. Takes no requests.
	StateSuspect
	// StateUnhealthy: failed its health check, or sleeps. Takes no requests.
	StateUnhealthy
)

// String is the state's name in lower case.
func (s State) String() string {
	switch s {
	case StatePending:
		return "pending"
	case StateHealthy:
		return "healthy"
	case StateSuspect:
		return "suspect"
	case StateUnhealthy:
		return "unhealthy"
	default:
		return "unknown"
	}
}

// Health is the outcome of a member's probes. It is immutable.
type Health struct {
	State State
	// Since is when State was entered.
	Since time.Time
	// Failures in a row, of probes.
	Failures int
	// Err says why the member isn't healthy; nil if it is.
	Err error
	// Problems are what else is wrong, with the remedy: metrics that can't be
	// read, models that aren't served as declared.
	Problems []string
}

// Member is the runtime of one instance of a worker. It is safe for concurrent
// use, and stays valid after the instance left the fleet. Two Members are the
// same instance if and only if they are the same pointer; their IDs tell them
// apart in logs.
type Member struct {
	fleet  *Fleet
	name   string
	epoch  string
	id     string
	shared string // SharedID
	url    *url.URL
	ranks  []ranked

	worker atomic.Pointer[Worker]
	health atomic.Pointer[Health]
	served atomic.Pointer[served]
	info   atomic.Pointer[engineInfo]
	load   atomic.Pointer[Load]

	suspect atomic.Bool // requests failed since the last good probe
	refused atomic.Bool // a connection was refused since the last good probe
	passive atomic.Int32
	drained atomic.Bool // by Fleet.Drain
	gone    atomic.Bool
	losses  atomic.Uint64 // times the engine said that it dropped its cache

	kick   chan struct{} // asks for a probe at once
	cancel context.CancelFunc
}

// engineInfo is what probing found out about the engine beside its metrics.
type engineInfo struct {
	engine    Engine
	blockSize int
}

// ID is name@epoch, unique among all instances this fleet has seen that have an
// epoch of their own.
func (m *Member) ID() string { return m.id }

// SharedID is the instance as every router knows it: name@epoch where the Discoverer
// gives the epoch, name@~URL where it does not. Routers that list a worker alike derive
// the same, whatever they have seen of it: a restart that the Discoverer does not tell of
// makes a new Member with another ID, but the same SharedID, for one router may infer it
// later than another, or never. So it is for what routers tell each other and for nothing
// that must be exact.
func (m *Member) SharedID() string { return m.shared }

// Name is the worker's name, shared by all its instances.
func (m *Member) Name() string { return m.name }

// Epoch is the Discoverer's epoch or a minted one.
func (m *Member) Epoch() string { return m.epoch }

// Worker is the description as last discovered. It must not be modified.
func (m *Member) Worker() *Worker { return m.worker.Load() }

// URL is the parsed base address. It must not be modified.
func (m *Member) URL() *url.URL { return m.url }

// Ranks is the number of data-parallel ranks, at least 1. It never changes.
func (m *Member) Ranks() int { return len(m.ranks) }

// Engine is the declared or detected engine, EngineAuto until it is known.
func (m *Member) Engine() Engine { return m.info.Load().engine }

// BlockSize is the KV-cache block size in tokens, as declared or else as the
// engine reports it; 0 if unknown.
func (m *Member) BlockSize() int {
	if n := m.worker.Load().BlockSize; n > 0 {
		return n
	}
	if l := m.load.Load(); l != nil && l.Total.BlockSize > 0 {
		return l.Total.BlockSize
	}
	return m.info.Load().blockSize
}

// Healthy reports whether the member answered its last probes and no request has
// failed since in a way that casts doubt on it.
func (m *Member) Healthy() bool {
	return m.health.Load().State == StateHealthy && !m.suspect.Load()
}

// Draining reports whether the member takes no new requests, by its Discoverer
// or by Fleet.Drain.
func (m *Member) Draining() bool { return m.worker.Load().Draining || m.drained.Load() }

// Gone reports whether the instance left the fleet.
func (m *Member) Gone() bool { return m.gone.Load() }

// Routable reports whether the member may take a new request now: healthy,
// neither draining nor gone.
func (m *Member) Routable() bool {
	return m.Healthy() && (planted.DrainIgnored || !m.Draining()) && !m.Gone()
}

// Health is the outcome of the last probes.
func (m *Member) Health() Health {
	h := *m.health.Load()
	if h.State == StateHealthy && m.suspect.Load() {
		h.State = StateSuspect
	}
	return h
}

// Load is the last scrape of the engine's metrics, nil before the first.
func (m *Member) Load() *Load { return m.load.Load() }

// Models are the models served, by name. The slice must not be modified.
func (m *Member) Models() []Model { return m.served.Load().models }

// ModelsKnown reports whether it is known what the member serves: models were declared,
// or the engine has answered. See [Snapshot.Pending].
func (m *Member) ModelsKnown() bool { return m.served.Load().known }

// Serves reports whether the member serves model.
func (m *Member) Serves(model string) bool {
	_, ok := m.served.Load().byName[model]
	return ok
}

// MaxModelLen is the longest context in tokens, prompt and answer together, that
// the member takes for model; 0 if unknown.
func (m *Member) MaxModelLen(model string) int {
	s := m.served.Load()
	if i, ok := s.byName[model]; ok {
		return s.models[i].MaxModelLen
	}
	return 0
}

// Adapter reports whether model is a LoRA adapter on this member, and of which
// base model.
func (m *Member) Adapter(model string) (base string, ok bool) {
	s := m.served.Load()
	if i, found := s.byName[model]; found && s.models[i].Parent != "" {
		return s.models[i].Parent, true
	}
	return "", false
}

// ReportFailure says that a request to the member failed for a reason that may
// be the member's: it could not be reached, or broke off, or answered 5xx. After
// a failed dial at once, and after Options.UnhealthyAfter other failures in a
// row, the member is suspect and is probed immediately. Errors of a cancelled
// context are nobody's fault and are ignored.
func (m *Member) ReportFailure(err error) {
	if err == nil || errors.Is(err, context.Canceled) || m.gone.Load() {
		return
	}
	failures := m.passive.Add(1)
	if isRefused(err) {
		m.refused.Store(true)
	}
	if !isDial(err) && int(failures) < m.fleet.opts.UnhealthyAfter {
		return
	}
	if m.suspect.CompareAndSwap(false, true) {
		m.fleet.markDirty()
		m.wake()
	}
}

// ReportSuccess says that the member answered a request.
func (m *Member) ReportSuccess() {
	// A plain load first: this runs for every request, and the line is shared.
	if m.passive.Load() != 0 {
		m.passive.Store(0)
	}
}

func (m *Member) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// isDial reports whether err says that no connection came about.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// errConnRefusedWindows is Windows' own number, which package syscall doesn't equate
// with ECONNREFUSED.
const errConnRefusedWindows = syscall.Errno(10061)

// isRefused reports whether nobody listened at the address.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) ||
		runtime.GOOS == "windows" && errors.Is(err, errConnRefusedWindows)
}

func newMember(f *Fleet, w *Worker, epoch string, cancel context.CancelFunc) *Member {
	m := &Member{
		fleet: f, name: w.Name, epoch: epoch, id: w.Name + "@" + epoch,
		ranks: make([]ranked, w.Ranks()), kick: make(chan struct{}, 1), cancel: cancel,
	}
	// Validated: it parses.
	if u, err := url.Parse(w.URL); err == nil {
		m.url = u
	} else {
		m.url = &url.URL{}
	}
	// Not the ID of an instance that is new by inference: who infers it, and how often,
	// differs between routers.
	if m.shared = w.Name + "@" + w.Epoch; w.Epoch == "" {
		m.shared = w.Name + "@~" + w.URL
	}
	m.worker.Store(w)
	m.health.Store(&Health{State: StatePending, Since: f.opts.Now()})
	m.served.Store(declared(w.Models))
	m.info.Store(&engineInfo{engine: w.Engine})
	return m
}

// describe takes over a changed description of the same instance.
func (m *Member) describe(w *Worker) {
	old := m.worker.Swap(w)
	if old.Engine != w.Engine || !slices.Equal(old.Models, w.Models) {
		// The prober settles the new declaration with what the engine reports.
		m.wake()
	}
}
