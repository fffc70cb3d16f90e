package zmtp

import (
	"io"
	"strings"
)

// The greeting, ZMTP 3.1 section 3.1: signature, version, mechanism, role,
// filler.
const (
	greetingSize  = 64
	signatureSize = 10
	mechanismAt   = 12
	mechanismEnd  = 32

	versionMajor = 3
	versionMinor = 1

	// minorCommands is the first minor version in which subscriptions and
	// heartbeats are commands.
	minorCommands = 1
)

// greeting returns what both sides send first.
func greeting() []byte {
	g := make([]byte, greetingSize)
	// libzmq sends a length of 1 in the padding so that ZMTP 1 peers see a
	// frame; the protocol lets it be anything.
	g[0], g[8], g[9] = 0xff, 1, 0x7f
	g[signatureSize], g[signatureSize+1] = versionMajor, versionMinor
	copy(g[mechanismAt:], "NULL")
	return g
}

// readGreeting reads the peer's greeting and returns its minor version. It fails
// as soon as the bytes can't be one, not after 64 bytes: an older or foreign
// peer may never send so many.
func readGreeting(r io.Reader) (minor int, err error) {
	var g [greetingSize]byte
	if _, err := io.ReadFull(r, g[:1]); err != nil {
		return 0, err
	}
	if g[0] != 0xff {
		return 0, protocolError("peer does not speak ZMTP (first byte %#x); is this the event port?", g[0])
	}
	if _, err := io.ReadFull(r, g[1:signatureSize+1]); err != nil {
		return 0, unexpected(err)
	}
	if g[signatureSize-1]&1 == 0 || g[signatureSize] < versionMajor {
		return 0, protocolError("peer speaks a ZMTP older than 3.0; the engine needs libzmq 4 or later")
	}
	if _, err := io.ReadFull(r, g[signatureSize+1:]); err != nil {
		return 0, unexpected(err)
	}
	mechanism := strings.TrimRight(string(g[mechanismAt:mechanismEnd]), "\x00")
	if mechanism != "NULL" {
		return 0, protocolError("peer wants security mechanism %.20q; only NULL is supported", mechanism)
	}
	if g[signatureSize] > versionMajor {
		return versionMinor, nil // a later major version must speak ours
	}
	return int(g[signatureSize+1]), nil
}
