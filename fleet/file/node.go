package file

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/fleet"
)

const mergeKey = "<<"

// mapping calls fn for each key of n. keys are those allowed, nil for any. What
// a merge key (<<) brings in comes for keys that n doesn't have itself.
func (p *parser) mapping(n *yaml.Node, what string, keys []string, fn func(key string, value *yaml.Node)) {
	p.merge(n, what, keys, make(map[string]int), 0, fn)
}

func (p *parser) merge(n *yaml.Node, what string, keys []string, seen map[string]int, depth int,
	fn func(string, *yaml.Node),
) {
	n, ok := p.resolve(n)
	switch {
	case !ok:
		return
	case n.Kind != yaml.MappingNode:
		p.fail(n, "%s must be a mapping of keys to values, found %s", what, kindOf(n))
		return
	case depth > maxMergeDeep:
		p.fail(n, "merge keys are nested more than %d deep; nest them less", maxMergeDeep)
		return
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode && k.Alias != nil {
			k = k.Alias
		}
		if _, ok := p.resolve(k); !ok {
			return
		}
		if k.Kind != yaml.ScalarNode || isNull(k) {
			p.fail(k, "a key of %s must be a word, found %s", what, kindOf(k))
			continue
		}
		if k.Value == mergeKey {
			merges = append(merges, v)
			continue
		}
		if !allowed(keys, k.Value) {
			p.fail(k, "%s has no key %s%s", what, quote(k.Value), suggest(k.Value, keys))
			continue
		}
		if level, dup := seen[k.Value]; dup {
			if level == depth {
				p.fail(k, "the key %s is given twice; remove one", quote(k.Value))
			}
			continue // what is nearer wins over what is merged in
		}
		seen[k.Value] = depth
		fn(k.Value, v)
	}
	for _, v := range merges {
		sources := []*yaml.Node{v}
		if target, ok := p.resolve(v); ok && target.Kind == yaml.SequenceNode {
			sources = target.Content
		}
		for _, source := range sources {
			// Of several sources the first that has a key gives it.
			level := make(map[string]int, len(seen))
			for k := range seen {
				level[k] = -1
			}
			p.merge(source, what, keys, level, depth+1, fn)
			for k := range level {
				if _, ok := seen[k]; !ok {
					seen[k] = -1
				}
			}
		}
	}
}

func allowed(keys []string, key string) bool {
	if keys == nil {
		return true
	}
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}

func (p *parser) list(n *yaml.Node, what string) ([]*yaml.Node, bool) {
	n, ok := p.resolve(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		p.fail(n, `%s must be a list, found %s; write "%s: []" for none`, what, kindOf(n), what)
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
		p.fail(n, "%s must be %s, found %s", key, want, kindOf(n))
		return nil, false
	}
	return n, true
}

// text also takes numbers and booleans as they are written: a name like 7 needs
// no quotes.
func (p *parser) text(n *yaml.Node, key string, into *string) {
	if n, ok := p.scalar(n, key, "a text"); ok {
		*into = n.Value
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
		p.fail(n, "%s must be %s, found %s", key, want, quote(n.Value))
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
		p.fail(n, "%s must be %s, found %s", key, want, quote(n.Value))
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
