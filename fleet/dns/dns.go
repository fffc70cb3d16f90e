package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

const (
	defaultMinInterval = 5 * time.Second
	defaultMaxInterval = 5 * time.Minute
	defaultTimeout     = 2 * time.Second
)

// Family says which address records are taken.
type Family int

// The families. FamilyAuto (the zero value) takes A records, and AAAA where there
// are none.
const (
	FamilyAuto Family = iota
	FamilyIPv4
	FamilyIPv6
	// FamilyBoth takes A and AAAA: for workers that have one of them each.
	FamilyBoth
)

// Record is what the DNS says of one worker.
type Record struct {
	// Addr is its address and port.
	Addr netip.AddrPort
	// Target, Priority and Weight are those of its SRV record; Target is "" and the
	// others 0 without one. It has no dot at the end.
	Target           string
	Priority, Weight uint16
}

// Discoverer asks the DNS for the workers. Name is required, and one of Port and
// SRV. Its fields must not be changed once it is in use, and it belongs to one
// Fleet: it remembers its last answer.
type Discoverer struct {
	// Name to look up, for example "vllm.default.svc.cluster.local.", or of SRV
	// records "_http._tcp.vllm.default.svc.cluster.local.". With a dot at the end it
	// is taken as it is. Without, it may be a name of the search list: in a cluster,
	// where ndots is 5, it is that first of all.
	Name string
	// Port of the workers, 1 to 65535, whose addresses Name has. 0 with SRV.
	Port int
	// SRV asks for SRV records, which have the ports.
	SRV bool
	// AllPriorities takes SRV records of every priority, not of the lowest alone.
	AllPriorities bool
	// Family says which address records are taken.
	Family Family
	// HTTPS makes the workers' URLs https ones. They hold addresses; to have names
	// in them, for certificates, give Worker.
	HTTPS bool
	// Worker makes the worker of a record. w is what it would be: name, URL and, of
	// SRV records, labels. Default: w.
	Worker func(r Record, w fleet.Worker) fleet.Worker

	// Servers to ask, in turn until one answers: "10.0.0.2", "[2001:db8::2]:53"; the
	// port may be left out. Default: those of /etc/resolv.conf, with its search list.
	Servers []string
	// MinInterval and MaxInterval bound the time between two lookups, which is
	// that for which the records hold. Defaults 5 s and 5 min.
	MinInterval, MaxInterval time.Duration
	// Timeout bounds each query to a server; each is asked twice. Default 2 s.
	Timeout time.Duration
	// Hold keeps a record listed for that long after the first answer without it:
	// for servers that give a part of the records each time. Give several times
	// MinInterval, so that there are several answers in it; the name is asked again
	// when it ends. Default 0: the record leaves with that answer.
	Hold time.Duration
	// MaxStale is how long lookups may fail until all workers are removed. Default
	// 0: they stay as long as it lasts.
	MaxStale time.Duration
	// Now tells the time. Default time.Now.
	Now func() time.Time

	mu    sync.Mutex // held by Discover
	state state
}

// state is what a Discoverer remembers between calls of Discover.
type state struct {
	answered bool // there was a good answer ever
	from     name // of the search list, that had records last; or ""
	at       time.Time
	held     map[Record]time.Time // zero if in the last answer, else when it first was in none
	emptied  bool                 // by MaxStale
}

var _ fleet.Discoverer = (*Discoverer)(nil)

// ErrInUse: Discover was called while another call of it ran. Seen by whoever
// gives one Discoverer to two Fleets: make one for each.
var ErrInUse = errors.New("dns: the Discoverer is in use by another Fleet; make one for each")

// Validate reports fields that are missing or out of range; fleet.New asks it.
func (d *Discoverer) Validate() error {
	const maxPort = 65535
	switch {
	case d.Name == "":
		return errors.New("dns: Discoverer.Name is empty; write the name to look up")
	case d.SRV && d.Port != 0:
		return fmt.Errorf("dns: Discoverer.Port is %d, but SRV records have ports of their own; leave out one of Port and SRV", d.Port)
	case !d.SRV && (d.Port < 1 || d.Port > maxPort):
		return fmt.Errorf("dns: Discoverer.Port is %d; give the workers' port, 1 to %d, or set SRV", d.Port, maxPort)
	case d.Family < FamilyAuto || d.Family > FamilyBoth:
		return fmt.Errorf("dns: Discoverer.Family is %d; use one of the constants", d.Family)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"MinInterval", d.MinInterval},
		{"MaxInterval", d.MaxInterval},
		{"Timeout", d.Timeout},
		{"Hold", d.Hold},
		{"MaxStale", d.MaxStale},
	} {
		if f.value < 0 {
			return fmt.Errorf("dns: Discoverer.%s is %v; give a positive duration, or 0 for the default", f.name, f.value)
		}
	}
	if low, high := or(d.MinInterval, defaultMinInterval), or(d.MaxInterval, defaultMaxInterval); low > high {
		return fmt.Errorf("dns: Discoverer.MinInterval is %v, more than MaxInterval, %v; exchange them", low, high)
	}
	if _, err := newName(d.Name); err != nil {
		return err
	}
	_, err := servers(d.Servers)
	return err
}

// Discover looks the name up until ctx ends. It returns the error of the first
// lookup that fails, for the Fleet to report, and is then called again.
func (d *Discoverer) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if !d.mu.TryLock() {
		return ErrInUse
	}
	defer d.mu.Unlock()
	var last []fleet.Worker
	for first := true; ; first = false {
		answer, err := d.lookup(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return d.failed(err, set)
		}
		records, expiry := d.keep(answer.records)
		list := d.workers(records)
		if first || !slices.EqualFunc(last, list, func(a, b fleet.Worker) bool { return a.Equal(&b) }) {
			if err := set(clone(list)); err != nil {
				return err
			}
			last = list
		}
		timer := time.NewTimer(min(d.pause(answer.ttl), expiry))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// failed is what a lookup without an answer leads to.
func (d *Discoverer) failed(err error, set func([]fleet.Worker) error) error {
	s := &d.state
	if s.answered && d.MaxStale > 0 && d.now().Sub(s.at) > d.MaxStale {
		err = fmt.Errorf("%w; no answer since %v, more than MaxStale, so that no worker is listed any more", err, s.at.Format(time.RFC3339))
		if !s.emptied {
			s.held, s.emptied = nil, true
			return errors.Join(err, set([]fleet.Worker{}))
		}
	}
	return err
}

// keep adds to the records those that left the answers within Hold. expiry is the
// time until the first of these is to leave.
func (d *Discoverer) keep(records []Record) (kept []Record, expiry time.Duration) {
	s, now := &d.state, d.now()
	s.answered, s.at, s.emptied = true, now, false
	if s.held == nil {
		s.held = make(map[Record]time.Time, len(records))
	}
	current := make(map[Record]bool, len(records))
	listed := make(map[netip.AddrPort]bool, len(records))
	for _, r := range records {
		s.held[r] = time.Time{}
		current[r], listed[r.Addr] = true, true
	}
	kept, expiry = slices.Clone(records), forever
	for r, missed := range s.held {
		if current[r] {
			continue
		}
		if missed.IsZero() {
			missed = now
		}
		left := d.Hold - now.Sub(missed)
		if listed[r.Addr] || left <= 0 {
			delete(s.held, r) // it is listed as something else, or no more
			continue
		}
		s.held[r] = missed
		kept, expiry = append(kept, r), min(expiry, left)
		listed[r.Addr] = true
	}
	return kept, expiry
}

// workers makes the workers of records, by address. Two records of one address
// are one worker: that of the lower priority, then of the greater weight.
func (d *Discoverer) workers(records []Record) []fleet.Worker {
	slices.SortFunc(records, func(a, b Record) int {
		if c := a.Addr.Compare(b.Addr); c != 0 {
			return c
		}
		if a.Priority != b.Priority {
			return int(a.Priority) - int(b.Priority)
		}
		if a.Weight != b.Weight {
			return int(b.Weight) - int(a.Weight)
		}
		return strings.Compare(a.Target, b.Target)
	})
	records = slices.CompactFunc(records, func(a, b Record) bool { return a.Addr == b.Addr })
	out := make([]fleet.Worker, len(records))
	for i, r := range records {
		out[i] = d.worker(r)
	}
	return out
}

func (d *Discoverer) worker(r Record) fleet.Worker {
	scheme := "http://"
	if d.HTTPS {
		scheme = "https://"
	}
	addr := r.Addr.String()
	w := fleet.Worker{Name: addr, URL: scheme + addr}
	if d.SRV {
		w.Labels = map[string]string{
			"dns-target":   r.Target,
			"dns-priority": strconv.Itoa(int(r.Priority)),
			"dns-weight":   strconv.Itoa(int(r.Weight)),
		}
	}
	if d.Worker != nil {
		return d.Worker(r, w)
	}
	return w
}

// pause is the time to the next lookup.
func (d *Discoverer) pause(ttl time.Duration) time.Duration {
	return min(max(ttl, or(d.MinInterval, defaultMinInterval)), or(d.MaxInterval, defaultMaxInterval))
}

func (d *Discoverer) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

func clone(list []fleet.Worker) []fleet.Worker {
	out := make([]fleet.Worker, len(list))
	for i := range list {
		out[i] = list[i].Clone()
	}
	return out
}

func or(value, def time.Duration) time.Duration {
	if value == 0 {
		return def
	}
	return value
}
