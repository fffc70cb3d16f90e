package prometheus

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// other is the label of what has no series of its own.
const other = "other"

const (
	// maxName is the longest name that is looked up at all: no worker or model of a fleet has
	// a longer one, and hashing a megabyte for each request would be dear.
	maxName = 512
	// maxLabel is the longest label, in bytes.
	maxLabel = 128
)

// key is what a set of series is found by: a name, and what that is a name within, if it is
// two labels.
type key struct{ of, name string }

// only is the key of a name that is one label.
func only(name string) key { return key{name: name} }

func (k key) long() bool { return len(k.of)+len(k.name) > maxName }

// table gives names sets of series, up to a number; those of more share one.
type table[T any] struct {
	max int
	// make and drop are told the label, and first the one that it is within.
	make func(of, label string) *T
	drop func(label string)
	// ours: "other" is a name like any other, to be told from our own; if not, it means the
	// same as our own.
	ours bool

	mu    sync.RWMutex
	sets  map[key]*entry[T]
	rest  *T
	folds atomic.Uint64 // observations that went to rest
}

type entry[T any] struct {
	set   *T
	label string
	// used since the last sweep.
	used atomic.Bool
}

func newTable[T any](most int, create func(of, label string) *T, drop func(label string)) *table[T] {
	return &table[T]{max: most, make: create, drop: drop, ours: true, sets: map[key]*entry[T]{}}
}

// find returns the set of a name that has one, else nil.
func (t *table[T]) find(k key) *T {
	if k.long() {
		return nil
	}
	t.mu.RLock()
	e := t.sets[k]
	t.mu.RUnlock()
	if e == nil {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.set
}

// get returns the set of a name, which it makes if there is room and that is wanted. One is
// always returned: that of the rest, if need be.
func (t *table[T]) get(k key) *T {
	if set := t.find(k); set != nil {
		return set
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if set := t.add(k); set != nil {
		return set
	}
	return t.others()
}

// has makes the set of a name if there is room, and reports whether there is one.
func (t *table[T]) has(k key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.add(k) != nil
}

func (t *table[T]) add(k key) *T {
	if e := t.sets[k]; e != nil {
		return e.set
	}
	if len(t.sets) >= t.max || k.long() || !t.ours && k.name == other {
		return nil
	}
	label := labelOf(k.name, t.ours)
	e := &entry[T]{label: label, set: t.make(labelOf(k.of, true), label)}
	e.used.Store(true)
	t.sets[key{strings.Clone(k.of), strings.Clone(k.name)}] = e
	return e.set
}

// fold returns the set of those that have none of their own.
func (t *table[T]) fold() *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.others()
}

func (t *table[T]) others() *T {
	t.folds.Add(1)
	if t.rest == nil {
		t.rest = t.make("", other)
	}
	return t.rest
}

// label is that of a name's series; false if it has none.
func (t *table[T]) label(k key) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.sets[k]
	if e == nil {
		return "", false
	}
	return e.label, true
}

// named is a name with its label and set.
type named[T any] struct {
	name, label string
	set         *T
}

// list returns those that have series of their own.
func (t *table[T]) list() []named[T] {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]named[T], 0, len(t.sets))
	for k, e := range t.sets {
		out = append(out, named[T]{k.name, e.label, e.set})
	}
	return out
}

// remove ends the series of a name, and returns them if there were any. t.mu is held.
func (t *table[T]) remove(k key) *T {
	e := t.sets[k]
	if e == nil {
		return nil
	}
	delete(t.sets, k)
	t.drop(e.label)
	return e.set
}

// sweep ends the series of those that keep says no to; used is whether they were used since
// the last sweep.
func (t *table[T]) sweep(keep func(name string, set *T, used bool) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, e := range t.sets {
		if !keep(k.name, e.set, e.used.Swap(false)) {
			delete(t.sets, k)
			t.drop(e.label)
		}
	}
}

// labelOf makes a name fit to be a label. One that had to be changed gets a hash of what it
// was, so that no two names have one label; so does "other", if that is ours.
func labelOf(name string, ours bool) string {
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
	if text == name && len(name) <= maxLabel && (!ours || name != other) {
		return name
	}
	const hashed = 6
	sum := sha256.Sum256([]byte(name))
	mark := "~" + hex.EncodeToString(sum[:hashed])
	if most := maxLabel - len(mark); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text + mark
}
