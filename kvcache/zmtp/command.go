package zmtp

import (
	"encoding/binary"
	"slices"
)

// Names of the commands.
const (
	cmdReady     = "READY"
	cmdError     = "ERROR"
	cmdSubscribe = "SUBSCRIBE"
	cmdCancel    = "CANCEL"
	cmdPing      = "PING"
	cmdPong      = "PONG"
)

// Socket types as READY names them.
const (
	typeSub    = "SUB"
	typeXSub   = "XSUB"
	typePub    = "PUB"
	typeXPub   = "XPUB"
	typeDealer = "DEALER"
	typeReq    = "REQ"
	typeRouter = "ROUTER"
)

const (
	propSocketType = "Socket-Type"
	propIdentity   = "Identity"

	// ttlSize is the time to live in front of a PING's context.
	ttlSize = 2
	// maxContext is the longest context that a PING may ask back.
	maxContext = 16
	// lengthSize is the size of a metadata value's length.
	lengthSize = 4
)

// appendCommand appends a command frame.
func appendCommand(dst []byte, name string, data ...byte) []byte {
	dst = appendHeader(dst, flagCommand, 1+len(name)+len(data))
	dst = append(append(dst, byte(len(name))), name...)
	return append(dst, data...)
}

// splitCommand splits a command's body into its name and data.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 || body[0] == 0 {
		return "", nil, protocolError("command without a name")
	}
	n := int(body[0]) + 1
	return string(body[1:n]), body[n:], nil
}

// readyCommand is the READY command of a socket.
func readyCommand(socketType string) []byte {
	data := appendProperty(nil, propSocketType, socketType)
	if socketType == typeDealer || socketType == typeRouter {
		data = appendProperty(data, propIdentity, "")
	}
	return appendCommand(nil, cmdReady, data...)
}

func appendProperty(dst []byte, name, value string) []byte {
	dst = append(append(dst, byte(len(name))), name...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// peerType finds the socket type in READY's metadata.
func peerType(data []byte) (string, error) {
	found := ""
	for len(data) > 0 {
		n := int(data[0])
		if n == 0 || len(data) < 1+n+lengthSize {
			return "", protocolError("metadata cut short")
		}
		name, rest := string(data[1:1+n]), data[1+n:]
		size := binary.BigEndian.Uint32(rest)
		rest = rest[lengthSize:]
		if uint64(size) > uint64(len(rest)) {
			return "", protocolError("metadata cut short")
		}
		if equalFold(name, propSocketType) {
			found = string(rest[:size])
		}
		data = rest[size:]
	}
	return found, nil
}

// equalFold compares ASCII names; property names ignore case.
func equalFold(a, b string) bool {
	lower := func(c byte) byte {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		return c
	}
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// compatible reports whether a socket of our type may talk to one of the peer's.
func compatible(ours, peers string) bool {
	allowed := map[string][]string{
		typeSub:    {typePub, typeXPub},
		typePub:    {typeSub, typeXSub},
		typeDealer: {typeRouter},
		typeRouter: {typeDealer, typeReq},
	}
	return slices.Contains(allowed[ours], peers)
}
