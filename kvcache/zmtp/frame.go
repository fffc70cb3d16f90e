package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame flags, ZMTP 3.1 section 3.2.
const (
	flagMore    = 0x01
	flagLong    = 0x02
	flagCommand = 0x04
	flagKnown   = flagMore | flagLong | flagCommand
)

const (
	// maxHeader is the length of flags and a long size.
	maxHeader = 9
	// maxShort is the longest body whose size fits one byte.
	maxShort = 0xff
	// maxCommand bounds a command's body, in bytes: subscriptions, metadata and
	// heartbeats are short.
	maxCommand = 64 << 10
	// growStep is how much of a frame is allocated on the word of its sender;
	// the rest as the bytes arrive.
	growStep = 1 << 20
)

// errProtocol is wrapped by every error that means the peer doesn't speak ZMTP
// as we understand it.
var errProtocol = errors.New("zmtp: protocol error")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, args...))
}

// readFrame reads one frame of at most limit bytes of body (commands: at most
// maxCommand). The body is freshly allocated.
func readFrame(r *bufio.Reader, limit int64) (flags byte, body []byte, err error) {
	flags, err = r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	if flags&^flagKnown != 0 {
		return 0, nil, protocolError("reserved flags %#x", flags)
	}
	if flags&flagCommand != 0 {
		if flags&flagMore != 0 {
			return 0, nil, protocolError("command in parts")
		}
		limit = min(limit, maxCommand)
	}
	size, err := readSize(r, flags&flagLong != 0)
	if err != nil {
		return 0, nil, unexpected(err)
	}
	if limit < 0 || size > uint64(limit) {
		return 0, nil, protocolError("frame of %d bytes exceeds the limit of %d", size, limit)
	}
	body, err = readBody(r, int(size)) // size <= limit, which fits an int
	return flags, body, err
}

func readSize(r *bufio.Reader, long bool) (uint64, error) {
	if !long {
		b, err := r.ReadByte()
		return uint64(b), err
	}
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(size[:]), nil
}

// readBody reads size bytes, allocating no more than twice what has arrived.
func readBody(r *bufio.Reader, size int) ([]byte, error) {
	body := make([]byte, min(size, growStep))
	got := 0
	for {
		n, err := io.ReadFull(r, body[got:])
		got += n
		if err != nil {
			return nil, unexpected(err)
		}
		if got == size {
			return body, nil
		}
		grown := make([]byte, min(size, 2*len(body)))
		copy(grown, body)
		body = grown
	}
}

// unexpected turns an end of file within a frame into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendHeader appends a frame's flags and size.
func appendHeader(dst []byte, flags byte, size int) []byte {
	if size <= maxShort {
		return append(dst, flags, byte(size))
	}
	return binary.BigEndian.AppendUint64(append(dst, flags|flagLong), uint64(size))
}

// appendFrame appends a whole frame.
func appendFrame(dst []byte, flags byte, body []byte) []byte {
	return append(appendHeader(dst, flags, len(body)), body...)
}

// encodeMessage encodes a multipart message.
func encodeMessage(frames ...[]byte) []byte {
	size := 0
	for _, f := range frames {
		size += maxHeader + len(f)
	}
	dst := make([]byte, 0, size)
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		dst = appendFrame(dst, flags, f)
	}
	return dst
}
