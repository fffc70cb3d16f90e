// Package jinja compares kvcache/prompt/jinja with what engines run: Python's
// jinja2 in the environment of transformers. It has tests only, under the tag
// e2e. They need a Python with transformers (that of the real vLLM's tests is
// used) and templates, which fetch.sh collects.
package jinja
