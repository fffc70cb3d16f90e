// Package kvsteerotel traces requests with OpenTelemetry: one span for each request that
// carries a prompt, from its arrival at the router to the last byte of its answer, all
// attempts included.
//
// With a [kvsteer.Transport]:
//
//	tracer := kvsteerotel.New(kvsteerotel.Options{})
//	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(tracer))
//	...
//	proxy := &httputil.ReverseProxy{Transport: tracer.Transport(router, kvsteer.TransportOptions{})}
//
// Who drives a [kvsteer.Router] by hand calls [Tracer.Select] in place of its Select, and
// sends to the worker with [Selection.Context] or [Selection.Propagate]. Either way the
// Tracer must be among the hooks of the Router: they say how requests end. Where it isn't,
// spans end with the first decision, and OpenTelemetry's error handler is told once.
//
// # What is in a span
//
// Names and attributes follow the semantic conventions for generative AI, which are still
// in development; what they have no name for begins with "kvsteer.". docs/tracing.md lists
// all. Neither prompts nor answers nor credentials are in any of them, and no texts of
// errors, which may quote either: error.type is one of few names. The tenant is left out;
// [Options.Attributes] can add it.
//
// # What is passed on
//
// Workers get the trace context in the headers that the propagator writes, such as
// traceparent, in place of the client's. If the request's context has no span, as it has
// below otelhttp, the client's headers name the parent.
//
// # Cost
//
// Without a provider that records, nothing is kept and next to nothing is done. With one,
// a request's end may wait for what the provider does when a span ends: use one that exports
// in the background, as batching span processors do.
//
// Only the API of OpenTelemetry is imported. Requests without a prompt, such as lists of
// models, have no span here; HTTP's own instrumentation has them.
package kvsteerotel
