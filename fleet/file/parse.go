package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/fleet"
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
	maxVisits    = 1 << 18
	maxErrors    = 20
	maxMergeDeep = 8
	utf8BOM      = "\xef\xbb\xbf"
)

// parse reads the document. It checks its form, not what the values mean.
func parse(data []byte) (workers []fleet.Worker, at *places, err error) {
	data = bytes.TrimPrefix(data, []byte(utf8BOM))
	if json.Valid(data) {
		// JSON may be indented with tabs, YAML may not. Within JSON strings there
		// are none, so that a blank in each one's place changes nothing.
		data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	}
	root, err := document(data)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{places: &places{fields: make(map[string]place)}}
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
	text := err.Error()
	for _, prefix := range []string{"yaml: ", "go-yaml "} {
		text = strings.TrimPrefix(text, prefix)
	}
	var line int
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil && tabbed(data, line) {
		text += "; the line is indented with a tab, which YAML doesn't take: use blanks"
	}
	return &SyntaxError{Problem: "not YAML: " + text}
}

// tabbed reports whether a line, counted from 1, has a tab in its indentation,
// to which the marks of list items belong.
func tabbed(data []byte, line int) bool {
	for range line - 1 {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	text, _, _ := bytes.Cut(data, []byte{'\n'})
	indentation := text[:len(text)-len(bytes.TrimLeft(text, " \t-"))]
	return bytes.IndexByte(indentation, '\t') >= 0
}

type parser struct {
	places *places
	errs   []error
	visits int
}

func (p *parser) failf(n *yaml.Node, format string, args ...any) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &SyntaxError{Line: n.Line, Column: n.Column, Problem: fmt.Sprintf(format, args...)})
	}
}

// resolve follows an alias and counts the visit. ok is false when there were too
// many.
func (p *parser) resolve(n *yaml.Node) (*yaml.Node, bool) {
	if p.visits++; p.visits > maxVisits {
		if p.visits == maxVisits+1 {
			p.failf(n, "the document has too many nodes; use fewer aliases")
		}
		return n, false
	}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n, true
}

func (p *parser) root(n *yaml.Node) []fleet.Worker {
	n, _ = p.resolve(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		return p.workers(n)
	case n.Kind == yaml.MappingNode:
		var list *yaml.Node
		p.mapping(n, "the file", []string{"workers"}, func(_ string, value *yaml.Node) { list = value })
		if list != nil {
			return p.workers(list)
		}
		if len(p.errs) == 0 {
			p.failf(n, `the key "workers" is missing; write "workers: []" if there are none`)
		}
	case isNull(n):
		p.failf(n, `the file is empty; write "workers: []" if there are none`)
	default:
		p.failf(n, `expected the key "workers" with a list, found %s`, kindOf(n))
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
		if p.visits > maxVisits || len(p.errs) >= maxErrors {
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
	p.mapping(n, "a worker", workerKeys(), func(key string, v *yaml.Node) {
		at := base + key
		p.places.put(at, v)
		switch key {
		case "name":
			p.text(v, key, &w.Name)
		case "epoch":
			p.text(v, key, &w.Epoch)
		case "url":
			p.text(v, key, &w.URL)
		case "engine":
			var engine string
			p.text(v, key, &engine)
			w.Engine = fleet.Engine(engine)
		case "models":
			w.Models = p.texts(v, key, at)
		case "class":
			p.text(v, key, &w.Class)
		case "pool":
			p.text(v, key, &w.Pool)
		case "labels":
			w.Labels = p.labels(v, at)
		case "blockSize":
			p.number(v, key, &w.BlockSize)
		case "dataParallel":
			p.number(v, key, &w.DataParallel)
		case "events":
			w.Events = p.events(v, at)
		case "speculative":
			p.boolean(v, key, &w.Speculative)
		case "role":
			var role string
			p.text(v, key, &role)
			w.Role = fleet.Role(role)
		case "draining":
			p.boolean(v, key, &w.Draining)
		}
	})
}

func eventKeys() []string { return []string{"events", "replay", "topic", "rank"} }

// eventsForm is shown to who wrote an address where a list of them belongs.
const eventsForm = "write a list with one {events, replay} a rank: " +
	"events: [{events: tcp://HOST:5557, replay: tcp://HOST:5558}]"

func (p *parser) events(n *yaml.Node, at string) []follow.Endpoint {
	list, ok := p.resolve(n)
	if !ok {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		p.failf(list, `events must be a list, found %s; %s, or "events: []" for none`, kindOf(list), eventsForm)
		return nil
	}
	items := list.Content
	out := make([]follow.Endpoint, 0, min(len(items), maxVisits))
	for i, item := range items {
		var e follow.Endpoint
		base := at + "[" + strconv.Itoa(i) + "]"
		p.places.put(base, item)
		if entry, _ := p.resolve(item); entry.Kind == yaml.ScalarNode {
			p.failf(entry, "an entry of events is not a text, found %s; %s", kindOf(entry), eventsForm)
			continue
		}
		p.mapping(item, "an entry of events", eventKeys(), func(key string, v *yaml.Node) {
			p.places.put(base+"."+key, v)
			switch key {
			case "events":
				p.text(v, key, &e.Events)
			case "replay":
				p.text(v, key, &e.Replay)
			case "topic":
				p.text(v, key, &e.Topic)
			case "rank":
				p.number(v, key, &e.Rank)
			}
		})
		out = append(out, e)
		if p.visits > maxVisits {
			break
		}
	}
	return out
}

func (p *parser) labels(n *yaml.Node, at string) map[string]string {
	labels := make(map[string]string)
	p.mapping(n, "labels", nil, func(key string, v *yaml.Node) {
		p.places.put(at+"."+key, v)
		var text string
		p.text(v, "labels."+key, &text)
		labels[key] = text
	})
	return labels
}
