// Package replica is what the replicas of one gateway tell each other: the work that
// each has in flight and the prompts that it has just sent somewhere. With it each of
// them picks as if it saw all requests; without it each goes on with its own view.
//
// Here are the message, its bounds, the [Exchange] that carries it, and the [Table]
// that holds what peers have said. No sockets and no encoding: those are in
// replica/pb (protobuf) and in tenancy/redis (Redis and Valkey). Nothing that gets
// lost, doubled, late or out of order does lasting harm: amounts are absolute,
// each message is numbered, everything in flight is told anew each beat, and the
// share of a peer that is not heard of any more expires.
package replica
