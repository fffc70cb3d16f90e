package policy

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// form is a kind of value: how it is read into a T, and what editors are told about
// it. Parser and JSON Schema come from the same forms, so that they say the same.
type form[T any] struct {
	read   func(p *parser, n *yaml.Node, at string, into *T)
	schema func(s *schemas) schema
}

// field is one key of a mapping that is read into a T.
type field[T any] struct {
	name, doc string
	// published: published policies have the key, so that their API version does.
	published, required bool

	read   func(p *parser, n *yaml.Node, at string, into *T)
	schema func(s *schemas) schema
}

// key is a field that is read into a part of T.
func key[T, V any](name string, f form[V], part func(*T) *V, doc string) field[T] {
	return field[T]{
		name: name, doc: doc,
		read:   func(p *parser, n *yaml.Node, at string, into *T) { f.read(p, n, at, part(into)) },
		schema: f.schema,
	}
}

// same is for keys that only group others: what is in them belongs to T itself.
func same[T any](t *T) *T { return t }

func (f field[T]) attested() field[T] {
	f.published = true
	return f
}

func (f field[T]) needed() field[T] {
	f.required = true
	return f
}

// object is a mapping with known keys. name is the one in the JSON Schema, what the
// one in errors.
func object[T any](name, what string, fields ...field[T]) form[T] {
	return form[T]{
		read: func(p *parser, n *yaml.Node, at string, into *T) { readObject(p, n, at, what, fields, into) },
		schema: func(s *schemas) schema {
			return s.define(name, func() schema { return objectSchema(s, fields) })
		},
	}
}

func readObject[T any](p *parser, n *yaml.Node, at, what string, fields []field[T], into *T) {
	p.at = at
	seen := make(map[string]bool, len(fields))
	failed := len(p.findings)
	p.Mapping(n, what, nil, func(k, v *yaml.Node) {
		f := fieldByName(fields, k.Value)
		switch {
		case f == nil:
			p.at = path(at, k.Value)
			p.unknownKey(k, what, fieldNames(fields, p.published))
		case p.published && !f.published:
			p.at = path(at, k.Value)
			p.fail(k, CodeUnattested, what+" has no key "+yamlnode.Quote(k.Value)+" in published policies of "+
				APIVersionKinference, useOurs)
		default:
			seen[k.Value] = true
			p.at = path(at, k.Value)
			p.src.put(p.at, v.Line, v.Column)
			f.read(p, v, p.at, into)
		}
		p.at = at
	})
	if failed != len(p.findings) {
		return // a required key may be among what could not be read
	}
	for i := range fields {
		if fields[i].required && !seen[fields[i].name] {
			p.fail(n, CodeMissingKey, what+" has no key "+yamlnode.Quote(fields[i].name), "add it: "+fields[i].doc)
		}
	}
}

// useOurs is the advice for what published policies don't have.
const useOurs = "use apiVersion: " + APIVersion + ", which has it"

func fieldByName[T any](fields []field[T], name string) *field[T] {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// fieldNames lists those that may be written.
func fieldNames[T any](fields []field[T], published bool) []string {
	var names []string
	for i := range fields {
		if !published || fields[i].published {
			names = append(names, fields[i].name)
		}
	}
	return names
}

func (p *parser) unknownKey(k *yaml.Node, what string, keys []string) {
	message, advice := what+" has no key "+yamlnode.Quote(k.Value), yamlnode.Suggest(k.Value, keys)
	if p.published {
		message += " in published policies of " + APIVersionKinference
		advice += "; there are more keys with apiVersion: " + APIVersion
	}
	p.fail(k, CodeUnknownKey, message, advice)
}

// path is that of a key below at. Whatever the file has as a key can be part of it, so
// it is shortened and what separates parts of paths is taken out.
func path(at, name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	name = strings.Map(func(r rune) rune {
		if r == '.' || r == '[' || r < ' ' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if at == "" {
		return name
	}
	return at + "." + name
}

// listOf is a list of values.
func listOf[T any](of form[T], what string) form[[]T] {
	return form[[]T]{
		read: func(p *parser, n *yaml.Node, at string, into *[]T) {
			p.at = at
			list, ok := p.Resolve(n)
			switch {
			case !ok:
			case list.Kind != yaml.SequenceNode:
				p.fail(list, CodeWrongType, what+" must be a list, found "+yamlnode.KindOf(list), "")
			default:
				*into = readItems(p, list, at, of)
			}
		},
		schema: func(s *schemas) schema { return schema{"type": "array", "items": of.schema(s)} },
	}
}

// oneOrMore is a value, or a list of values.
func oneOrMore[T any](of form[T]) form[[]T] {
	return form[[]T]{
		read: func(p *parser, n *yaml.Node, at string, into *[]T) {
			p.at = at
			list, ok := p.Resolve(n)
			switch {
			case !ok:
			case list.Kind != yaml.SequenceNode:
				*into = make([]T, 1)
				of.read(p, n, at, &(*into)[0])
			case p.published:
				p.fail(list, CodeUnattested, "published policies of "+APIVersionKinference+" have no list here", useOurs)
			default:
				*into = readItems(p, list, at, of)
			}
		},
		schema: func(s *schemas) schema {
			one := of.schema(s)
			return schema{"anyOf": []schema{one, {"type": "array", "items": one, "minItems": 1}}}
		},
	}
}

// readItems returns an empty list for an empty one, not nil: that one was written is
// worth knowing.
func readItems[T any](p *parser, list *yaml.Node, at string, of form[T]) []T {
	const room = 64 // to begin with: a list may be long and hostile
	items := make([]T, 0, min(len(list.Content), room))
	for i, n := range list.Content {
		var v T
		here := item(at, i)
		p.at = here
		p.src.put(here, n.Line, n.Column)
		of.read(p, n, here, &v)
		items = append(items, v)
		if p.stopped() {
			break
		}
	}
	p.at = at
	return items
}

// word is one of an enumeration.
type word[T any] struct {
	text      string
	value     T
	published bool
	doc       string
}

// oneOf is one of some words.
func oneOf[T any](words ...word[T]) form[T] {
	return form[T]{
		read: func(p *parser, n *yaml.Node, at string, into *T) {
			p.at = at
			readWord(p, n, words, into)
		},
		schema: func(*schemas) schema { return wordSchema(words) },
	}
}

func readWord[T any](p *parser, n *yaml.Node, words []word[T], into *T) {
	names := make([]string, 0, len(words))
	for i := range words {
		if !p.published || words[i].published {
			names = append(names, words[i].text)
		}
	}
	n, ok := p.Scalar(n, lastKey(p.at), "one of "+strings.Join(names, ", "))
	if !ok {
		return
	}
	for i := range words {
		if words[i].text != n.Value {
			continue
		}
		if p.published && !words[i].published {
			p.fail(n, CodeUnattested, yamlnode.Quote(n.Value)+" is no value in published policies of "+APIVersionKinference, useOurs)
			return
		}
		*into = words[i].value
		return
	}
	p.fail(n, CodeUnknownValue, lastKey(p.at)+" can't be "+yamlnode.Quote(n.Value), yamlnode.Suggest(n.Value, names))
}

// lastKey is how a value is called in errors: by its key.
func lastKey(path string) string {
	end := path
	if cut := strings.IndexByte(lastPart(path), '['); cut >= 0 {
		end = path[:len(path)-len(lastPart(path))+cut]
		return "an entry of " + lastPart(end)
	}
	return lastPart(end)
}

func lastPart(path string) string {
	return path[strings.LastIndexByte(path, '.')+1:]
}
