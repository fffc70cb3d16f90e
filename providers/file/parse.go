package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/providers"
)

// What a manifest of a provider begins with.
const (
	APIVersion = "kvsteer.dev/v1alpha1"
	Kind       = "InferenceProvider"
)

const group = "kvsteer.dev/"

// Bounds on a document. Aliases are followed, so that a small file can describe a huge
// one: what counts is the number of nodes visited.
const (
	maxVisits = 1 << 20
	maxErrors = 20
)

// Error says where a file is wrong, and what to do.
type Error struct {
	// File is as it was given; Line and Column count from 1, and are 0 if the place is
	// not known.
	File         string
	Line, Column int
	// Provider is whose manifest it is, "" if that is not known.
	Provider string
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error is file:line:column: problem.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += fmt.Sprintf(":%d", e.Line)
	}
	if e.Line > 0 && e.Column > 0 {
		at += fmt.Sprintf(":%d", e.Column)
	}
	who := ""
	if e.Provider != "" {
		who = "provider " + yamlnode.Quote(e.Provider) + ": "
	}
	return "providers/file: " + at + ": " + who + e.Problem
}

// Parse reads the providers of a file; none, if it has none. name is what errors call it,
// and from whose directory relative paths are; they are, or join, *[Error]. What package
// providers checks is checked when they are used.
func Parse(name string, data []byte, o Options) ([]providers.Provider, error) {
	found, err := parse(name, data, &o, nil, map[string]providers.Kind{})
	if err != nil {
		return nil, err
	}
	list := make([]providers.Provider, len(found))
	for i := range found {
		list[i] = found[i].provider
	}
	return list, nil
}

// manifest is a provider and where its parts stand.
type manifest struct {
	provider providers.Provider
	file     string
	root     *yaml.Node
	places   map[string]*yaml.Node
}

type parser struct {
	yamlnode.Walker

	opts *Options
	file string
	// kinds are those of before, used those of now.
	kinds, used map[string]providers.Kind

	found []manifest
	errs  []error

	// Of the document that is read.
	name   string
	places map[string]*yaml.Node
}

func parse(name string, data []byte, o *Options, kinds, used map[string]providers.Kind) ([]manifest, error) {
	p := &parser{opts: o, file: name, kinds: kinds, used: used}
	p.MaxVisits = maxVisits
	p.Fail = func(n *yaml.Node, _ yamlnode.Fault, problem, advice string) {
		if advice != "" {
			problem += "; " + advice
		}
		p.fail(n, problem)
	}
	data = yamlnode.Prepare(data)
	for dec := yaml.NewDecoder(bytes.NewReader(data)); len(p.errs) < maxErrors; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			line, column, problem := yamlnode.Syntax(err, data)
			p.errs = append(p.errs, &Error{File: name, Line: line, Column: column, Problem: problem})
			break
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && !yamlnode.IsNull(doc.Content[0]) {
			p.document(doc.Content[0], 0)
		}
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.found, nil
}

func (p *parser) fail(n *yaml.Node, problem string) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, &Error{File: p.file, Line: n.Line, Column: n.Column, Provider: p.name, Problem: problem})
	}
}

// ours are the kinds of our group. Those of providers are read, others are not; what is
// none of them is a mistake.
func ours() []string {
	return []string{Kind, "InferencePolicy", "InferencePool", "InferenceWorkerSet", "GatewayBackend"}
}

// document reads one document, or those of a List.
func (p *parser) document(root *yaml.Node, depth int) {
	p.name, p.places = "", map[string]*yaml.Node{}
	root, ok := p.Resolve(root)
	if !ok {
		return
	}
	if root.Kind != yaml.MappingNode {
		p.fail(root, "a document must be a mapping with apiVersion and kind, found "+yamlnode.KindOf(root))
		return
	}
	apiVersion, kind := scalar(root, "apiVersion"), scalar(root, "kind")
	switch {
	case kind == "":
		p.fail(root, "the document has no kind; write apiVersion: "+APIVersion+" and kind: "+Kind)
	case strings.HasSuffix(kind, "List") && depth == 0:
		p.items(root)
	case kind == Kind && apiVersion == APIVersion:
		p.manifest(root)
	case kind == Kind:
		p.fail(root, "apiVersion is "+yamlnode.Quote(apiVersion)+"; write "+APIVersion)
	case strings.HasPrefix(apiVersion, group) && !slices.Contains(ours(), kind):
		p.fail(root, "there is no kind "+yamlnode.Quote(kind)+" in "+APIVersion+"; "+yamlnode.Suggest(kind, ours()))
	default:
	}
}

// items reads those of a List, as kubectl writes it.
func (p *parser) items(root *yaml.Node) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "items" {
			continue
		}
		list, ok := p.Resolve(root.Content[i+1])
		if ok && list.Kind == yaml.SequenceNode {
			for _, item := range list.Content {
				p.document(item, 1)
			}
		}
	}
}

// scalar is the text behind a key, "" for none.
func scalar(n *yaml.Node, key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if v := n.Content[i+1]; n.Content[i].Value == key && v.Kind == yaml.ScalarNode && !yamlnode.IsNull(v) {
			return v.Value
		}
	}
	return ""
}

// document is a manifest as it is written.
type document struct {
	apiVersion, kind string
	meta             metadata
	spec             spec
}

type metadata struct{ name string }

func documentFields() []field[document] {
	meta := field[document]{
		name: "metadata", doc: "What it is called.", required: true,
		schema: func() node {
			name := node{
				"type":        "string",
				"description": "The provider's name, in policies, decisions and metrics: letters, digits, '.', '_' and '-', at most 63.",
			}
			return node{"type": "object", "required": []string{"name"}, "properties": node{"name": name}}
		},
		read: func(p *parser, n *yaml.Node, what string, into *document) {
			p.Mapping(n, what, nil, func(k, v *yaml.Node) { // with whatever Kubernetes has there
				if k.Value == "name" {
					p.places["Name"] = v
					p.Text(v, "metadata.name", &into.meta.name)
				}
			})
			if into.meta.name == "" && len(p.errs) == 0 {
				p.fail(n, "metadata has no name; add it")
			}
		},
	}
	body := field[document]{
		name: "spec", doc: "What it is.", required: true,
		schema: func() node { return objectSchema(specFields()) },
		read: func(p *parser, n *yaml.Node, what string, into *document) {
			p.name = into.meta.name
			object(p, n, what, "", specFields(), &into.spec)
		},
	}
	word := func(name, value string, part func(*document) *string) field[document] {
		f := textField(name, "", "Always "+value+".", part)
		f.required = true
		f.schema = func() node { return node{"const": value} }
		return f
	}
	return []field[document]{
		word("apiVersion", APIVersion, func(d *document) *string { return &d.apiVersion }),
		word("kind", Kind, func(d *document) *string { return &d.kind }),
		meta, body,
		{
			name: "status", doc: "Kubernetes' own; passed over.", schema: func() node { return node{"type": "object"} },
			read: func(*parser, *yaml.Node, string, *document) {},
		},
	}
}

func (p *parser) manifest(root *yaml.Node) {
	before := len(p.errs)
	var d document
	object(p, root, "the manifest", "", documentFields(), &d)
	if len(p.errs) > before {
		return
	}
	p.name = d.meta.name
	out := p.provider(d.meta.name, &d.spec, root)
	if len(p.errs) > before {
		return
	}
	if p.opts.Adjust != nil {
		p.opts.Adjust(&out)
	}
	p.found = append(p.found, manifest{out, p.file, root, p.places})
}

// locate says where that stands which package providers finds wrong.
func locate(err error, found []manifest) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	out := make([]error, len(list))
	for i, e := range list {
		out[i] = e
		var wrong *providers.ConfigError
		if !errors.As(e, &wrong) || wrong.Index < 0 || wrong.Index >= len(found) {
			continue
		}
		m := &found[wrong.Index]
		n, problem := m.root, wrong.Reason
		if wrong.Err != nil {
			problem += ": " + wrong.Err.Error()
		}
		for field := wrong.Field; ; {
			if at := m.places[field]; at != nil {
				n = at
				break
			}
			cut := strings.LastIndexByte(field, '.')
			if cut < 0 {
				break
			}
			field = field[:cut]
		}
		out[i] = &Error{File: m.file, Line: n.Line, Column: n.Column, Provider: m.provider.Name, Problem: wrong.Field + " " + problem}
	}
	return errors.Join(out...)
}
