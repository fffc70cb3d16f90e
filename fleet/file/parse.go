package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// ErrSyntax is what every *SyntaxError wraps. Seen by whoever wrote the file.
var ErrSyntax = errors.New("file: syntax error")

// SyntaxError says where a file is wrong, and what to do.
type SyntaxError struct {
	// Line and Column count from 1; 0 if the place is not known.
	Line, Column int
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error is line:column: problem.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Problem
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Problem)
}

// Unwrap makes errors.Is(err, ErrSyntax) true.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// Bounds on the document. Aliases are followed, so that a small file can
// describe a huge document: what counts is the number of nodes visited. The
// bound is twice what the largest fleet needs.
const (
	maxVisits = 1 << 18
	maxErrors = 20
)

// parse reads the document. It checks its form, not what the values mean.
func parse(data []byte) (workers []fleet.Worker, at *places, err error) {
	data = yamlnode.Prepare(data)
	root, err := document(data)
	if err != nil {
		return nil, nil, err
	}
	p := newParser()
	workers = p.root(root)
	if len(p.errs) > 0 {
		return nil, nil, errors.Join(p.errs...)
	}
	return workers, p.places, nil
}

// document parses the one YAML document of data.
func document(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &SyntaxError{Problem: `the file is empty; write "workers: []" if there are none`}
	case err != nil:
		return nil, yamlError(err, data)
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &SyntaxError{
			Line: second.Line, Column: second.Column,
			Problem: "a second document begins here; put all workers into one",
		}
	case !errors.Is(err, io.EOF):
		return nil, yamlError(err, data)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &SyntaxError{Problem: `the file is empty; write "workers: []" if there are none`}
	}
	return doc.Content[0], nil
}

// yamlError wraps the YAML parser's error, which has a line of its own.
func yamlError(err error, data []byte) error {
	_, _, problem := yamlnode.Syntax(err, data)
	return &SyntaxError{Problem: problem}
}

type parser struct {
	yamlnode.Walker

	places *places
	errs   []error
}

func newParser() *parser {
	p := &parser{places: &places{fields: make(map[string]place)}}
	p.MaxVisits = maxVisits
	p.Fail = func(n *yaml.Node, _ yamlnode.Fault, problem, advice string) {
		if advice != "" {
			problem += "; " + advice
		}
		p.failf(n, "%s", problem)
	}
	return p
}

func (p *parser) failf(n *yaml.Node, format string, args ...any) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &SyntaxError{Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...)})
	}
}

func (p *parser) root(n *yaml.Node) []fleet.Worker {
	n, _ = p.Resolve(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		return p.workers(n)
	case n.Kind == yaml.MappingNode:
		var list *yaml.Node
		p.Mapping(n, "the file", []string{"workers"}, func(_, value *yaml.Node) { list = value })
		if list != nil {
			return p.workers(list)
		}
		if len(p.errs) == 0 {
			p.failf(n, `the key "workers" is missing; write "workers: []" if there are none`)
		}
	case yamlnode.IsNull(n):
		p.failf(n, `the file is empty; write "workers: []" if there are none`)
	default:
		p.failf(n, `expected the key "workers" with a list, found %s`, yamlnode.KindOf(n))
	}
	return nil
}

func (p *parser) workers(n *yaml.Node) []fleet.Worker {
	items, ok := p.list(n, "workers")
	if !ok {
		return nil
	}
	out := make([]fleet.Worker, 0, min(len(items), maxVisits))
	for i, item := range items {
		var w fleet.Worker
		p.worker(item, i, &w)
		out = append(out, w)
		if p.Exhausted() || len(p.errs) >= maxErrors {
			break
		}
	}
	return out
}

func workerKeys() []string {
	return []string{
		"name", "epoch", "url", "engine", "models", "class", "pool", "labels",
		"blockSize", "dataParallel", "events", "speculative", "role", "draining",
	}
}

func (p *parser) worker(n *yaml.Node, index int, w *fleet.Worker) {
	base := strconv.Itoa(index) + "."
	p.places.put(base, n)
	p.Mapping(n, "a worker", workerKeys(), func(k, v *yaml.Node) {
		key := k.Value
		at := base + key
		p.places.put(at, v)
		switch key {
		case "name":
			p.Text(v, key, &w.Name)
		case "epoch":
			p.Text(v, key, &w.Epoch)
		case "url":
			p.Text(v, key, &w.URL)
		case "engine":
			var engine string
			p.Text(v, key, &engine)
			w.Engine = fleet.Engine(engine)
		case "models":
			w.Models = p.texts(v, key, at)
		case "class":
			p.Text(v, key, &w.Class)
		case "pool":
			p.Text(v, key, &w.Pool)
		case "labels":
			w.Labels = p.labels(v, at)
		case "blockSize":
			p.Whole(v, key, &w.BlockSize)
		case "dataParallel":
			p.Whole(v, key, &w.DataParallel)
		case "events":
			w.Events = p.events(v, at)
		case "speculative":
			p.Boolean(v, key, &w.Speculative)
		case "role":
			var role string
			p.Text(v, key, &role)
			w.Role = fleet.Role(role)
		case "draining":
			p.Boolean(v, key, &w.Draining)
		}
	})
}

func eventKeys() []string { return []string{"events", "replay", "topic", "rank"} }

// eventsForm is shown to who wrote an address where a list of them belongs.
const eventsForm = "write a list with one {events, replay} a rank: " +
	"events: [{events: tcp://HOST:5557, replay: tcp://HOST:5558}]"

func (p *parser) events(n *yaml.Node, at string) []follow.Endpoint {
	list, ok := p.Resolve(n)
	if !ok {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		p.failf(list, `events must be a list, found %s; %s, or "events: []" for none`, yamlnode.KindOf(list), eventsForm)
		return nil
	}
	items := list.Content
	out := make([]follow.Endpoint, 0, min(len(items), maxVisits))
	for i, item := range items {
		var e follow.Endpoint
		base := at + "[" + strconv.Itoa(i) + "]"
		p.places.put(base, item)
		if entry, _ := p.Resolve(item); entry.Kind == yaml.ScalarNode {
			p.failf(entry, "an entry of events is not a text, found %s; %s", yamlnode.KindOf(entry), eventsForm)
			continue
		}
		p.Mapping(item, "an entry of events", eventKeys(), func(k, v *yaml.Node) {
			key := k.Value
			p.places.put(base+"."+key, v)
			switch key {
			case "events":
				p.Text(v, key, &e.Events)
			case "replay":
				p.Text(v, key, &e.Replay)
			case "topic":
				p.Text(v, key, &e.Topic)
			case "rank":
				p.Whole(v, key, &e.Rank)
			}
		})
		out = append(out, e)
		if p.Exhausted() {
			break
		}
	}
	return out
}

func (p *parser) labels(n *yaml.Node, at string) map[string]string {
	labels := make(map[string]string)
	p.Mapping(n, "labels", nil, func(k, v *yaml.Node) {
		key := k.Value
		p.places.put(at+"."+key, v)
		var text string
		p.Text(v, "labels."+key, &text)
		labels[key] = text
	})
	return labels
}
