package file

import (
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// node is a part of a JSON Schema.
type node = map[string]any

// field is one key of a mapping that is read into a T. Parser and JSON Schema come from
// the same tables, so that they say the same.
type field[T any] struct {
	name, doc string
	// of is the part of a providers.Provider that it becomes, by which package providers
	// says what is wrong with it.
	of       string
	required bool
	schema   func() node
	read     func(p *parser, n *yaml.Node, what string, into *T)
}

// object reads a mapping. what names it in errors, of is what comes before the names of
// its fields' parts.
func object[T any](p *parser, n *yaml.Node, what, of string, fields []field[T], into *T) {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	seen := map[string]bool{}
	before := len(p.errs)
	p.Mapping(n, what, names, func(k, v *yaml.Node) {
		for i := range fields {
			f := &fields[i]
			if f.name != k.Value {
				continue
			}
			seen[f.name] = true
			if f.of != "" {
				p.places[of+f.of] = v
			}
			f.read(p, v, f.name, into)
		}
	})
	for i := range fields {
		if f := &fields[i]; f.required && !seen[f.name] && len(p.errs) == before {
			p.fail(n, what+" has no "+f.name+"; add it: "+f.doc)
		}
	}
}

func objectSchema[T any](fields []field[T]) node {
	properties, required := node{}, []string{}
	for _, f := range fields {
		s := f.schema()
		s["description"] = f.doc
		properties[f.name] = s
		if f.required {
			required = append(required, f.name)
		}
	}
	out := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func textField[T any](name, of, doc string, part func(*T) *string) field[T] {
	return field[T]{
		name: name, of: of, doc: doc,
		schema: func() node { return node{"type": "string"} },
		read:   func(p *parser, n *yaml.Node, what string, into *T) { p.Text(n, what, part(into)) },
	}
}

func wholeField[T any](name, of, doc string, part func(*T) *int) field[T] {
	return field[T]{
		name: name, of: of, doc: doc,
		schema: func() node { return node{"type": "integer", "minimum": 1} },
		read: func(p *parser, n *yaml.Node, what string, into *T) {
			if p.Whole(n, what, part(into)) && *part(into) < 1 {
				p.fail(n, what+" must be at least 1; leave it out if it is not known")
			}
		},
	}
}

func boolField[T any](name, of, doc string, part func(*T) *bool) field[T] {
	return field[T]{
		name: name, of: of, doc: doc,
		schema: func() node { return node{"type": "boolean"} },
		read:   func(p *parser, n *yaml.Node, what string, into *T) { p.Boolean(n, what, part(into)) },
	}
}

func durationField[T any](name, of, doc string, part func(*T) *time.Duration) field[T] {
	return field[T]{
		name: name, of: of, doc: doc,
		schema: func() node { return node{"type": "string", "examples": []string{"700ms"}} },
		read: func(p *parser, n *yaml.Node, what string, into *T) {
			s, ok := p.Scalar(n, what, "a duration such as 20ms or 1.5s")
			if !ok {
				return
			}
			d, err := time.ParseDuration(s.Value)
			if err != nil || d <= 0 {
				p.fail(s, what+" must be a duration such as 20ms or 1.5s, found "+yamlnode.Quote(s.Value))
				return
			}
			*part(into) = d
		},
	}
}

func listField[T any](name, of, doc string, part func(*T) *[]string) field[T] {
	return field[T]{
		name: name, of: of, doc: doc,
		schema: func() node { return node{"type": "array", "items": node{"type": "string"}, "minItems": 1} },
		read: func(p *parser, n *yaml.Node, what string, into *T) {
			for _, item := range p.list(n, what) {
				var s string
				if p.Text(item, "an entry of "+what, &s) {
					*part(into) = append(*part(into), s)
				}
			}
		},
	}
}

func mapField[T any](name, of, doc string, part func(*T) *map[string]string) field[T] {
	return field[T]{
		name: name, of: of, doc: doc,
		schema: func() node {
			return node{"type": "object", "additionalProperties": node{"type": "string"}}
		},
		read: func(p *parser, n *yaml.Node, what string, into *T) {
			m := map[string]string{}
			p.Mapping(n, what, nil, func(k, v *yaml.Node) {
				var s string
				if p.Text(v, what+"."+k.Value, &s) {
					m[k.Value] = s
				}
			})
			*part(into) = m
		},
	}
}

// list is the items of one that isn't empty: an empty one may have been meant as none.
func (p *parser) list(n *yaml.Node, what string) []*yaml.Node {
	n, ok := p.Resolve(n)
	switch {
	case !ok:
		return nil
	case n.Kind != yaml.SequenceNode:
		p.fail(n, fmt.Sprintf("%s must be a list, found %s", what, yamlnode.KindOf(n)))
		return nil
	case len(n.Content) == 0:
		p.fail(n, what+" is empty; leave it out")
	}
	return n.Content
}

// index is the name of a part of a list.
func index(of string, i int) string { return of + "[" + strconv.Itoa(i) + "]" }
