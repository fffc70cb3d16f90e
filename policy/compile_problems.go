package policy

// refuse returns a *CheckError if the specs can't be compiled together.
func refuse(opts Options, specs []*Spec) error {
	findings := duplicatePolicies(specs)
	for _, spec := range specs {
		findings = append(findings, spec.problems(checking{labels: opts.Models})...)
	}
	sortFindings(findings)
	return refusal(clip(findings))
}
