// Package sse splits a stream of server-sent events into events while the bytes
// pass through unchanged.
//
// A proxy has two wishes that clash: to forward exactly what the engine sent, and
// to know what it means (is this the first token, is this the usage chunk that
// nobody asked for). So every [Event] carries the raw bytes that it came from,
// and the raw bytes of all events, one after the other, are the stream. To drop
// an event is to not forward its Raw.
//
// Any split of the input gives the same events. Lines may end in LF, CR or CRLF.
package sse
