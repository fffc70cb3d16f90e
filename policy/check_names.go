package policy

import (
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// nameSet is what is known to exist of one kind of thing.
type nameSet struct {
	// what it is called, and what defines it.
	what, by string
	// given: somebody has said what there is.
	given bool
	names []string
	has   map[string]bool
	// stems are names that others may begin with, as those of a set's workers do.
	stems []string
}

func (n *nameSet) add(given bool, names ...string) {
	n.given = n.given || given
	for _, name := range names {
		if n.has == nil {
			n.has = map[string]bool{}
		}
		if !n.has[name] {
			n.has[name] = true
			n.names = append(n.names, name)
		}
	}
}

// knows reports whether the name exists.
func (n *nameSet) knows(name string) bool {
	if n.has[name] {
		return true
	}
	return slices.ContainsFunc(n.stems, func(stem string) bool { return strings.HasPrefix(name, stem+"-") })
}

// known is what policies may refer to.
type known struct {
	manifests                 bool // some are given
	pools, workers, providers nameSet
	// models are those that somebody has listed, considered those that some policy
	// sends requests to, which therefore exist.
	models     nameSet
	considered map[string]bool
	// produced are the tags, nil if not known.
	produced []string
}

// knownNames collects what the files and the options define.
func knownNames(files []*File, opts *CheckOptions) *known {
	k := &known{
		pools:     nameSet{what: "pool", by: "an InferencePool"},
		workers:   nameSet{what: "worker", by: "an InferenceWorkerSet"},
		providers: nameSet{what: "provider", by: "an InferenceProvider or GatewayBackend"},
		models:    nameSet{what: "model"},
		produced:  opts.Tags, considered: map[string]bool{},
	}
	k.pools.add(opts.Pools != nil, opts.Pools...)
	k.workers.add(opts.Workers != nil, opts.Workers...)
	k.providers.add(opts.Providers != nil, opts.Providers...)
	for i := range opts.Models {
		k.models.add(true, opts.Models[i].Name)
	}
	for _, f := range files {
		for i := range f.Manifests {
			k.manifest(&f.Manifests[i])
		}
		for _, s := range f.Specs {
			k.spec(s)
		}
	}
	return k
}

func (k *known) manifest(m *Manifest) {
	k.manifests = true
	k.models.add(true, m.Models...)
	switch m.Kind {
	case kindPool:
		k.pools.add(true, m.Name)
	case kindWorkerSet:
		k.workers.add(true, m.Name)
		k.workers.stems = append(k.workers.stems, m.Name)
	case kindProvider, kindBackend:
		k.providers.add(true, m.Name)
	case kindRoute:
		// A route does not define what it refers to, but it is no mistake of the policy's
		// if that is not there.
		for _, r := range m.Refers {
			switch r.Kind {
			case kindPool:
				k.pools.add(false, r.Name)
			case kindProvider, kindBackend:
				k.providers.add(false, r.Name)
			default:
			}
		}
	default:
	}
}

// spec adds models that a policy knows of.
func (k *known) spec(s *Spec) {
	for i := range s.Models {
		k.considered[s.Models[i].Name] = true
	}
	for i := range s.Rules {
		for j := range s.Rules[i].Route.Consider {
			for _, m := range s.Rules[i].Route.Consider[j].Models {
				k.considered[m] = true
			}
		}
	}
}

// unknowns finds what the policy refers to and nothing defines.
func (s *Spec) unknowns(k *known, c checking) []Finding {
	n := &namer{s: s, k: k, labels: &checker{checking: c, s: s}}
	n.list("spec.pools", s.Pools, &k.pools)
	for i := range s.Rules {
		r, at := &s.Rules[i], item("spec.rules", i)
		for j := range r.Matches {
			n.tags(item(at+".matches", j)+".tag", r.Matches[j].Tag)
		}
		for j := range r.Route.Consider {
			c, here := &r.Route.Consider[j], item(at+".route.consider", j)
			n.list(here+".workers.names", c.Workers, &k.workers)
			n.list(here+".providers.names", c.Providers, &k.providers)
			n.models(here+".models.names", c.Models)
		}
		for j := range r.Route.Exclude {
			x, here := &r.Route.Exclude[j], item(at+".route.exclude", j)
			n.tags(here+".if.tag", x.If.Tag)
			n.backends(here+".drop.backend.name", x.Drop.Name, x.Drop.Type)
		}
		for j := range r.Route.Select {
			stage, here := &r.Route.Select[j], item(at+".route.select", j)
			n.backends(here+".order", stage.Order, stage.Type)
			for w := range stage.Weighted {
				if name := stage.Weighted[w].Name; name != "" {
					n.backends(item(here+".weighted", w)+".name", []string{name}, stage.Type)
				}
			}
		}
		n.alias(at, r)
	}
	return n.findings
}

// namer checks the names of one policy.
type namer struct {
	s *Spec
	k *known
	// labels knows the labels of models.
	labels   *checker
	findings []Finding
}

func (n *namer) add(severity Severity, code, at, message, suggestion string) {
	if len(n.findings) <= maxFindings {
		n.findings = append(n.findings, n.s.finding(severity, code, at, message, suggestion))
	}
}

// place is the path of an entry of a list, which may stand alone.
func (n *namer) place(at string, i int) string {
	if n.s.written(item(at, i)) {
		return item(at, i)
	}
	return at
}

func (n *namer) tags(at string, list []string) {
	if n.k.produced == nil {
		return
	}
	for i, tag := range list {
		if tag != "" && !slices.Contains(n.k.produced, tag) {
			suggestion := "no classifier produces any tag"
			if len(n.k.produced) > 0 {
				suggestion = yamlnode.Suggest(tag, n.k.produced)
			}
			n.add(SeverityError, CodeUnknownTag, n.place(at, i), "no classifier produces the tag "+yamlnode.Quote(tag), suggestion)
		}
	}
}

func (n *namer) list(at string, list []string, of *nameSet) {
	for i, name := range list {
		if name != "" && !of.knows(name) {
			n.unknown(n.place(at, i), name, of)
		}
	}
}

func (n *namer) unknown(at, name string, of *nameSet) {
	switch {
	case of.given:
		suggestion := yamlnode.Suggest(name, of.names)
		n.add(SeverityError, CodeUnknownName, at, "no "+of.what+" is named "+yamlnode.Quote(name), suggestion)
	case n.k.manifests:
		n.add(SeverityWarning, CodeUnknownName, at, "nothing that is given defines the "+of.what+" "+yamlnode.Quote(name),
			"check it together with "+of.by+" of that name")
	}
}

// backends checks names that may be those of workers and of providers.
func (n *namer) backends(at string, list []string, kind BackendKind) {
	workers, providers := &n.k.workers, &n.k.providers
	for i, name := range list {
		if name == "" {
			continue
		}
		here := n.place(at, i)
		worker, provider := workers.knows(name), providers.knows(name)
		switch {
		case kind == LocalOnly && !worker && provider:
			n.add(SeverityError, CodeWrongBackend, here, yamlnode.Quote(name)+" is a provider, and only local workers are taken",
				"write type: Provider, or name a worker")
		case kind == ProviderOnly && !provider && worker:
			n.add(SeverityError, CodeWrongBackend, here, yamlnode.Quote(name)+" is a local worker, and only providers are taken",
				"write type: Local, or name a provider")
		case worker || provider:
		case kind == LocalOnly:
			n.unknown(here, name, workers)
		case kind == ProviderOnly:
			n.unknown(here, name, providers)
		default:
			both := &nameSet{
				what: "worker or provider", by: "an InferenceWorkerSet, InferenceProvider or GatewayBackend",
				given: workers.given && providers.given, names: slices.Concat(workers.names, providers.names),
			}
			n.unknown(here, name, both)
		}
	}
}

// models finds typing errors: models may exist that nobody has listed.
func (n *namer) models(at string, list []string) {
	for i, name := range list {
		if name == "" || n.k.models.has[name] {
			continue
		}
		near := yamlnode.Nearest(name, n.k.models.names)
		// Other digits are another size or version, which has a name of its own.
		if near != "" && digits(near) == digits(name) {
			n.add(SeverityWarning, CodeUnknownName, n.place(at, i), "no model is known by the name "+yamlnode.Quote(name),
				"did you mean "+yamlnode.Quote(near)+"?")
		}
	}
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// alias reports a name that clients may mean a model by that exists, and always get
// another: it has to be a name of its own.
func (n *namer) alias(at string, r *Rule) {
	if !r.Route.considersModels() {
		return
	}
	considered := map[string]bool{}
	for i := range r.Route.Consider {
		c := &r.Route.Consider[i]
		if len(c.Models)+len(c.ModelLabels) == 0 {
			return // the requested model is among the candidates
		}
		models := n.labels.models(c)
		if len(models) == 0 || models[0] == "" {
			return // labels that are not known here
		}
		for _, m := range models {
			considered[m] = true
		}
	}
	for j := range r.Matches {
		m := &r.Matches[j]
		if !m.onlyModel() {
			continue // some requests of the model, on purpose
		}
		for i, name := range m.Model {
			if name != "" && !considered[name] && (n.k.models.has[name] || n.k.considered[name]) {
				n.add(SeverityWarning, CodeAliasShadowsModel, n.place(item(at+".matches", j)+".model", i),
					yamlnode.Quote(name)+" is a model of its own, and requests for it always go to others",
					"give the alias a name that no model has, or add the model to consider")
			}
		}
	}
}

// onlyModel reports whether the match is about models and nothing else.
func (m *Match) onlyModel() bool {
	other := *m
	other.Model = nil
	return len(m.Model) > 0 && other.isZero()
}
