// Package e2e runs the external processor behind a real Envoy, with the configurations of
// examples/extproc, in front of fleettest's engines, and once of vLLM. Its tests have the
// build tag e2e: make e2e-envoy.
package e2e
