package yamlnode

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Fault is the kind of what is wrong with a node.
type Fault uint8

// The faults.
const (
	// WrongType: it is not of the kind that is expected there.
	WrongType Fault = iota
	// UnknownKey: a mapping has no such key.
	UnknownKey
	// DuplicateKey: a mapping has the key twice.
	DuplicateKey
	// TooMuch: there are more nodes than the bound, or merge keys nested too deep.
	TooMuch
)

const (
	mergeKey     = "<<"
	maxMergeDeep = 8
)

// Walker reads the nodes of one document.
type Walker struct {
	// MaxVisits bounds the nodes that are looked at. Aliases are followed, so that a
	// small file can describe a huge document: what counts is visits.
	MaxVisits int
	// Fail is told what is wrong, and advice, which may be empty.
	Fail func(n *yaml.Node, fault Fault, problem, advice string)
	// Discreet keeps values out of problems, and keys that are like none that is known:
	// somebody may have written a secret there.
	Discreet bool

	visits int
}

// Exhausted reports whether more nodes than MaxVisits were asked for. Loops over
// what was read should end then.
func (w *Walker) Exhausted() bool { return w.visits > w.MaxVisits }

// Resolve follows an alias and counts the visit. ok is false when there were too
// many.
func (w *Walker) Resolve(n *yaml.Node) (target *yaml.Node, ok bool) {
	if w.visits++; w.Exhausted() {
		if w.visits == w.MaxVisits+1 {
			w.Fail(n, TooMuch, "the document has too many nodes", "use fewer aliases")
		}
		return n, false
	}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n, true
}

// Mapping calls fn for each key of n. keys are those allowed, nil for any; what
// names the mapping in errors. What a merge key (<<) brings in comes for keys that n
// doesn't have itself.
func (w *Walker) Mapping(n *yaml.Node, what string, keys []string, fn func(key, value *yaml.Node)) {
	m := merger{Walker: w, what: what, keys: keys, fn: fn, done: make(map[string]bool)}
	m.mapping(n, 0)
}

// merger reads one mapping with what is merged into it.
type merger struct {
	*Walker

	what string
	keys []string
	fn   func(key, value *yaml.Node)
	done map[string]bool // keys that have their value
}

func (m *merger) mapping(n *yaml.Node, depth int) {
	n, ok := m.Resolve(n)
	switch {
	case !ok:
		return
	case n.Kind != yaml.MappingNode:
		m.Fail(n, WrongType, m.what+" must be a mapping of keys to values, found "+m.kindOf(n), "")
		return
	case depth > maxMergeDeep:
		m.Fail(n, TooMuch, "merge keys are nested more than "+strconv.Itoa(maxMergeDeep)+" deep", "nest them less")
		return
	}
	// What is nearer wins over what is merged in, and of several sources the first.
	var merges []*yaml.Node
	own := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, ok := m.Resolve(n.Content[i])
		switch {
		case !ok:
			return
		case k.Kind != yaml.ScalarNode || IsNull(k):
			m.Fail(k, WrongType, "a key of "+m.what+" must be a word, found "+m.kindOf(k), "")
		case k.Value == mergeKey:
			merges = append(merges, n.Content[i+1])
		case own[k.Value]:
			m.Fail(k, DuplicateKey, "the key "+Quote(k.Value)+" is given twice", "remove one")
		case m.keys != nil && !slices.Contains(m.keys, k.Value):
			if m.Discreet && Nearest(k.Value, m.keys) == "" {
				m.Fail(k, UnknownKey, m.what+" has no such key", Suggest("", m.keys))
				continue
			}
			m.Fail(k, UnknownKey, m.what+" has no key "+Quote(k.Value), Suggest(k.Value, m.keys))
		default:
			own[k.Value] = true
			if !m.done[k.Value] {
				m.done[k.Value] = true
				m.fn(k, n.Content[i+1])
			}
		}
	}
	for _, v := range merges {
		m.merge(v, depth+1)
	}
}

// merge reads the value of a merge key: a mapping, or a list of them.
func (m *merger) merge(v *yaml.Node, depth int) {
	target, ok := m.Resolve(v)
	if !ok || target.Kind != yaml.SequenceNode {
		m.mapping(v, depth)
		return
	}
	for _, source := range target.Content {
		m.mapping(source, depth)
	}
}

// Scalar returns the scalar behind a value that is neither null nor a collection;
// want says what the key must be.
func (w *Walker) Scalar(n *yaml.Node, key, want string) (*yaml.Node, bool) {
	n, ok := w.Resolve(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.ScalarNode || IsNull(n) {
		w.Fail(n, WrongType, key+" must be "+want+", found "+w.kindOf(n), "")
		return nil, false
	}
	return n, true
}

// Text also takes numbers and booleans as they are written: a name like 7 needs no
// quotes.
func (w *Walker) Text(n *yaml.Node, key string, into *string) bool {
	s, ok := w.Scalar(n, key, "a text")
	if ok {
		*into = s.Value
	}
	return ok
}

// Whole reads a whole number that fits 32 bits.
func (w *Walker) Whole(n *yaml.Node, key string, into *int) bool {
	const want = "a whole number"
	n, ok := w.Scalar(n, key, want)
	if !ok {
		return false
	}
	v, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || n.ShortTag() != "!!int" {
		w.Fail(n, WrongType, key+" must be "+want+", found "+w.kindOf(n), "")
		return false
	}
	*into = int(v)
	return true
}

// Boolean reads true or false.
func (w *Walker) Boolean(n *yaml.Node, key string, into *bool) bool {
	const want = "true or false"
	n, ok := w.Scalar(n, key, want)
	if !ok {
		return false
	}
	v, err := strconv.ParseBool(n.Value)
	if err != nil || n.ShortTag() != "!!bool" {
		w.Fail(n, WrongType, key+" must be "+want+", found "+w.kindOf(n), "")
		return false
	}
	*into = v
	return true
}

// kindOf is KindOf, discreetly.
func (w *Walker) kindOf(n *yaml.Node) string {
	if w.Discreet && n.Kind == yaml.ScalarNode && !IsNull(n) {
		return "another text"
	}
	return KindOf(n)
}

// IsNull reports whether n is the value nothing.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// KindOf names what n is, or shows its value, in an error.
func KindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case IsNull(n):
		return "nothing"
	case n.Kind == yaml.ScalarNode:
		return Quote(n.Value)
	default:
		return "something else"
	}
}

// Quote shows a value in an error, shortened: it may be anything.
func Quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strconv.Quote(s)
}
