package policy

// checking is what a policy is checked with.
type checking struct {
	// labels are those of models, beside the policy's own.
	labels []ModelLabels
	// open: there may be other labels that are not known here.
	open bool
}

// problems lists what is wrong with the policy, whether it was read or built in Go.
func (s *Spec) problems(checking) []Finding {
	return nil
}
