package policy

// VersionOf is what Compile calls a Set of one spec.
func VersionOf(opts Options, spec *Spec) string { return versionOf(opts, []*Spec{spec}) }
