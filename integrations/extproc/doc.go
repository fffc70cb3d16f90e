// Package extproc is an Envoy external processor that sends each request to the worker
// which a [kvsteer.Router] chooses. It speaks the Endpoint Picker protocol of the Gateway
// API Inference Extension, so it serves a bare Envoy as well as a Kubernetes Gateway.
//
//	srv := extproc.New(router, extproc.Options{Ready: func() bool { return workers.Snapshot().Routable() > 0 }})
//	err := srv.Serve(ctx, listener, extproc.ServeOptions{})
//
// or, on a gRPC server of your own, [Server.Register] and [Server.GRPCOptions].
//
// # A request
//
// Envoy sends its headers and body. The server answers with the header
// x-gateway-destination-endpoint, and the same text as dynamic metadata envoy.lb of that
// key: "ip:port" of the chosen worker, then those of the alternatives in order, separated
// by commas. Errors of the router become immediate responses in the dialect of the path,
// as [kvsteer.WriteError] has them, but for saturation, which is a 429 here. Requests
// without a prompt go to the least loaded worker, GET /v1/models is answered at once.
//
// A subset in the metadata envoy.lb.subset_hint narrows the choice; if it is empty, or none
// of it can serve, the answer is a 503.
//
// # An answer
//
// passes unchanged, but for a usage chunk that only the router asked for. The first token,
// the usage and the end are read from it. Which endpoint answered is read from the metadata
// envoy.lb x-gateway-destination-endpoint-served, or from the attribute upstream.address.
// If it is another one than the first choice the booking moves there, and nothing is
// learned from the request; see [kvsteer.Selection.Moved].
//
// Envoy does not say why an answer ends early. So the client's leaving and the worker's
// breaking off look alike: the request is released, and the worker is not blamed for it.
//
// # Modes
//
// Bodies of requests come FULL_DUPLEX_STREAMED or BUFFERED, those of answers in any mode
// but GRPC; their headers must come, too. With NONE for answers no usage is known, nor
// asked for. Upgrades are refused, for their bodies have no end. How Envoy is configured is in its first
// message (since 1.34); before that FULL_DUPLEX_STREAMED is assumed. docs/envoy.md has
// configurations, limits and what goes wrong.
package extproc
