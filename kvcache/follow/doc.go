// Package follow keeps a [kvcache.Index] in step with an engine's event stream.
//
// A [Transport] delivers numbered messages; a [Follower] owns one endpoint of
// one worker, decodes each message, applies it, and decides what a gap, a
// restart or a late start means for the owner's [kvcache.Trust]. Transports know
// sockets and nothing of caches; the Follower knows sequence numbers and nothing
// of sockets. A [Hub] is a transport within the process.
//
// # What a Follower knows
//
// Engines number their messages from 0 and keep the latest for replays. Both the
// live stream and replays can leave out messages; neither reorders them. From
// this follow the rules:
//
//   - A message is applied when its number is the next one, and never twice.
//   - The connection is made first and the replay asked for then, so that what
//     is published meanwhile waits in the transport; what came both ways is
//     recognised by number and content. A connection that takes long, or can't
//     be made at all, does not keep replays from being used, but nothing is
//     exact before a replay that began when it stood.
//   - Every replay begins at messages that were applied already. The publisher
//     has to return them unchanged: that proves that it is the same process,
//     since payloads carry the time, and that nothing was missed before. A
//     replay is asked for at the start and a second later, at a gap, after a
//     reconnection, when a number falls, and every CheckEvery, which finds last
//     messages that were lost with nothing after them and restarts that nobody
//     reported. A publisher whose memory is full of messages that still wait in
//     the transport is asked again once they have been applied.
//   - Where the index says up to which message it is, as after a snapshot was
//     imported, that message takes the place of a replay of everything: if the
//     publisher still has it, unchanged, only what came after is applied.
//   - When content is lost for good, everything known before is dropped: the
//     lost messages may have removed any of it. What comes after is a lower
//     bound. It is complete again once the engine clears its cache or restarts.
//
// # States
//
//	state           trust       reason              left by
//	-------------   ---------   -----------------   --------------------------------------------
//	taken over      as before   starting            proof: exact, or as it was left; another
//	                                                publisher: what is known is dropped, then
//	                                                as from starting
//	                            replay unanswered   replay answered; first message
//	starting        blind       starting            first replay answered: exact, or history
//	                                                wrapped if it does not reach back to 0
//	                            replay unanswered   first message, replay answered
//	                            no replay address   first message: exact if it is number 0
//	                            not connected       connection
//	replays only    resyncing   not connected       connection, and a proof after it: as before
//	following       exact                           everything below
//	gap             resyncing   gap                 replay closes it: as before; answered and
//	                                                not closed: messages lost; unanswered: replay
//	                                                unanswered (the two drop what is known)
//	proof fails     resyncing   starting            what is known is dropped, everything is
//	                                                replayed: as from starting
//	disconnected    resyncing   disconnected        proof after reconnecting: as before
//	                blind       stale               after StaleAfter, when what is known is
//	                                                dropped; left as starting
//	lower bound     resyncing   history wrapped     cleared by the engine, or restart: exact;
//	                            messages lost       Promote: exact; Resync: as from starting
//	                            no replay address
//	                            undecodable message
//	                            malformed event
//	                            refused by the index
//	                            conflicting sequence numbers
//	                            incomplete snapshot the same; a replay that reaches back to 0
//	short           resyncing   evicted by budget,  removals of all that is missing, clear or
//	                            and others of the   restart: exact; a replay, if that reaches
//	                            index's own bounds  back to 0 and there is room: exact
//	guess           approximate attention of        clear or restart; all is known that events
//	                            unknown kind        say, and not what the engine can use of it
//	doubt           resyncing   replay unanswered   a replay that is answered: exact
//	closed          blind       closed
//
// Without a replay address nothing can be proven: a gap or a reconnection drops
// what is known, and only number 0 or a clear makes it complete. A publisher
// that has published nothing is exact and empty; one that keeps nothing for
// replays (vLLM's buffer_steps 0) looks the same until its first message.
//
// While disconnected what is known is kept, because most disconnections are
// short and the proof tells afterwards. Removals may be missed meanwhile, so it
// is neither exact nor a lower bound, and it is dropped when the disconnection
// lasts.
//
// Resync replays everything when somebody else finds the index wrong. Both it and
// the replays that make up for the index's own bounds keep a distance of
// ResyncEvery, and the latter become rarer each time that they were of no use.
//
// # Bounds
//
// A Follower has one goroutine and about 30 KiB of its own. It buffers no
// messages: while a replay runs live ones wait in the transport, whose buffer is
// bounded; what it drops shows as a gap. Every wait has a deadline or ends with
// Close.
package follow
