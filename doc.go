// Package kvsteer decides, request by request, which LLM worker should serve a
// prompt: the one that will answer first, because it already holds the prompt's
// prefix in its KV cache and is not queued up.
//
// Build a [Router] over a fleet, then either put a [Transport] under the
// gateway's HTTP client or call [Router.Select] and drive the [Selection]
// yourself. A Router never fails a request because it does not know a cache: it
// then routes by load, and the [Decision] says so.
//
// What a gateway knows of a request goes into the [Request]: whom it is for, how
// urgent it is, which conversation it belongs to, and how fast it should be. With
// [WithQueue] requests wait in the router while workers are busy. Workers that the
// fleet lists in the roles prefill and decode serve requests together.
package kvsteer
