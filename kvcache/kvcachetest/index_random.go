package kvcachetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// RandomIndex describes a random comparison of an index with the [Model].
type RandomIndex struct {
	// Seed decides everything that happens.
	Seed uint64
	// Ops is how many operations to run.
	Ops int
	// Deep is how many blocks the longest prompts have; 0 is 40. Long prompts
	// exercise an index's internal limits, and slow the model down.
	Deep int
	// Forgets says that the index may lose any block at any time, as under a
	// memory budget. Then all that is compared is that it confirms nothing that
	// the model does not, and no less for an owner that it calls Exact; and engine
	// hashes keep their meaning, without which even that could not be asked.
	Forgets bool
}

// CompareIndex runs random operations on an index and on the [Model] and returns
// the first difference: in an outcome, in a match, or in the figures.
func CompareIndex(newIndex NewIndexFunc, r RandomIndex) error {
	if r.Deep == 0 {
		r.Deep = 40
	}
	d := &duel{rnd: rand.New(rand.NewPCG(r.Seed, 0)), now: time.Unix(1_790_000_000, 0), deep: r.Deep, forgets: r.Forgets}
	opts := kvcache.Options{
		MaxOrphans: 50, MaxProvisional: 3 * r.Deep / 4, MaxBytes: 1 << 30,
		Now: func() time.Time { return d.now },
	}
	d.index = newIndex(opts)
	if r.Forgets {
		// What forgets has room for an orphan when the model might have none.
		opts.MaxOrphans = math.MaxInt32
	}
	d.model = NewModel(opts)
	for range duelOwners {
		d.join()
	}
	for i := range r.Ops {
		if err := d.step(); err != nil {
			return fmt.Errorf("seed %d, operation %d: %w", r.Seed, i, err)
		}
	}
	return nil
}

const (
	duelOwners = 5
	duelBlock  = 2
	statsEvery = 64
)

// duel is one comparison: two indexes and the random stream that drives both.
type duel struct {
	rnd  *rand.Rand
	now  time.Time
	deep int
	// forgets is RandomIndex.Forgets.
	forgets bool
	model   *Model
	index   IndexLike
	owners  []duelOwner
	left    []duelOwner // a few that have gone
	steps   int
	joined  int
}

type duelOwner struct {
	model, index kvcache.Owner
	// window is which of duelWindows it has, or nil.
	window *kvcache.Event
}

// duelPath is a prompt: a scope, some blocks of a spine that all prompts share,
// and a few of its own.
type duelPath struct {
	scope kvcache.Scope
	spine int
	tail  []byte
}

func (d *duel) path() duelPath {
	p := duelPath{spine: d.rnd.IntN(6)}
	switch d.rnd.IntN(50) {
	case 0:
		p.spine = d.rnd.IntN(d.deep)
	case 1:
		p.scope.Adapter = "adapter"
	case 2:
		p.scope.Salt = "salt"
	}
	p.tail = make([]byte, d.rnd.IntN(5))
	for i := range p.tail {
		p.tail[i] = byte(1 + d.rnd.IntN(2))
	}
	return p
}

func (p duelPath) blocks() int { return p.spine + len(p.tail) }

func (p duelPath) tokens() []uint32 {
	t := make([]uint32, 0, duelBlock*p.blocks())
	for i := range p.blocks() {
		v := uint32(0)
		if i >= p.spine {
			v = uint32(p.tail[i-p.spine])
		}
		t = append(t, v, v+7)
	}
	return t
}

func (p duelPath) keys() []kvcache.Key {
	return kvcache.Hasher{BlockSize: duelBlock}.Keys(nil, p.tokens(), p.scope, nil)
}

// hashes are the engine's. Variant stands for a second seed: the same blocks by
// other names. A few names are reused for other blocks.
func (d *duel) hashes(keys []kvcache.Key, variant uint64) []kvcache.EngineHash {
	hs := make([]kvcache.EngineHash, len(keys))
	for i, k := range keys {
		hs[i] = kvcache.EngineHash(uint64(k)*0x9e3779b97f4a7c15 + variant)
		if d.rnd.IntN(400) == 0 && !d.forgets {
			hs[i] = kvcache.EngineHash(d.rnd.IntN(8))
		}
	}
	return hs
}

func (d *duel) variant() uint64 {
	if d.rnd.IntN(12) == 0 {
		return 1
	}
	return 0
}

func (d *duel) tier() kvcache.Tier {
	if d.rnd.IntN(4) == 0 {
		return kvcache.Tier(d.rnd.IntN(kvcache.NumTiers))
	}
	return kvcache.TierGPU
}

// group keeps most owners to one full-attention group.
func (d *duel) group(owner int) int {
	if owner == 0 && d.rnd.IntN(2) == 0 {
		return 1
	}
	return 0
}

func (d *duel) join() {
	o := duelOwner{model: d.model.Join("o"), index: d.index.Join("o")}
	if n := d.joined % duelOwners; n < len(duelWindows) {
		o.window = &duelWindows[n]
	}
	d.joined++
	d.owners = append(d.owners, o)
	d.model.SetTrust(o.model, kvcache.Exact)
	d.index.SetTrust(o.index, kvcache.Exact)
}

// step does one random operation on both and compares.
func (d *duel) step() error {
	d.steps++
	n := d.rnd.IntN(len(d.owners))
	o := d.owners[n]
	switch op := d.rnd.IntN(1000); {
	case op < 400:
		e := d.randomStore(n)
		if o.window != nil && e.Attention == kvcache.FullAttention {
			if err := d.compareApply(o, d.window(o.window, e)); err != nil {
				return err
			}
		}
		return d.compareApply(o, e)
	case op < 700:
		return d.compareApply(o, d.randomRemove(n))
	case op < 900:
		// What forgets a block may book it again, and then predicts windows there.
		if !d.forgets || o.window == nil {
			d.randomBook(o)
		}
	case op < 950:
		d.now = d.now.Add(time.Duration(d.rnd.IntN(2000)) * time.Millisecond)
	case op < 954:
		d.churn(n)
	case op < 956:
		return d.compareApply(o, &kvcache.Event{Kind: kvcache.Cleared})
	case op < 958:
		d.model.Clear(o.model)
		d.index.Clear(o.index)
	case op < 962:
		c := d.rnd.IntN(d.deep)
		d.model.SetCapacity(o.model, c)
		d.index.SetCapacity(o.index, c)
	case op < 963:
		st := kvcache.Standing{Trust: kvcache.Trust(d.rnd.IntN(int(kvcache.Exact) + 1)), Reason: "because"}
		d.model.SetStanding(o.model, st)
		d.index.SetStanding(o.index, st)
	case op < 964:
		p := kvcache.Position{Seq: d.rnd.Uint64(), Whole: d.rnd.IntN(2) == 0}
		d.model.SetPosition(o.model, p)
		d.index.SetPosition(o.index, p)
	case op < 966 && len(d.left) > 0:
		return d.compareApply(d.left[d.rnd.IntN(len(d.left))], d.randomStore(1))
	}
	return d.compareMatch()
}

func (d *duel) churn(n int) {
	o := d.owners[n]
	d.model.Leave(o.model)
	d.index.Leave(o.index)
	d.left = append(d.left, o)
	if len(d.left) > duelOwners {
		d.left = d.left[1:]
	}
	d.owners = append(d.owners[:n], d.owners[n+1:]...)
	d.join()
}

func (d *duel) randomStore(owner int) *kvcache.Event {
	p := d.path()
	keys, tokens := p.keys(), p.tokens()
	hashes := d.hashes(keys, d.variant())
	from := 0
	if len(keys) > 0 && d.rnd.IntN(3) > 0 {
		from = d.rnd.IntN(len(keys))
		if back := len(keys) - 8; from < back && d.rnd.IntN(3) == 0 {
			from = back
		}
	}
	e := &kvcache.Event{
		Kind: kvcache.Stored, Hashes: hashes[from:], Tokens: tokens[from*duelBlock:], BlockSize: duelBlock,
		Tier: d.tier(), Group: d.group(owner), Adapter: p.scope.Adapter, Salt: p.scope.Salt,
	}
	if from > 0 {
		e.Parent, e.HasParent = hashes[from-1], true
	}
	odd := d.rnd.IntN(120)
	if d.forgets && odd >= 6 {
		odd = 119
	}
	switch odd {
	case 0, 1, 2, 3, 4, 5:
		e.Tokens, e.BlockSize, e.Tier = nil, 0, kvcache.TierCPU
	case 6:
		if d.rnd.IntN(8) == 0 {
			e.Attention, e.Group = kvcache.OtherAttention, 2
		}
	case 7:
		e.AdapterUnnamed = true
	case 8:
		e.BlockSize = 1
	case 9:
		e.BlockSize, e.Tokens = 1, e.Tokens[:len(e.Hashes)]
	case 10:
		if len(e.Hashes) > 0 {
			e.Extras = make([][]kvcache.Extra, len(e.Hashes))
			e.Extras[len(e.Hashes)-1] = []kvcache.Extra{{ID: "image", Offset: d.rnd.IntN(2)}}
		}
	case 11: // a block that is its own parent
		e.HasParent = len(e.Hashes) > 0
		if e.HasParent {
			e.Parent = e.Hashes[0]
		}
	}
	return e
}

// duelWindows are the groups beside full attention that some owners have.
//
//nolint:gochecknoglobals // a table that nothing changes
var duelWindows = [...]kvcache.Event{
	{Attention: kvcache.WindowAttention, Window: 2*duelBlock + 1, BlockSize: duelBlock},
	{Attention: kvcache.StateAttention, BlockSize: 2 * duelBlock},
}

// window returns an event of such a group that goes with one of full attention: it
// has the last blocks, or some.
func (d *duel) window(g, full *kvcache.Event) *kvcache.Event {
	e := *full
	e.Attention, e.Window, e.Group, e.Tier = g.Attention, g.Window, windowGroup, kvcache.TierGPU
	if len(e.Tokens) > 0 {
		e.BlockSize = g.BlockSize
	}
	e.Hashes = e.Hashes[max(0, len(e.Hashes)-d.rnd.IntN(6)):]
	if d.rnd.IntN(500) == 0 && !d.forgets {
		e.Window++ // never heard of
	}
	return &e
}

// windowGroup is the group that duelWindows are of.
const windowGroup = 3

func (d *duel) randomRemove(owner int) *kvcache.Event {
	p := d.path()
	hashes := d.hashes(p.keys(), d.variant())
	if n := len(hashes); n > 0 {
		// From the end, as engines evict, or anywhere.
		switch d.rnd.IntN(3) {
		case 0:
			hashes = hashes[n-1:]
		case 1:
			hashes = hashes[d.rnd.IntN(n):]
		default:
			i := d.rnd.IntN(n)
			hashes = hashes[i : i+1]
		}
	}
	group := d.group(owner)
	if d.rnd.IntN(100) == 0 {
		group = 2
	} else if d.owners[owner].window != nil && d.rnd.IntN(3) == 0 {
		group = windowGroup
	}
	return &kvcache.Event{Kind: kvcache.Removed, Hashes: hashes, Tier: d.tier(), Group: group}
}

func (d *duel) randomBook(o duelOwner) {
	keys := d.path().keys()
	ttl := time.Duration(d.rnd.IntN(20_000)) * time.Millisecond
	d.model.Book(o.model, keys, ttl)
	d.index.Book(o.index, keys, ttl)
}

func (d *duel) compareApply(o duelOwner, e *kvcache.Event) error {
	want, got := d.model.Apply(o.model, e), d.index.Apply(o.index, e)
	if want != got && !d.forgets {
		return fmt.Errorf("outcome %+v, want %+v, of %+v", got, want, e)
	}
	return nil
}

func (d *duel) compareMatch() error {
	keys := d.path().keys()
	all := append(append([]duelOwner{}, d.owners...), d.left...)
	want, got := make([]kvcache.Hit, len(all)), make([]kvcache.Hit, len(all))
	models, indexes := make([]kvcache.Owner, len(all)), make([]kvcache.Owner, len(all))
	for i, o := range all {
		models[i], indexes[i] = o.model, o.index
		got[i].Blocks = -1
	}
	d.model.Match(keys, models, want)
	d.index.Match(keys, indexes, got)
	for i := range all {
		exact := got[i].Confirmed == want[i].Confirmed || d.index.Trust(all[i].index) != kvcache.Exact
		if d.forgets && got[i].Confirmed <= want[i].Confirmed && exact {
			continue
		}
		if want[i] != got[i] {
			return fmt.Errorf("match of %d blocks, owner %d: %+v, want %+v", len(keys), i, got[i], want[i])
		}
	}
	if d.steps%statsEvery != 0 || d.forgets {
		return nil
	}
	return d.compareStats(all)
}

func (d *duel) compareStats(all []duelOwner) error {
	for i, o := range all {
		want, got := d.model.OwnerStats(o.model), d.index.OwnerStats(o.index)
		if want != got {
			return fmt.Errorf("owner %d: %+v, want %+v", i, got, want)
		}
		wantPosition, wantOK := d.model.Position(o.model)
		if p, ok := d.index.Position(o.index); p != wantPosition || ok != wantOK {
			return fmt.Errorf("owner %d: position %+v, %v, want %+v, %v", i, p, ok, wantPosition, wantOK)
		}
		if st, short := d.index.Standing(o.index), d.index.Short(o.index); short != want.Short ||
			st != (kvcache.Standing{Trust: want.Trust, Reason: want.TrustReason}) {
			return fmt.Errorf("owner %d: standing %+v, short %v, want %+v", i, st, short, want)
		}
		if b := d.index.BlockSize(o.index); b != want.BlockSize {
			return fmt.Errorf("owner %d: block size %d, want %d", i, b, want.BlockSize)
		}
	}
	want, got := d.model.Stats(), d.index.Stats()
	want.Bytes, want.Budget = got.Bytes, got.Budget
	if want != got {
		return fmt.Errorf("stats %+v, want %+v", got, want)
	}
	return nil
}
