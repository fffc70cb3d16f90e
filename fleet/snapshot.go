package fleet

import (
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Snapshot is the fleet at one moment: which members there were, what they
// served and which could take requests. The lists are immutable and shared: they
// must not be modified. A Member in a Snapshot goes on living, so that
// [Member.Routable] may say no by the time it is looked at.
type Snapshot struct {
	version uint64
	at      time.Time
	members []*Member
	entries []entry // parallel to members
	byName  map[string]*Member
	byModel map[string]candidates
	models  []ServedModel
	pending int
	// next is closed when a newer Snapshot is published.
	next chan struct{}
}

type candidates struct {
	routable []*Member
	all      []*Member
}

// entry is what watchers compare to find changes.
type entry struct {
	member   *Member
	worker   *Worker
	served   *served
	info     *engineInfo
	state    State
	draining bool
	losses   uint64
}

// ServedModel is a model as the whole fleet serves it.
type ServedModel struct {
	// Model is as the first member by name reports it, but for MaxModelLen, which
	// is the greatest of all.
	Model
	// Members serve it, Routable of them can take requests.
	Members, Routable int
}

// Version grows with each Snapshot of a Fleet.
func (s *Snapshot) Version() uint64 { return s.version }

// At is when the Snapshot was taken.
func (s *Snapshot) At() time.Time { return s.at }

// Members are all members by name, whatever their state.
func (s *Snapshot) Members() []*Member { return s.members }

// Member finds a member by its worker's name, nil if there is none.
func (s *Snapshot) Member(name string) *Member { return s.byName[name] }

// ForModel are the members that can take requests for model, by name. It does
// not allocate.
func (s *Snapshot) ForModel(model string) []*Member { return s.byModel[model].routable }

// Serving are the members that serve model, by name, those that can't take
// requests at the moment included. Empty means that the fleet doesn't know the
// model, see Pending. It does not allocate.
func (s *Snapshot) Serving(model string) []*Member { return s.byModel[model].all }

// Models are all models that members serve, by name.
func (s *Snapshot) Models() []ServedModel { return s.models }

// Pending counts the members of which it is not known yet what they serve. While
// there are any, an unknown model may still turn out to be served.
func (s *Snapshot) Pending() int { return s.pending }

// Routable counts the members that can take requests.
func (s *Snapshot) Routable() int {
	n := 0
	for i := range s.entries {
		if s.entries[i].routable() {
			n++
		}
	}
	return n
}

func (e *entry) routable() bool {
	return e.state == StateHealthy && (!e.draining || planted.DrainIgnored)
}

// buildSnapshot reads the state of members, which it takes over.
func buildSnapshot(members []*Member, version uint64, at time.Time) *Snapshot {
	slices.SortFunc(members, func(a, b *Member) int { return strings.Compare(a.name, b.name) })
	s := &Snapshot{
		version: version,
		at:      at,
		members: members,
		entries: make([]entry, len(members)),
		byName:  make(map[string]*Member, len(members)),
		byModel: make(map[string]candidates),
		next:    make(chan struct{}),
	}
	places := make(map[string]int)
	for i, m := range members {
		e := &s.entries[i]
		*e = entry{
			member: m, worker: m.Worker(), served: m.served.Load(), info: m.info.Load(),
			state: m.Health().State, draining: m.Draining(), losses: m.losses.Load(),
		}
		s.byName[m.name] = m
		if !e.served.known {
			s.pending++
		}
		for _, model := range e.served.models {
			s.addModel(places, e, &model)
		}
	}
	slices.SortFunc(s.models, func(a, b ServedModel) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func (s *Snapshot) addModel(places map[string]int, e *entry, model *Model) {
	place, ok := places[model.Name]
	if !ok {
		place = len(s.models)
		places[model.Name] = place
		s.models = append(s.models, ServedModel{Model: *model})
	}
	sum := &s.models[place]
	sum.MaxModelLen = max(sum.MaxModelLen, model.MaxModelLen)
	sum.Members++
	c := s.byModel[model.Name]
	c.all = append(c.all, e.member)
	if e.routable() {
		sum.Routable++
		c.routable = append(c.routable, e.member)
	}
	s.byModel[model.Name] = c
}
