package wire

import (
	"encoding/binary"
	"math"
)

// kind is the type of a msgpack value.
type kind uint8

const (
	kindInvalid kind = iota // truncated, or the one byte msgpack reserves
	kindNil
	kindBool
	kindUint
	kindInt // negative
	kindFloat
	kindStr
	kindBin
	kindArray
	kindMap
	kindExt
)

// head is a value's first bytes: a whole scalar, or the length of what follows.
type head struct {
	kind kind
	// n is the value (kindUint), its two's complement (kindInt), its IEEE bits
	// (kindFloat), or the number of bytes, elements or pairs that follow.
	n uint64
}

// The first bytes of msgpack values; those not named are folded in by range.
const (
	mpMapMin   = 0x80
	mpArrayMin = 0x90
	mpStrMin   = 0xa0
	mpNil      = 0xc0
	mpReserved = 0xc1
	mpFalse    = 0xc2
	mpTrue     = 0xc3
	mpBin8     = 0xc4
	mpBin16    = 0xc5
	mpBin32    = 0xc6
	mpExt8     = 0xc7
	mpExt16    = 0xc8
	mpExt32    = 0xc9
	mpFloat32  = 0xca
	mpFloat64  = 0xcb
	mpUint8    = 0xcc
	mpUint16   = 0xcd
	mpUint32   = 0xce
	mpUint64   = 0xcf
	mpInt8     = 0xd0
	mpInt16    = 0xd1
	mpInt32    = 0xd2
	mpInt64    = 0xd3
	mpFixExt1  = 0xd4
	mpFixExt16 = 0xd8
	mpStr8     = 0xd9
	mpStr16    = 0xda
	mpStr32    = 0xdb
	mpArray16  = 0xdc
	mpArray32  = 0xdd
	mpMap16    = 0xde
	mpMap32    = 0xdf
	mpNegMin   = 0xe0

	mpFixMask = 0x0f
	mpStrMask = 0x1f
)

// reader walks one msgpack payload. It never looks past the end, and a length
// that the rest of the payload can't hold is an error at once, so that nothing
// is ever allocated on the word of a length alone.
type reader struct {
	b []byte
	i int
}

// left returns the number of unread bytes.
func (r *reader) left() int { return len(r.b) - r.i }

// big reads an unsigned big-endian integer of size bytes.
func (r *reader) big(size int) (uint64, bool) {
	if r.left() < size {
		return 0, false
	}
	p := r.b[r.i:]
	r.i += size
	switch size {
	case 1:
		return uint64(p[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(p)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(p)), true
	default:
		return binary.BigEndian.Uint64(p), true
	}
}

// next reads the head of the next value.
func (r *reader) next() head {
	if r.i >= len(r.b) {
		return head{}
	}
	c := r.b[r.i]
	r.i++
	switch {
	case c < mpMapMin:
		return head{kindUint, uint64(c)}
	case c < mpArrayMin:
		return r.sized(kindMap, uint64(c&mpFixMask))
	case c < mpStrMin:
		return r.sized(kindArray, uint64(c&mpFixMask))
	case c < mpNil:
		return r.sized(kindStr, uint64(c&mpStrMask))
	case c >= mpNegMin:
		return head{kindInt, uint64(int64(int8(c)))}
	}
	switch c {
	case mpNil:
		return head{kind: kindNil}
	case mpFalse, mpTrue:
		return head{kindBool, uint64(c - mpFalse)}
	case mpBin8, mpBin16, mpBin32:
		return r.length(kindBin, 1<<(c-mpBin8))
	case mpExt8, mpExt16, mpExt32:
		return r.length(kindExt, 1<<(c-mpExt8))
	case mpFloat32:
		n, ok := r.big(4)
		return scalar(kindFloat, math.Float64bits(float64(math.Float32frombits(uint32(n)))), ok)
	case mpFloat64:
		n, ok := r.big(8)
		return scalar(kindFloat, n, ok)
	case mpUint8, mpUint16, mpUint32, mpUint64:
		n, ok := r.big(1 << (c - mpUint8))
		return scalar(kindUint, n, ok)
	case mpInt8, mpInt16, mpInt32, mpInt64:
		size := 1 << (c - mpInt8)
		n, ok := r.big(size)
		shift := uint(64 - 8*size)
		v := int64(n<<shift) >> shift
		if v >= 0 {
			return scalar(kindUint, uint64(v), ok)
		}
		return scalar(kindInt, uint64(v), ok)
	case mpStr8, mpStr16, mpStr32:
		return r.length(kindStr, 1<<(c-mpStr8))
	case mpArray16, mpArray32:
		return r.length(kindArray, 2<<(c-mpArray16))
	case mpMap16, mpMap32:
		return r.length(kindMap, 2<<(c-mpMap16))
	case mpReserved:
		return head{}
	default: // mpFixExt1 to mpFixExt16
		return r.sized(kindExt, 1<<(c-mpFixExt1))
	}
}

func scalar(k kind, n uint64, ok bool) head {
	if !ok {
		return head{}
	}
	return head{k, n}
}

// length reads a length of size bytes.
func (r *reader) length(k kind, size int) head {
	n, ok := r.big(size)
	if !ok {
		return head{}
	}
	return r.sized(k, n)
}

// sized checks that the rest of the payload can hold n bytes or elements.
func (r *reader) sized(k kind, n uint64) head {
	need := n
	switch k {
	case kindMap:
		need = 2 * n // n came from 32 bits at most
	case kindExt:
		need = n + 1 // its type byte
	default:
	}
	if need > uint64(r.left()) {
		return head{}
	}
	return head{k, n}
}

// take returns the n bytes of a string or byte string whose head was read.
func (r *reader) take(n uint64) []byte {
	p := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	return p
}

// skip passes over one value with everything in it. It does not recurse: depth
// costs nothing, however deep the payload nests.
func (r *reader) skip() bool {
	for open := uint64(1); open > 0; open-- {
		h := r.next()
		switch h.kind {
		case kindInvalid:
			return false
		case kindStr, kindBin:
			r.i += int(h.n)
		case kindExt:
			r.i += int(h.n) + 1
		case kindArray:
			open += h.n
		case kindMap:
			open += 2 * h.n
		default:
		}
	}
	return true
}
