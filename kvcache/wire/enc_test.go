package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// obj is a map that keeps its keys' order: name, value, name, value...
type obj []any

// arr is an array.
type arr []any

// raw is bytes that are encoded already.
type raw []byte

// pack encodes v as msgpack in the fewest bytes, as the engines do. It is
// written apart from the reader, so that a mistake in one shows.
func pack(v any) []byte { return appendValue(nil, v) }

func appendValue(b []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(b, 0xc0)
	case bool:
		if x {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case int:
		return appendInt(b, int64(x))
	case int64:
		return appendInt(b, x)
	case uint64:
		return appendUint(b, x)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(x))
	case string:
		b = appendLen(b, len(x), 0xa0, 32, 0xd9, 0xda, 0xdb)
		return append(b, x...)
	case []byte:
		b = appendLen(b, len(x), 0, 0, 0xc4, 0xc5, 0xc6)
		return append(b, x...)
	case raw:
		return append(b, x...)
	case arr:
		b = appendLen(b, len(x), 0x90, 16, 0, 0xdc, 0xdd)
		for _, e := range x {
			b = appendValue(b, e)
		}
		return b
	case obj:
		b = appendLen(b, len(x)/2, 0x80, 16, 0, 0xde, 0xdf)
		for _, e := range x {
			b = appendValue(b, e)
		}
		return b
	default:
		panic(fmt.Sprintf("pack: %T", v))
	}
}

func appendInt(b []byte, x int64) []byte {
	switch {
	case x >= 0:
		return appendUint(b, uint64(x))
	case x >= -32:
		return append(b, byte(x))
	case x >= math.MinInt8:
		return append(b, 0xd0, byte(x))
	case x >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(x))
	case x >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(x))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(x))
	}
}

func appendUint(b []byte, x uint64) []byte {
	switch {
	case x < 0x80:
		return append(b, byte(x))
	case x <= math.MaxUint8:
		return append(b, 0xcc, byte(x))
	case x <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(x))
	case x <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(x))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), x)
	}
}

func appendLen(b []byte, n int, fix byte, fixMax int, l8, l16, l32 byte) []byte {
	switch {
	case n < fixMax:
		return append(b, fix|byte(n))
	case n <= math.MaxUint8 && l8 != 0:
		return append(b, l8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, l16), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(b, l32), uint32(n))
	}
}

// tokens returns first, first+1, ... as an array.
func tokens(first, n int) arr {
	a := make(arr, n)
	for i := range a {
		a[i] = first + i
	}
	return a
}

func ids(first, n int) []uint32 {
	a := make([]uint32, n)
	for i := range a {
		a[i] = uint32(first + i)
	}
	return a
}
