package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// router is one of the routers in front of the fleet: its rule, and all that it knows.
// Several share the calls, see [Exchange].
type router struct {
	cluster *cluster
	number  int

	rule     Rule
	binder   Binder
	observer Observer
	booker   Booker

	views    []View // of all workers
	some     []View // of those that a call may go to
	own      []work // what it has on each worker itself
	index    *kvcache.Index
	owners   []kvcache.Owner
	hits     []kvcache.Hit
	state    State
	waiting  []*Job
	changed  bool          // since the rule was last asked what of that to place
	reported time.Duration // when engines last reported

	exchanger
}

// work is what a router has booked on one worker, or what others say that they have.
type work struct {
	coming               int // of decoding, those without a first token whose prompt another worker computes
	prefilling, decoding int
	tokens               int
	pairs                int64
	since                time.Duration // see View.PrefillSince
}

func newRouter(c *cluster, number int, rule Rule) *router {
	r := &router{cluster: c, number: number, rule: rule}
	r.index = kvcache.NewIndex(kvcache.Options{
		MaxBytes: indexBytes, Now: func() time.Time { return epoch.Add(c.now) },
	})
	r.binder, _ = rule.(Binder)
	r.observer, _ = rule.(Observer)
	r.booker, _ = rule.(Booker)
	for i := range c.workers {
		s := c.workers[i].spec
		name := "worker-" + strconv.Itoa(i)
		owner := r.index.Join(name)
		r.index.SetTrust(owner, kvcache.Exact)
		r.owners = append(r.owners, owner)
		r.views = append(r.views, View{
			index: i, Name: name, Class: s.Class, Role: s.Role, Owner: owner, BlockSize: s.BlockSize,
			CapacityBlocks: c.workers[i].engine.Config().Blocks, Live: map[uint64]int{}, Up: true,
		})
	}
	r.own, r.hits = make([]work, len(r.views)), make([]kvcache.Hit, len(r.views))
	r.state = State{Index: r.index, TransferRate: c.cfg.TransferRate, Workers: r.views, cluster: c, router: r}
	r.exchanger = newExchanger(c, number, len(r.views))
	return r
}

// look brings the views up to date for a call, and shows those of workers that are
// up and have not failed it.
func (r *router) look(j *Job) *State {
	s := &r.state
	now := r.cluster.now
	s.Now, s.Call, s.Attempt, s.job = now, j.Call, max(j.attempt, 1), j
	r.index.Match(j.keys, r.owners, r.hits)
	all := true
	for i := range r.views {
		v := &r.views[i]
		v.Hit = r.hits[i]
		v.CachedBlocks = int(v.Hit.Blocks)
		v.CachedTokens = kvcache.CachedTokens(v.CachedBlocks, v.BlockSize, j.Call.Prompt, false)
		if r.cluster.cfg.Faults.Stale == 0 {
			r.scrape(i)
		}
		v.ReportAge = now - r.reported
		all = all && r.may(j, i)
	}
	s.Workers = r.views
	if !all {
		r.some = r.some[:0]
		for i := range r.views {
			if r.may(j, i) {
				r.some = append(r.some, r.views[i])
			}
		}
		s.Workers = r.some
	}
	return s
}

// may reports whether a call may go to a worker.
func (r *router) may(j *Job, i int) bool { return r.views[i].Up && !slices.Contains(j.tried, i) }

// scrape reads what an engine reports. A router that is not alone tells others' requests
// from those that it knows of as [fleet.Member.Pressure] does.
func (r *router) scrape(i int) {
	r.reported = r.cluster.now
	v, e := &r.views[i], r.cluster.workers[i].engine
	v.Waiting, v.Running = e.Waiting(), e.Running()
	v.KVUsage = float64(e.UsedBlocks()) / float64(v.CapacityBlocks)
	if len(r.cluster.routers) > 1 {
		others := max(0, v.Waiting+v.Running-v.InFlight)
		v.OtherWaiting = min(others, max(0, v.Waiting-v.Prefilling))
		v.OtherRunning = others - v.OtherWaiting
	}
}

// book makes a leg visible to whoever looks next.
func (r *router) book(l *Leg, cached int) {
	v, w, j := &r.views[l.worker], &r.own[l.worker], l.job
	r.rush.Note(epoch.Add(r.cluster.now))
	l.phase, l.booked = prefilling, r.cluster.workers[l.worker].life
	l.cached = cached
	l.work = j.Call.Prompt - cached
	l.pairs = pairs(l.work, l.cached)
	if j.by != nil && l == j.Leg {
		l.phase = coming
		w.coming++
		w.decoding++
	} else {
		if w.prefilling == 0 {
			w.since = r.cluster.now
		}
		w.prefilling++
		w.tokens += l.work
		w.pairs += l.pairs
	}
	for _, b := range j.prompt(v.BlockSize) {
		v.Live[b]++
	}
	if j.Call.Prompt%v.BlockSize != 0 {
		v.Tails++
	}
	r.moved(l.worker)
}

// began notes the first token of a leg that was of phase was.
func (r *router) began(l *Leg, was phase) {
	w := &r.own[l.worker]
	if was == coming {
		w.coming--
		r.moved(l.worker)
		return
	}
	w.since = r.cluster.now
	r.done(l.worker)
	w.prefilling--
	w.decoding++
	w.tokens -= l.work
	w.pairs -= l.pairs
	r.moved(l.worker)
}

// forget takes a leg off that was of phase was.
func (r *router) forget(l *Leg, was phase) {
	v, w := &r.views[l.worker], &r.own[l.worker]
	if was == prefilling {
		w.prefilling--
		w.tokens -= l.work
		w.pairs -= l.pairs
	} else {
		w.decoding--
	}
	if was == coming {
		w.coming--
	}
	for _, b := range l.job.prompt(v.BlockSize) {
		if v.Live[b]--; v.Live[b] == 0 {
			delete(v.Live, b)
		}
	}
	if l.job.Call.Prompt%v.BlockSize != 0 {
		v.Tails--
	}
	r.moved(l.worker)
}

// moved shows and tells what is in flight on a worker now.
func (r *router) moved(i int) {
	r.sum(i)
	r.tell(i)
}

// sum shows the router's own work on a worker and what others say of theirs.
func (r *router) sum(i int) {
	v, own, peers := &r.views[i], &r.own[i], r.share(i)
	v.Prefilling, v.Decoding = own.prefilling+peers.prefilling, own.decoding+peers.decoding
	v.OwnPrefilling, v.Coming = own.prefilling, own.coming
	v.InFlight = v.Prefilling + v.Decoding
	v.PrefillTokens, v.PrefillPairs = own.tokens+peers.tokens, own.pairs+peers.pairs
	v.PrefillSince = own.since
	if peers.prefilling > 0 && (own.prefilling == 0 || peers.since < own.since) {
		v.PrefillSince = peers.since
	}
	v.PrefillSince = r.begunAt(i, v.PrefillSince)
}

// crashed forgets what was on a worker that went down.
func (r *router) crashed(i int) {
	v := &r.views[i]
	r.own[i], v.Tails = work{}, 0
	clear(v.Live)
	r.gone(i)
	r.moved(i)
}

// restarted knows a worker as a new instance.
func (r *router) restarted(i int) {
	v := &r.views[i]
	r.index.Leave(v.Owner)
	v.Owner = r.index.Join(v.Name)
	r.owners[i] = v.Owner
	r.index.SetTrust(v.Owner, kvcache.Exact)
	v.Up = true
}
