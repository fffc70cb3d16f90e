package kubernetes

// What tests see.
type (
	StatusWriter = statusWriter
	Condition    = condition
)
