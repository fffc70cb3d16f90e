package file

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

func (p *parser) list(n *yaml.Node, what string) ([]*yaml.Node, bool) {
	n, ok := p.Resolve(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		p.failf(n, `%s must be a list, found %s; write "%s: []" for none`, what, yamlnode.KindOf(n), what)
		return nil, false
	}
	return n.Content, true
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
		p.Text(item, "an entry of "+key, &s)
		out = append(out, s)
		if p.Exhausted() {
			break
		}
	}
	return out
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
