package zmtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const limit = 1 << 20

func reader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

func TestFrameRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1, 254, 255, 256, 65535, growStep - 1, growStep} {
		for _, flags := range []byte{0, flagMore} {
			body := bytes.Repeat([]byte{7}, size)
			wire := appendFrame(nil, flags, body)
			gotFlags, got, err := readFrame(reader(wire), limit)
			require.NoError(t, err)
			require.Equal(t, flags, gotFlags&^flagLong)
			require.Equal(t, size > maxShort, gotFlags&flagLong != 0)
			require.True(t, bytes.Equal(body, got))
		}
	}
}

func TestFrameGrows(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), (3*growStep+16)/16)
	_, got, err := readFrame(reader(appendFrame(nil, 0, body)), int64(len(body)))
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
}

func TestFrameErrors(t *testing.T) {
	long := func(size uint64) []byte {
		return append([]byte{flagLong}, byte(size>>56), byte(size>>48), byte(size>>40), byte(size>>32),
			byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
	}
	for name, c := range map[string]struct {
		wire []byte
		want error
		text string
	}{
		"nothing":          {nil, io.EOF, ""},
		"no size":          {[]byte{0}, io.ErrUnexpectedEOF, ""},
		"half a size":      {[]byte{flagLong, 0, 0}, io.ErrUnexpectedEOF, ""},
		"half a body":      {[]byte{0, 5, 1, 2}, io.ErrUnexpectedEOF, ""},
		"reserved flag":    {[]byte{8, 0}, errProtocol, "reserved"},
		"command in parts": {[]byte{flagCommand | flagMore, 0}, errProtocol, "parts"},
		"too long":         {long(limit + 1), errProtocol, "exceeds the limit"},
		"far too long":     {long(math.MaxUint64), errProtocol, "exceeds the limit"},
		"negative":         {long(1 << 63), errProtocol, "exceeds the limit"},
		"long command": {
			append([]byte{flagLong | flagCommand}, long(maxCommand + 1)[1:]...),
			errProtocol, "exceeds the limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, body, err := readFrame(reader(c.wire), limit)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
			require.Nil(t, body)
		})
	}
	_, _, err := readFrame(reader([]byte{0, 1, 1}), -1)
	require.ErrorIs(t, err, errProtocol, "a message that has used up its limit")
}

// TestFrameDistrustsSize: a size alone makes nobody allocate.
func TestFrameDistrustsSize(t *testing.T) {
	wire := append(appendHeader(nil, 0, 200<<20), "short"...)
	before := allocated(t, func() {
		_, _, err := readFrame(reader(wire), math.MaxInt32)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	require.Less(t, before, uint64(4*growStep))
}

func allocated(t *testing.T, f func()) uint64 {
	t.Helper()
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

func TestGreeting(t *testing.T) {
	change := func(f func(g []byte)) []byte {
		g := greeting()
		f(g)
		return g
	}
	for name, c := range map[string]struct {
		wire  []byte
		minor int
		text  string
	}{
		"ours":               {greeting(), 1, ""},
		"3.0":                {change(func(g []byte) { g[11] = 0 }), 0, ""},
		"any padding":        {change(func(g []byte) { copy(g[1:9], "anything") }), 1, ""},
		"later major":        {change(func(g []byte) { g[10], g[11] = 4, 9 }), 1, ""},
		"CURVE":              {change(func(g []byte) { copy(g[12:], "CURVE") }), 0, `mechanism "CURVE"`},
		"ZMTP 2":             {[]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x02\x00"), 0, "older than 3.0"},
		"ZMTP 1":             {[]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00"), 0, "older than 3.0"},
		"HTTP":               {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), 0, "does not speak ZMTP"},
		"nothing":            {nil, 0, "EOF"},
		"cut in signature":   {greeting()[:5], 0, "unexpected EOF"},
		"cut in the filler":  {greeting()[:63], 0, "unexpected EOF"},
		"unprintable reason": {change(func(g []byte) { copy(g[12:], "\x01\x02\n\x00") }), 0, `"\x01\x02\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			minor, err := readGreeting(bytes.NewReader(c.wire))
			if c.text == "" {
				require.NoError(t, err)
				require.Equal(t, c.minor, minor)
				return
			}
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestReady(t *testing.T) {
	for _, socket := range []string{typeSub, typePub, typeDealer, typeRouter} {
		_, body, err := readFrame(reader(readyCommand(socket)), limit)
		require.NoError(t, err)
		name, data, err := splitCommand(body)
		require.NoError(t, err)
		require.Equal(t, cmdReady, name)
		got, err := peerType(data)
		require.NoError(t, err)
		require.Equal(t, socket, got)
	}
	got, err := peerType(appendProperty(appendProperty(nil, "x-other", "1"), "socket-TYPE", typePub))
	require.NoError(t, err)
	require.Equal(t, typePub, got, "property names ignore case")
	for _, data := range []string{"\x00", "\x05abc", "\x01a\x00\x00\x00\x05abcd", "\x01a\xff\xff\xff\xff", "\x01a\x00\x00"} {
		_, err := peerType([]byte(data))
		require.ErrorIs(t, err, errProtocol, "%q", data)
	}
	for _, body := range []string{"", "\x00", "\x05PING"} {
		_, _, err := splitCommand([]byte(body))
		require.ErrorIs(t, err, errProtocol, "%q", body)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, flagMore, []byte("topic")))
	f.Add(appendFrame(nil, 0, bytes.Repeat([]byte("x"), 300)))
	f.Add(appendCommand(nil, cmdPing, 0, 0, 'c'))
	f.Add(readyCommand(typeDealer))
	f.Add([]byte{flagLong, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{8, 0})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := reader(wire)
		for {
			flags, body, err := readFrame(r, 1<<12)
			if err != nil {
				if body != nil {
					t.Fatal("both an error and a body")
				}
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errProtocol) {
					t.Fatalf("unexpected error %v", err)
				}
				return
			}
			again, same, err := readFrame(reader(appendFrame(nil, flags&^flagLong, body)), 1<<12)
			if err != nil || !bytes.Equal(body, same) || again&^flagLong != flags&^flagLong {
				t.Fatalf("does not survive a round trip: %v", err)
			}
			if flags&flagCommand == 0 {
				continue
			}
			if name, data, err := splitCommand(body); err == nil && name == cmdReady {
				if _, err := peerType(data); err != nil && !errors.Is(err, errProtocol) {
					t.Fatalf("unexpected error %v", err)
				}
			}
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting())
	f.Add([]byte("HTTP/1.1 200 OK\r\n"))
	f.Add([]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x02"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		minor, err := readGreeting(bytes.NewReader(wire))
		if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
			t.Fatalf("the peer's bytes reach the error raw: %q", err)
		}
		if err == nil && (len(wire) < greetingSize || minor < 0 || minor > math.MaxUint8) {
			t.Fatalf("accepted %d bytes, minor %d", len(wire), minor)
		}
	})
}
