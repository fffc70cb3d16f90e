package policy

// VersionOf is what Compile calls a Set of one spec.
func VersionOf(opts Options, spec *Spec) string { return versionOf(opts, []*Spec{spec}) }

// CompileAnyway compiles even what makes no sense, as long as it can be told what it
// would do: most of what dice make.
func CompileAnyway(specs ...*Spec) *Set { return link(Options{}, inOrder(specs)) }
