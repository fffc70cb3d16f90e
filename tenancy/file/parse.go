package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/tenancy"
)

// Bounds on the document. Aliases are followed, so that a small file can describe a
// huge document: what counts is the number of nodes visited.
const (
	maxVisits = 1 << 20
	maxErrors = 20
)

// Error says where a file is wrong, and what to do. It holds no value of the file but ids.
type Error struct {
	// File is as it was given; Line and Column count from 1, and are 0 if the place is
	// not known.
	File         string
	Line, Column int
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error is file:line:column: problem.
func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("tenancy/file: %s: %s", e.File, e.Problem)
	case e.Column == 0:
		return fmt.Sprintf("tenancy/file: %s:%d: %s", e.File, e.Line, e.Problem)
	default:
		return fmt.Sprintf("tenancy/file: %s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	}
}

// Parse reads the keys of a file and checks them. name is what errors call it; they are,
// or join, *[Error].
func Parse(name string, data []byte) ([]tenancy.Key, error) {
	keys, places, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	if _, err := tenancy.NewKeys(tenancy.KeysOptions{}, keys...); err != nil {
		return nil, locate(err, places)
	}
	return keys, nil
}

// place is where a key stands, and each of its fields.
type place struct {
	file   string
	whole  *yaml.Node
	fields map[string]*yaml.Node
}

type parser struct {
	yamlnode.Walker

	file string
	errs []error
}

func parse(name string, data []byte) ([]tenancy.Key, []place, error) {
	root, err := document(name, yamlnode.Prepare(data))
	if err != nil {
		return nil, nil, err
	}
	p := &parser{file: name}
	p.MaxVisits, p.Discreet = maxVisits, true
	p.Fail = func(n *yaml.Node, _ yamlnode.Fault, problem, advice string) {
		if advice != "" {
			problem += "; " + advice
		}
		p.fail(n, problem)
	}
	var list *yaml.Node
	p.Mapping(root, "the file", []string{"keys"}, func(_, value *yaml.Node) { list = value })
	if list == nil {
		if len(p.errs) == 0 {
			p.fail(root, noKeys)
		}
		return nil, nil, errors.Join(p.errs...)
	}
	var keys []tenancy.Key
	var places []place
	items, _ := p.list(list, "keys")
	for _, item := range items {
		k, at := p.key(item)
		keys, places = append(keys, k), append(places, at)
		if p.Exhausted() || len(p.errs) >= maxErrors {
			break
		}
	}
	if len(p.errs) > 0 {
		return nil, nil, errors.Join(p.errs...)
	}
	return keys, places, nil
}

const noKeys = `there are no keys; write "keys: []" if that is meant`

// document parses the one YAML document of data.
func document(name string, data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			return nil, &Error{File: name, Line: second.Line, Column: second.Column, Problem: "a second document begins here; put all keys into one"}
		}
	} else if errors.Is(err, io.EOF) {
		return nil, &Error{File: name, Problem: noKeys}
	}
	switch {
	case !errors.Is(err, io.EOF):
		line, column, problem := yamlnode.Syntax(err, data)
		if strings.ContainsAny(problem, "'\"`") { // it cites the file
			problem = "not YAML: what stands there has no meaning; correct it"
		}
		return nil, &Error{File: name, Line: line, Column: column, Problem: problem}
	case doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || yamlnode.IsNull(doc.Content[0]):
		return nil, &Error{File: name, Problem: noKeys}
	}
	return doc.Content[0], nil
}

func (p *parser) fail(n *yaml.Node, problem string) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &Error{File: p.file, Line: n.Line, Column: n.Column, Problem: problem})
	}
}

func (p *parser) list(n *yaml.Node, what string) ([]*yaml.Node, bool) {
	n, ok := p.Resolve(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		p.fail(n, fmt.Sprintf(`%s must be a list; write "%s: []" for none`, what, what))
		return nil, false
	}
	return n.Content, true
}

func keyFields() []string {
	return []string{
		"id", "hash", "org", "team", "tenant", "groups", "class", "priority", "models", "providers", "expires", "disabled",
	}
}

func (p *parser) key(n *yaml.Node) (k tenancy.Key, at place) {
	at = place{file: p.file, whole: n, fields: make(map[string]*yaml.Node)}
	id := &k.Identity
	p.Mapping(n, "an entry of keys", keyFields(), func(key, v *yaml.Node) {
		name := key.Value
		at.fields[name] = v
		switch name {
		case "id":
			p.Text(v, name, &id.Key)
		case "hash":
			p.Text(v, name, &k.Hash)
		case "org":
			p.Text(v, name, &id.Org)
		case "team":
			p.Text(v, name, &id.Team)
		case "tenant":
			p.Text(v, name, &id.Tenant)
		case "groups":
			id.Groups = p.texts(v, name)
		case "class":
			p.Text(v, name, &id.Class)
		case "priority":
			p.Whole(v, name, &id.Priority)
		case "models":
			id.Models = p.texts(v, name)
		case "providers":
			id.Providers = p.texts(v, name)
		case "expires":
			k.Expires = p.time(v, name)
		case "disabled":
			p.Boolean(v, name, &k.Disabled)
		}
	})
	return k, at
}

// texts is never nil where there is a list: an empty one isn't none.
func (p *parser) texts(n *yaml.Node, what string) []string {
	items, ok := p.list(n, what)
	if !ok {
		return nil
	}
	out := make([]string, 0, min(len(items), maxErrors))
	for _, item := range items {
		var s string
		p.Text(item, "an entry of "+what, &s)
		out = append(out, s)
		if p.Exhausted() {
			break
		}
	}
	return out
}

func (p *parser) time(n *yaml.Node, what string) time.Time {
	var text string
	if !p.Text(n, what, &text) {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		p.fail(n, what+" must be a time with its zone, such as 2027-12-31T23:59:59Z")
	}
	return at
}

// locate says where the keys stand that tenancy finds wrong.
func locate(err error, places []place) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	out := make([]error, len(list))
	for i, e := range list {
		out[i] = e
		var wrong *tenancy.KeyError
		if errors.As(e, &wrong) && wrong.Index < len(places) {
			at, name := places[wrong.Index], strings.ToLower(wrong.Field)
			if name == "key" {
				name = "id"
			}
			n := at.fields[name]
			if n == nil {
				n = at.whole
			}
			out[i] = &Error{File: at.file, Line: n.Line, Column: n.Column, Problem: name + " " + wrong.Problem}
		}
	}
	return errors.Join(out...)
}
