// Package prompt proves package kvcache/prompt/local against a real vLLM: for
// thousands of varied requests the ids computed here are those that vLLM's render
// server returns, and those that a serving engine reports. See README.md.
package prompt
