// Package eventstream is what the event transports have in common: the meaning
// of a multipart message, the addresses they accept, the bounded buffer between
// a socket and its reader, and the [follow.Conn] around them. Packages zmtp and
// kvcache/zmq supply only the socket, so that the two can't drift apart.
package eventstream
