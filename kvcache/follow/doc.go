// Package follow keeps a [kvcache.Index] in step with an engine's event stream.
//
// A [Transport] delivers numbered messages; a [Follower] owns one endpoint of
// one worker, decodes each message, applies it, and decides what a gap, a
// restart or a late start means for the owner's [kvcache.Trust]. Transports know
// sockets and nothing of caches; the Follower knows sequence numbers and nothing
// of sockets.
package follow
