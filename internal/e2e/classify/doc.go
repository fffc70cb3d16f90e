// Package classify proves the adapters of package policy/classify against the services
// that they are for: a real vLLM that serves a sequence classifier, a real Presidio
// analyzer, and the official SDK's idea of OpenAI's moderations. It has no code of its
// own: see the tests behind the build tag e2e, and `make e2e-classify`.
package classify
