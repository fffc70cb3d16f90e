// Package kvcache knows which worker holds which KV-cache block.
//
// It has three parts. A [Hasher] turns token ids into a chain of block keys of
// our own: 64-bit, independent of the engine, its version and its hash seed. An
// [Index] records, for every [Owner] (one data-parallel rank of one worker
// instance), which keys are resident and in which [Tier], and answers how many
// consecutive leading blocks of a prompt each owner holds. Every owner has a
// [Trust] state that says how far that answer can be relied on.
//
// # How much it costs
//
// A match looks at each piece of up to 512 blocks that a prompt is stored in
// once, whatever the number of blocks and of owners that hold them, and takes no
// lock. A pair of owner and block takes 20 to 40 bytes when prompts are long; the
// whole index has one budget, [Options.MaxBytes], which is kept at all times.
//
// # What to expect at the bounds
//
// At the budget the coldest blocks leave: those beyond the part of a prompt that
// has been matched lately. Blocks that do not fit even so are refused with
// [ReasonBudget], orphans beyond [Options.MaxOrphans] with [ReasonOrphanBound],
// and bookings beyond [Options.MaxProvisional] push out the oldest. Each is
// counted in [Stats] and, when an event caused it, in its [Outcome]. What is known
// of an owner is then a lower bound, never too much, and nobody is told otherwise:
// [Index.Short] gives the reason, and [Index.Trust] is no better than [Resyncing],
// until the owner is cleared and its events are applied anew, or its engine has
// removed what was lost.
//
// # Snapshots
//
// [Index.Export] and [Index.Import] carry what is known to a new replica, which
// then starts warm. What came from a snapshot is never trusted; but a follower that
// finds a [Position] there can prove that it still holds, and go on from it.
//
// The package opens no socket and starts no goroutine. Events reach it already
// decoded (package wire) and in order (package follow).
package kvcache
