package policy

import (
	"slices"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// CheckOptions says what policies may refer to. What is nil is not known, and then
// nothing is said about it, except for what manifests among the files define.
type CheckOptions struct {
	// Tags are those that the configured classifiers produce. A policy that asks for
	// another one is in error; an empty list that is not nil means that there are none.
	Tags []string
	// Pools, Workers and Providers are names beside those of manifests.
	Pools, Workers, Providers []string
	// Models are models that exist, beside those of policies and manifests, and their
	// labels, which may be empty.
	Models []ModelLabels
	// Together: the policies make one set, as [Compile] makes it. Then a rule that a
	// policy asked before always decides is reported, and a name given twice.
	Together bool
}

// Check finds what is wrong with policies that were read, beyond what [Parse] said,
// in the order of reading. Every finding that [Compile] refuses a policy for is among
// them. It changes nothing, and is bounded in time and in what it returns.
func Check(files []*File, opts CheckOptions) []Finding {
	known := knownNames(files, &opts)
	var all []Finding
	var specs []*Spec
	for _, f := range files {
		var findings []Finding
		for _, s := range f.Specs {
			// A set may know labels of models that no file here has.
			c := checking{labels: opts.Models, open: opts.Models == nil}
			findings = append(findings, s.problems(c)...)
			findings = append(findings, s.unknowns(known, c)...)
		}
		if !opts.Together {
			findings = append(findings, duplicatePolicies(f.Specs)...)
		}
		all = append(all, clip(findings)...)
		specs = append(specs, f.Specs...)
	}
	if opts.Together {
		all = append(all, clip(duplicatePolicies(specs))...)
		all = append(all, clip(overruled(specs))...)
	}
	sortFindings(all)
	return all
}

// checking is what a policy is checked with.
type checking struct {
	// labels are those of models, beside the policy's own.
	labels []ModelLabels
	// open: there may be other labels that are not known here.
	open bool
}

// checker checks one policy.
type checker struct {
	checking

	s        *Spec
	findings []Finding
	// known are labels of models; looked counts how many were looked through.
	known  map[string]map[string]string
	looked int
}

// problems lists what is wrong with the policy, whether it was read or built in Go.
func (s *Spec) problems(c checking) []Finding {
	k := &checker{checking: c, s: s}
	k.spec()
	for i := range s.Rules {
		k.rule(i)
	}
	k.reachable()
	return clip(k.findings)
}

func (k *checker) add(severity Severity, code, path, message, suggestion string) {
	if k.full() {
		return
	}
	k.findings = append(k.findings, k.s.finding(severity, code, path, message, suggestion))
}

// full reports whether there are more findings than anybody will see.
func (k *checker) full() bool { return len(k.findings) > enoughFindings }

func (k *checker) err(code, path, message, suggestion string) {
	k.add(SeverityError, code, path, message, suggestion)
}

func (k *checker) warn(code, path, message, suggestion string) {
	k.add(SeverityWarning, code, path, message, suggestion)
}

func (s *Spec) finding(severity Severity, code, path, message, suggestion string) Finding {
	at := s.position(path)
	return Finding{
		File: at.file, Line: at.line, Column: at.column, Policy: fullName(s.Namespace, s.Name), Path: path,
		Severity: severity, Code: code, Message: message, Suggestion: suggestion,
	}
}

// Bounds of numbers in policies.
const (
	minPriority    = -1_000_000_000
	maxPriority    = 1_000_000_000
	maxShareWeight = 1_000_000
	minStatus      = 400
	maxStatus      = 599
)

func (k *checker) spec() {
	s := k.s
	if s.Priority < minPriority || s.Priority > maxPriority {
		k.err(CodeInvalidValue, "spec.priority", "priorities are from -1000000000 to 1000000000", "")
	}
	if s.Mode > Shadow {
		k.err(CodeInvalidValue, "spec.mode", "there is no such mode", "use Enforce or Shadow")
	}
	k.names("spec.pools", s.Pools, "pool")
	seen := make(map[string]bool, len(s.Models))
	for i, m := range s.Models {
		at := item("spec.models", i)
		switch {
		case m.Name == "" && s.sound(at):
			k.err(CodeEmptyName, at+".name", "the model has no name", "")
		case seen[m.Name]:
			k.err(CodeDuplicateName, at+".name", "the model "+yamlnode.Quote(m.Name)+" is listed twice", "put all its labels into one item")
		}
		seen[m.Name] = true
		k.labelMap(at+".labels", m.Labels)
	}
	if len(s.Rules) == 0 && s.sound("spec") {
		k.warn(CodeNoRules, "spec.rules", "the policy has no rules and never decides", "")
	}
	k.ruleNames()
}

func (k *checker) ruleNames() {
	first := make(map[string]int, len(k.s.Rules))
	for i := range k.s.Rules {
		at, name := item("spec.rules", i), k.s.Rules[i].Name
		if name == "" {
			if k.s.sound(at) {
				k.warn(CodeUnnamed, at+".name", "the rule has no name", "give it one, so that decisions can name it")
			}
			continue
		}
		if j, ok := first[name]; ok {
			k.err(CodeDuplicateRule, at+".name", "another rule is named "+yamlnode.Quote(name)+" as well: "+item("spec.rules", j),
				"rename one")
			continue
		}
		first[name] = i
	}
}

// names checks a list of names, nil for one that isn't there.
func (k *checker) names(at string, list []string, what string) {
	if list != nil && len(list) == 0 {
		k.err(CodeEmptyList, at, "the list is empty: there is no such "+what, "name one, or leave the list out")
	}
	for i, name := range list {
		here := at
		if k.s.written(item(at, i)) {
			here = item(at, i)
		}
		switch {
		case name == "":
			k.err(CodeEmptyName, here, "the name is empty", "name a "+what)
		case slices.Contains(list[:min(i, maxDuplicates)], name):
			k.warn(CodeDuplicateEntry, here, yamlnode.Quote(name)+" is listed twice", "remove one")
		}
	}
}

// maxDuplicates is among how many entries of a list a duplicate is looked for where
// that is of little importance: a list may be long and hostile.
const maxDuplicates = 200

// words checks that names are of those that there are.
func (k *checker) words(at string, list, known []string, what string) {
	k.names(at, list, what)
	for i, name := range list {
		if name == "" || slices.Contains(known, name) {
			continue
		}
		here := at
		if k.s.written(item(at, i)) {
			here = item(at, i)
		}
		k.err(CodeUnknownValue, here, "there is no "+what+" "+yamlnode.Quote(name), yamlnode.Suggest(name, known))
	}
}

func (k *checker) labelMap(at string, labels map[string]string) {
	if labels != nil && len(labels) == 0 && k.s.sound(at) {
		k.err(CodeEmptyList, at, "there are no labels in it", "write labels, or leave it out")
	}
	if _, ok := labels[""]; ok {
		k.err(CodeEmptyName, at, "a label has no name", "")
	}
}

// duplicatePolicies finds policies of one namespace and name.
func duplicatePolicies(specs []*Spec) []Finding {
	var findings []Finding
	first := make(map[string]*Spec, len(specs))
	for _, s := range specs {
		name := fullName(s.Namespace, s.Name)
		other, ok := first[name]
		if !ok {
			first[name] = s
			continue
		}
		if s.Name == "" {
			continue // that it has none is said elsewhere
		}
		where := ""
		if at := other.position("metadata.name").String(); at != "" {
			where = ": " + at
		}
		findings = append(findings, s.finding(SeverityError, CodeDuplicatePolicy, "metadata.name",
			"another policy is named "+yamlnode.Quote(name)+" as well"+where, "rename one"))
	}
	return findings
}
