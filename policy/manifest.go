package policy

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Manifest is a document that defines a name which policies may refer to.
type Manifest struct {
	// APIVersion and Kind say what it is: an InferencePool, InferenceWorkerSet,
	// InferenceProvider, GatewayBackend or HTTPRoute.
	APIVersion, Kind string
	Namespace, Name  string
	// Models are those that it says it serves, as far as it can be told.
	Models []string
	// Refers are what an HTTPRoute sends requests to.
	Refers []Reference
}

// Reference names another object.
type Reference struct {
	Kind, Name string
}

// The kinds of manifests.
const (
	kindPool      = "InferencePool"
	kindWorkerSet = "InferenceWorkerSet"
	kindProvider  = "InferenceProvider"
	kindBackend   = "GatewayBackend"
	kindRoute     = "HTTPRoute"
)

func manifestKinds() []string {
	return []string{kindPool, kindWorkerSet, kindProvider, kindBackend, kindRoute}
}

// isManifest goes by apiVersion and kind: others have an InferencePool, too. Which
// version of a group it is makes no difference to names.
func isManifest(apiVersion, kind string) bool {
	group := groupOf(apiVersion)
	switch {
	case !slices.Contains(manifestKinds(), kind):
		return false
	case group == groupOf(APIVersionKinference), group == groupOf(APIVersion):
		return true
	case kind == kindPool:
		return group == "inference.networking.k8s.io" || group == "inference.networking.x-k8s.io"
	case kind == kindRoute:
		return group == "gateway.networking.k8s.io"
	default:
		return false
	}
}

// groupOf is an apiVersion without its version.
func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// manifest reads of a manifest what policies may refer to.
func (p *parser) manifest(root *yaml.Node, apiVersion, kind string) {
	m := Manifest{APIVersion: apiVersion, Kind: kind}
	if meta := valueAt(root, "metadata"); meta != nil {
		m.Name, m.Namespace = scalarAt(meta, "name"), scalarAt(meta, "namespace")
	}
	if m.Name == "" {
		p.note(root, SeverityWarning, CodeMissingKey, "the "+kind+" has no name", "add metadata.name")
		return
	}
	if spec := valueAt(root, "spec"); spec != nil {
		m.Models = p.modelNames(spec)
		if kind == kindRoute {
			m.Refers = p.references(spec)
		}
	}
	p.out.Manifests = append(p.out.Manifests, m)
}

// modelNames reads spec.model or spec.models: a name, a mapping with one, or a list
// of either.
func (p *parser) modelNames(spec *yaml.Node) []string {
	var out []string
	for _, key := range []string{"model", "modelName", "models"} {
		v := valueAt(spec, key)
		if v == nil {
			continue
		}
		list := []*yaml.Node{v}
		if v.Kind == yaml.SequenceNode {
			list = v.Content
		}
		for _, n := range list {
			model, ok := p.Resolve(n)
			switch {
			case !ok:
				return out
			case model.Kind == yaml.ScalarNode && model.Value != "":
				out = append(out, model.Value)
			case model.Kind == yaml.MappingNode && scalarAt(model, "name") != "":
				out = append(out, scalarAt(model, "name"))
			}
		}
	}
	return out
}

// references reads spec.rules[].backendRefs[] of an HTTPRoute.
func (p *parser) references(spec *yaml.Node) []Reference {
	var out []Reference
	for _, rule := range p.itemsAt(spec, "rules") {
		for _, ref := range p.itemsAt(rule, "backendRefs") {
			if name := scalarAt(ref, "name"); name != "" {
				out = append(out, Reference{Kind: scalarAt(ref, "kind"), Name: name})
			}
		}
	}
	return out
}

// itemsAt are those of a list, as far as the bounds let them be looked at.
func (p *parser) itemsAt(n *yaml.Node, key string) []*yaml.Node {
	list := valueAt(n, key)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for i := range list.Content {
		if _, ok := p.Resolve(list.Content[i]); !ok {
			return list.Content[:i]
		}
	}
	return list.Content
}
