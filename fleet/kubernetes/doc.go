// Package kubernetes finds the workers of a fleet in a Kubernetes cluster: pods by
// their labels ([Pods]), the endpoints of services ([EndpointSlices]), the pods of an
// InferencePool ([Pool]) or those of KVSteer's own InferenceWorkerSets ([WorkerSets]).
// Each is a [fleet.Discoverer]. docs/kubernetes.md leads from nothing to the first
// routed request, and examples/kubernetes has the manifests: roles, custom resources.
//
// # Who is a worker
//
// A pod that is selected, ready and has an address is one. It is draining from the
// moment that it is being deleted, though it may still be ready and answer probes,
// and stays in the list so until it is gone. It is out as soon as it is not ready or
// not selected, whatever it answers itself. An instance is a pod's uid and the number
// of times its engine's container was restarted, because the cache of the engine is
// gone then; nothing is known by address.
//
// What the cluster doesn't say is in a [Template] or in annotations and labels of the
// pod that begin with [Prefix]. A pod whose annotations are wrong is left out and
// reported ([Options].OnProblem); the others stay.
//
// # When the API server is away
//
// Watching ends with an error then, which Fleet.Err shows, and the last list stays in
// force. The Fleet tries again after a pause of 1 to 5 s and begins with a complete and
// consistent list, so that what was deleted meanwhile is found out.
package kubernetes
