package policy

import "fmt"

// refuse returns a *CheckError if the specs, in the order in which they are asked,
// can't be compiled.
func refuse(opts Options, specs []*Spec) error {
	var findings []Finding
	type identity struct{ namespace, name string }
	seen := map[identity]bool{}
	for _, spec := range specs {
		who := identity{spec.Namespace, spec.Name}
		if seen[who] {
			at, name := spec.position("metadata.name"), fullName(spec.Namespace, spec.Name)
			findings = append(findings, Finding{
				File: at.file, Line: at.line, Column: at.column, Policy: name, Path: "metadata.name",
				Severity: SeverityError, Code: codeDuplicatePolicy,
				Message:    fmt.Sprintf("there is another policy %q", name),
				Suggestion: "give each a name of its own",
			})
		}
		seen[who] = true
		findings = append(findings, spec.problems(checking{labels: opts.Models})...)
	}
	sortFindings(findings)
	return refusal(clip(findings))
}

const codeDuplicatePolicy = "duplicate-policy"
