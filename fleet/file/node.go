package file

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/fleet"
)

const mergeKey = "<<"

// mapping calls fn for each key of n. keys are those allowed, nil for any. What
// a merge key (<<) brings in comes for keys that n doesn't have itself.
func (p *parser) mapping(n *yaml.Node, what string, keys []string, fn func(key string, value *yaml.Node)) {
	m := merger{parser: p, what: what, keys: keys, fn: fn, done: make(map[string]bool)}
	m.mapping(n, 0)
}

// merger reads one mapping with what is merged into it.
type merger struct {
	*parser

	what string
	keys []string
	fn   func(key string, value *yaml.Node)
	done map[string]bool // keys that have their value
}

func (m *merger) mapping(n *yaml.Node, depth int) {
	n, ok := m.resolve(n)
	switch {
	case !ok:
		return
	case n.Kind != yaml.MappingNode:
		m.failf(n, "%s must be a mapping of keys to values, found %s", m.what, kindOf(n))
		return
	case depth > maxMergeDeep:
		m.failf(n, "merge keys are nested more than %d deep; nest them less", maxMergeDeep)
		return
	}
	// What is nearer wins over what is merged in, and of several sources the first.
	var merges []*yaml.Node
	own := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, ok := m.resolve(n.Content[i])
		switch {
		case !ok:
			return
		case k.Kind != yaml.ScalarNode || isNull(k):
			m.failf(k, "a key of %s must be a word, found %s", m.what, kindOf(k))
		case k.Value == mergeKey:
			merges = append(merges, n.Content[i+1])
		case own[k.Value]:
			m.failf(k, "the key %s is given twice; remove one", quote(k.Value))
		case m.keys != nil && !slices.Contains(m.keys, k.Value):
			m.failf(k, "%s has no key %s%s", m.what, quote(k.Value), suggest(k.Value, m.keys))
		default:
			own[k.Value] = true
			if !m.done[k.Value] {
				m.done[k.Value] = true
				m.fn(k.Value, n.Content[i+1])
			}
		}
	}
	for _, v := range merges {
		m.merge(v, depth+1)
	}
}

// merge reads the value of a merge key: a mapping, or a list of them.
func (m *merger) merge(v *yaml.Node, depth int) {
	target, ok := m.resolve(v)
	if !ok || target.Kind != yaml.SequenceNode {
		m.mapping(v, depth)
		return
	}
	for _, source := range target.Content {
		m.mapping(source, depth)
	}
}

func (p *parser) list(n *yaml.Node, what string) ([]*yaml.Node, bool) {
	n, ok := p.resolve(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		p.failf(n, `%s must be a list, found %s; write "%s: []" for none`, what, kindOf(n), what)
		return nil, false
	}
	return n.Content, true
}

// scalar returns the text of a value that is neither null nor a collection.
func (p *parser) scalar(n *yaml.Node, key, want string) (*yaml.Node, bool) {
	n, ok := p.resolve(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.ScalarNode || isNull(n) {
		p.failf(n, "%s must be %s, found %s", key, want, kindOf(n))
		return nil, false
	}
	return n, true
}

// text also takes numbers and booleans as they are written: a name like 7 needs
// no quotes.
func (p *parser) text(n *yaml.Node, key string, into *string) {
	if s, ok := p.scalar(n, key, "a text"); ok {
		*into = s.Value
	}
}

func (p *parser) texts(n *yaml.Node, key, at string) []string {
	items, ok := p.list(n, key)
	if !ok {
		return nil
	}
	out := make([]string, 0, min(len(items), maxVisits))
	for i, item := range items {
		var s string
		p.places.put(at+"["+strconv.Itoa(i)+"]", item)
		p.text(item, "an entry of "+key, &s)
		out = append(out, s)
		if p.visits > maxVisits {
			break
		}
	}
	return out
}

func (p *parser) number(n *yaml.Node, key string, into *int) {
	const want = "a whole number"
	n, ok := p.scalar(n, key, want)
	if !ok {
		return
	}
	v, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || n.ShortTag() != "!!int" {
		p.failf(n, "%s must be %s, found %s", key, want, quote(n.Value))
		return
	}
	*into = int(v)
}

func (p *parser) boolean(n *yaml.Node, key string, into *bool) {
	const want = "true or false"
	n, ok := p.scalar(n, key, want)
	if !ok {
		return
	}
	v, err := strconv.ParseBool(n.Value)
	if err != nil || n.ShortTag() != "!!bool" {
		p.failf(n, "%s must be %s, found %s", key, want, quote(n.Value))
		return
	}
	*into = v
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isNull(n):
		return "nothing"
	case n.Kind == yaml.ScalarNode:
		return quote(n.Value)
	default:
		return "something else"
	}
}

// quote shows a value in an error, shortened: it may be anything.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strconv.Quote(s)
}

// places remembers where the fields of each worker stand: "3.url" is the url of
// the fourth, "3." the worker itself.
type places struct{ fields map[string]place }

type place struct{ line, column int }

func (p *places) put(at string, n *yaml.Node) {
	p.fields[at] = place{n.Line, n.Column}
}

// locate puts path, line and column before what fleet says about workers.
func (p *places) locate(path string, err error) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	out := make([]error, len(list))
	for i, e := range list {
		out[i] = &locatedError{path: path, err: e}
		var we *fleet.WorkerError
		if errors.As(e, &we) {
			out[i] = &locatedError{path: path, at: p.find(we), err: e}
		}
	}
	return errors.Join(out...)
}

// find looks for the field, then for what it is part of.
func (p *places) find(we *fleet.WorkerError) place {
	base := strconv.Itoa(we.Index) + "."
	field := we.Field
	for field != "" {
		if at, ok := p.fields[base+field]; ok {
			return at
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			break
		}
		field = field[:cut]
	}
	return p.fields[base]
}

// locatedError is an error with its place in a file.
type locatedError struct {
	path string
	at   place
	err  error
}

func (e *locatedError) Error() string {
	var b strings.Builder
	if e.path != "" {
		b.WriteString(e.path + ": ")
	}
	if e.at.line > 0 {
		b.WriteString(strconv.Itoa(e.at.line) + ":" + strconv.Itoa(e.at.column) + ": ")
	}
	b.WriteString(e.err.Error())
	return b.String()
}

func (e *locatedError) Unwrap() error { return e.err }
