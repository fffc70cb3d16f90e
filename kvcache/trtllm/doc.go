// Package trtllm brings TensorRT-LLM's KV-cache events to a [follow.Follower].
//
// TensorRT-LLM publishes nothing: it keeps events in a buffer of
// event_buffer_max_size, and POST /kv_cache_events takes all of them out. A
// [Transport] polls that endpoint and hands each event on as a [follow.Message]
// whose number is the event's id; a [Decoder] reads them. The Follower's rules
// for gaps, restarts and trust then hold as for engines that stream.
//
//	follow.Start(ctx, follow.Config{
//		Transport: new(trtllm.Transport),
//		Decoder:   &trtllm.Decoder{TokensPerBlock: 32},
//		Endpoint:  follow.Endpoint{Events: "http://10.0.0.7:8000"},
//		...
//	})
//
// # One consumer
//
// What one consumer has taken no other one sees. Two routers that poll the same
// engine each find gaps in the numbers, drop what they know, and never become
// exact; so does a router beside a monitoring script. Give each engine one
// consumer. Within one Transport, a second connection to the same rank is
// refused with [ErrConsumed].
//
// # Trust
//
// There is no replay. What that leaves of the Follower's states:
//
//	first id 0 (the "created" event)   exact: everything was seen
//	first id above 0                   a lower bound: what came before is unknown
//	ids go on                          as before
//	ids skip                           events were lost, by the engine's buffer or to
//	                                   another consumer: what is known is dropped, and
//	                                   what comes after is a lower bound
//	ids fall                           the engine restarted: what is known is dropped;
//	                                   exact if the new ids begin at 0
//	polls fail for Patience            disconnected: kept in doubt for the Follower's
//	                                   StaleAfter, dropped at the next event
//
// A poll that fails before the engine can have read it has taken nothing out and
// is repeated. One whose answer was cut off may have taken out events that nobody
// will see: if the next id goes on, nothing is missing; if it skips, that is a
// gap; if none comes within Patience the connection counts as lost, for what is
// missing might be the latest events of an engine now idle.
//
// The answers of a restarted engine can be byte for byte those of the process
// before, since ids begin at 0 again, hashes are the same in each process, and
// events carry no time. Payloads therefore get a first member, "kvsteer_epoch",
// that differs after each restart.
//
// A router that takes a restarted engine for another instance closes the former's
// connection and dials anew, and the engine's first events may have come to the
// former. With [Transport.Linger] they are handed on.
//
// # Data-parallel ranks
//
// With attention data parallelism one endpoint serves all ranks, each with ids of
// its own. List it once for each rank, with the same address, and dial all of
// them on one Transport: it polls once and sorts the answers. Events without a
// rank belong to rank 0, or to the only connection there is.
//
// # Not told by the engine
//
// Versions that do not report lora_id let blocks of an adapter look like the base
// model's. Where adapters are served from such a version, set block reuse off for
// them or expect predictions for the base model that are too high; the router
// compares them with the cached tokens that the engine reports.
//
// # Resources
//
// Each polled address costs one goroutine while a connection to it is open, and for
// Linger after that; Close of the last one, or of the Transport, ends it and waits. The memory is bounded by MaxReply for an
// answer and again for the events of each rank that nobody has received yet; with Linger, also by 8 MiB for each rank's
// first minute, which is packed.
package trtllm
