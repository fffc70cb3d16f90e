// Package redis shares the limits of package quota between processes: every router that
// has a [Limiter] on one Redis (7 or newer) or Valkey, with one Prefix, counts in the same
// buckets.
//
// The arithmetic is quota's, to the nanosecond: a request is decided by one script, which
// Redis runs alone, in whole numbers, on Redis's own clock. So routers that reach Redis let
// through together what one [quota.Limiter] would, however many they are and whatever their
// clocks say; what a request uses beyond its estimate is debt, as there.
//
// # When Redis can't be asked
//
// [Options.Failure] says what happens: [Deny] refuses, [Allow] lets everything through,
// [LocalShare] lets each router count by itself in buckets that are Options.Share of the
// real ones. With N routers and a Share s, no more than 1 + N·s times a limit passes then
// in any time that an outage is part of: twice, at a Share of 1/N, since the shared buckets
// may be used up before and refill meanwhile; a share is rounded down, but to 1 at least. What a request was let through with less than
// is what [quota.Hold.Degraded] says. Few requests wait for the deadline: after three
// failures in a row none asks until Redis has answered a probe.
//
// # Ends
//
// Settle and Refund don't wait for Redis: they are sent in the background, in batches,
// again until Redis says that it has them, and take effect once. Each router has a session
// in Redis, with a lease that it renews; a router that dies, or is cut off for longer than
// Options.Lease, has what it had under way counted as used as estimated, and its requests
// count no more as running. [Stats] counts ends that came too late for that.
//
// # What Redis forgets
//
// All keys begin with {Prefix}, so that they are in one slot of a Redis Cluster, and expire
// when they say nothing any more. A Redis that loses its memory (FLUSHALL, a restart without
// persistence, a failover that lost the last writes, an eviction) gives back what the
// buckets had counted: each limit lets through one Burst more, each budget begins anew. So
// set maxmemory-policy noeviction, and appendonly yes for budgets. If its clock is set back,
// nothing is lost; forward, buckets refill by it.
package redis
