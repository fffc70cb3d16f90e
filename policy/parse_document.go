package policy

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// document reads one document: what it is decides apiVersion and kind.
func (p *parser) document(root *yaml.Node) {
	p.src = newSource(p.out.Name)
	p.at, p.policy, p.published = "", "", false
	root, ok := p.Resolve(root)
	switch {
	case !ok:
		return
	case root.Kind != yaml.MappingNode:
		p.note(root, SeverityNote, CodeIgnored, "not a policy, which is a mapping with apiVersion and kind: "+yamlnode.KindOf(root), "")
		return
	}
	p.src.put("", root.Line, root.Column)
	apiVersion, kind := scalarAt(root, "apiVersion"), scalarAt(root, "kind")
	switch {
	case kind == Kind:
		p.spec(root, apiVersion)
	case isManifest(apiVersion, kind):
		p.manifest(root, apiVersion, kind)
	case strings.HasSuffix(kind, "List") && valueAt(root, "items") != nil:
		p.list(root)
	default:
		p.other(root, apiVersion, kind)
	}
}

// spec reads a policy.
func (p *parser) spec(root *yaml.Node, apiVersion string) {
	meta := valueAt(root, "metadata")
	if meta != nil {
		p.policy = fullName(scalarAt(meta, "namespace"), scalarAt(meta, "name"))
	}
	switch at := valueAt(root, "apiVersion"); {
	case at == nil: // that it is missing is found below
	case apiVersion != APIVersion && apiVersion != APIVersionKinference:
		p.at = "apiVersion"
		versions := []string{APIVersion, APIVersionKinference}
		p.fail(at, CodeUnknownVersion, "policies of "+yamlnode.KindOf(at)+" are not known", yamlnode.Suggest(apiVersion, versions))
		p.at = ""
	default:
		p.published = apiVersion == APIVersionKinference
	}
	p.plain(root)
	var doc document
	documentForm().read(p, root, "", &doc)
	s := doc.spec
	s.APIVersion, s.Namespace, s.Name, s.src = apiVersion, doc.meta.namespace, doc.meta.name, p.src
	p.out.Specs = append(p.out.Specs, &s)
	p.published = false
}

// plain refuses tags that mean something to another program (!vault, !!binary): what
// they stand before would be read as what it is not.
func (p *parser) plain(n *yaml.Node) {
	if n.Style&yaml.TaggedStyle != 0 {
		switch tag := n.ShortTag(); tag {
		case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		default:
			p.at = ""
			p.fail(n, CodeWrongType, "nobody here knows what the tag "+yamlnode.Quote(tag)+" makes of a value", "write the value itself")
		}
	}
	for _, child := range n.Content { // no deeper than maxDepth; aliases are not followed
		if p.stopped() {
			return
		}
		p.plain(child)
	}
}

// list reads the documents in a Kubernetes List, as kubectl writes it.
func (p *parser) list(root *yaml.Node) {
	items, ok := p.Resolve(valueAt(root, "items"))
	if !ok {
		return
	}
	if items.Kind != yaml.SequenceNode {
		p.at = "items"
		p.fail(items, CodeWrongType, "items must be a list, found "+yamlnode.KindOf(items), "")
		return
	}
	for _, n := range items.Content {
		// A list in a list is no document that anybody writes.
		if target, ok := p.Resolve(n); !ok || p.stopped() {
			return
		} else if strings.HasSuffix(scalarAt(target, "kind"), "List") {
			p.at = ""
			p.note(target, SeverityNote, CodeIgnored, "a list within a list is not read", "")
			continue
		}
		p.document(n)
	}
}

// other says what to make of a document that is neither a policy nor a manifest.
func (p *parser) other(root *yaml.Node, apiVersion, kind string) {
	at := valueAt(root, "kind")
	ours, theirs := groupOf(apiVersion) == groupOf(APIVersion), groupOf(apiVersion) == groupOf(APIVersionKinference)
	spec := valueAt(root, "spec")
	rules := spec != nil && valueAt(spec, "rules") != nil
	near := yamlnode.Nearest(kind, append(manifestKinds(), Kind))
	switch {
	case at == nil && (ours || theirs || apiVersion == "" && (rules || valueAt(root, "rules") != nil)):
		p.fail(root, CodeMissingKey, `the document has no key "kind"`, "a policy begins with apiVersion: "+APIVersion+" and kind: "+Kind)
	case at != nil && ours:
		p.at = "kind"
		p.fail(at, CodeUnknownKind, "kind can't be "+yamlnode.KindOf(at)+" with apiVersion "+yamlnode.Quote(apiVersion),
			yamlnode.Suggest(kind, append(manifestKinds(), Kind)))
	case at != nil && near != "" && near != kind && (rules || theirs || apiVersion == ""):
		p.at = "kind"
		p.note(at, SeverityWarning, CodeUnknownKind, "the document is not read: kind "+yamlnode.KindOf(at)+" is not known",
			"did you mean "+yamlnode.Quote(near)+"?")
	default:
		p.note(root, SeverityNote, CodeIgnored, "not a policy, and nothing that policies refer to: apiVersion "+
			yamlnode.Quote(apiVersion)+", kind "+yamlnode.Quote(kind), "")
	}
}

// valueAt looks up a key of a mapping, without a word if it isn't there.
func valueAt(n *yaml.Node, key string) *yaml.Node {
	n = dealias(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := dealias(n.Content[i]); k.Kind == yaml.ScalarNode && k.Value == key {
			return dealias(n.Content[i+1])
		}
	}
	return nil
}

// scalarAt is the text of a key's value, "" if it is none.
func scalarAt(n *yaml.Node, key string) string {
	if v := valueAt(n, key); v != nil && v.Kind == yaml.ScalarNode && !yamlnode.IsNull(v) {
		return v.Value
	}
	return ""
}

func dealias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// anyMetadata reads a Kubernetes object's metadata, of which policies use little.
func anyMetadata() form[metadata] {
	return form[metadata]{
		read: func(p *parser, n *yaml.Node, at string, into *metadata) {
			p.at = at
			named := false
			keys := []string{"name", "namespace", "labels", "annotations"}
			p.Mapping(n, "metadata", nil, func(k, v *yaml.Node) {
				p.at = path(at, k.Value)
				p.src.put(p.at, v.Line, v.Column)
				switch {
				case k.Value == "name":
					named = true
					p.Text(v, "name", &into.name)
				case k.Value == "namespace":
					p.Text(v, "namespace", &into.namespace)
				case !slices.Contains(keys, k.Value) && !slices.Contains(clusterKeys(), k.Value):
					p.unknownKey(k, "metadata", keys)
				}
				p.at = at
			})
			if !named && p.sound(at) {
				p.fail(n, CodeMissingKey, `metadata has no key "name"`, "decisions name the policy by it")
			}
		},
		schema: func(s *schemas) schema { return s.define("metadata", metadataSchema) },
	}
}

func (p *parser) sound(at string) bool { return !p.src.flawed[at] }

// clusterKeys are what a cluster writes into metadata.
func clusterKeys() []string {
	return []string{
		"generateName", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
	}
}

// ignored is a value that is not read.
func ignored[T any]() form[T] {
	return form[T]{
		read:   func(*parser, *yaml.Node, string, *T) {},
		schema: func(*schemas) schema { return schema{} },
	}
}

// scalarOr is a scalar that stands for a part of T, or all of T in a mapping.
func scalarOr[T, V any](scalar form[V], part func(*T) *V, full form[T]) form[T] {
	return form[T]{
		read: func(p *parser, n *yaml.Node, at string, into *T) {
			p.at = at
			target, ok := p.Resolve(n)
			switch {
			case !ok:
			case target.Kind == yaml.ScalarNode:
				scalar.read(p, n, at, part(into))
			case p.published:
				p.fail(target, CodeUnattested, lastKey(at)+" is a word in published policies of "+APIVersionKinference, useOurs)
			default:
				full.read(p, n, at, into)
			}
		},
		schema: func(s *schemas) schema {
			return schema{"anyOf": []schema{scalar.schema(s), full.schema(s)}}
		},
	}
}
