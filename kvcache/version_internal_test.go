package kvcache

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// versionWorld is an index with one chain that two owners hold.
type versionWorld struct {
	*Index
	a, b   Owner
	keys   []Key
	hashes []EngineHash
	run    *run
	runID  uint32
}

func newVersionWorld(t *testing.T) *versionWorld {
	t.Helper()
	w := &versionWorld{Index: NewIndex(Options{})}
	w.a, w.b = w.Join("a"), w.Join("b")
	tokens := make([]uint32, 100)
	for i := range 100 {
		tokens[i] = uint32(i)
		w.hashes = append(w.hashes, EngineHash(i+1))
	}
	w.keys = Hasher{BlockSize: 1}.Keys(nil, tokens, Scope{}, nil)
	w.store(w.a, 0, 100)
	w.store(w.b, 0, 100)
	w.runID = w.findHead(w.keys[0])
	require.NotZero(t, w.runID)
	w.run = w.Index.run(w.runID)
	return w
}

func (w *versionWorld) store(o Owner, from, to int) {
	e := &Event{Kind: Stored, BlockSize: 1, Hashes: w.hashes[from:to], HasParent: from > 0}
	for i := from; i < to; i++ {
		e.Tokens = append(e.Tokens, uint32(i))
	}
	if from > 0 {
		e.Parent = w.hashes[from-1]
	}
	w.Apply(o, e)
}

func (w *versionWorld) remove(o Owner, from, to int) {
	w.Apply(o, &Event{Kind: Removed, Hashes: w.hashes[from:to]})
}

// Whatever a reader of a run may be looking at when it is freed, moved or put to
// another use, the run's version must go up, or the reader would not know.
func TestVersionGoesUpWhenMemoryMoves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, act func(w *versionWorld) }{
		"keys move":                            {nil, func(w *versionWorld) { w.growRun(w.run, 9) }},
		"covers move":                          {nil, func(w *versionWorld) { w.resizeCovers(w.run, 4) }},
		"the last cover takes another's place": {nil, func(w *versionWorld) { w.Clear(w.a) }},
		"the last cover goes":                  {nil, func(w *versionWorld) { w.Clear(w.b) }},
		"the end is cut": {
			func(w *versionWorld) { w.remove(w.a, 90, 100) },
			func(w *versionWorld) {
				for i := 99; i >= 90; i-- { // so that no planes come and go
					w.remove(w.b, i, i+1)
				}
			},
		},
		"the run is freed": {
			func(w *versionWorld) {
				id, _ := splitRef(w.locate(0, 1, 1)) // a run that nobody holds yet
				w.runID, w.run = id, w.Index.run(id)
			},
			func(w *versionWorld) { w.settle(w.runID) },
		},
		"planes are dropped": {
			func(w *versionWorld) { w.remove(w.a, 40, 41) },
			func(w *versionWorld) { w.store(w.a, 40, 41) },
		},
		"planes are widened": {
			func(w *versionWorld) { w.remove(w.a, 20, 100); w.remove(w.a, 4, 5) },
			func(w *versionWorld) { w.store(w.a, 70, 71); w.Book(w.a, w.keys, 1<<40) },
		},
		"planes move": {
			func(w *versionWorld) { w.remove(w.a, 40, 41) },
			func(w *versionWorld) {
				i := w.findCover(w.run, w.a.slot())
				w.load(w.owner(w.a), w.runID, i)
				w.arena.leave[w.cur.planes>>chunkShift] = true
				w.moveCover(&w.cur)
				w.cur = cover{}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newVersionWorld(t)
			if c.before != nil {
				c.before(w)
			}
			before, _, _ := splitHead(w.run.head.Load())
			c.act(w)
			after, _, _ := splitHead(w.run.head.Load())
			assert.Greater(t, after, before)
		})
	}
}
