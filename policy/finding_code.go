package policy

// The codes of findings.
const (
	// CodeTooMany: there are more findings than are listed.
	CodeTooMany = "too-many-findings"
)
