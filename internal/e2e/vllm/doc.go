// Package vllm runs the example gateway in front of real vLLM servers on a CPU,
// under load from GuideLLM, and checks what it predicted against what the
// engines report. It has no code of its own: see the test behind the build tag
// e2e, and `make e2e-vllm`. The scripts in this folder set up and start what it
// needs; README.md explains them.
package vllm
