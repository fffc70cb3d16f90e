package fleettest

import (
	"encoding/binary"
	"math"
)

// packer writes msgpack as the engines' encoder does: integers in their least
// width, floats in eight bytes, strings and binaries with the shortest header.
type packer struct{ b []byte }

// First bytes of msgpack values.
const (
	packNil      = 0xc0
	packBin8     = 0xc4
	packFloat64  = 0xcb
	packUint8    = 0xcc
	packInt8     = 0xd0
	packStr8     = 0xd9
	packArray16  = 0xdc
	packMap16    = 0xde
	packFixStr   = 0xa0
	packFixArray = 0x90
	packFixMap   = 0x80

	maxFixInt    = 0x7f
	minFixInt    = -32
	maxFixStr    = 31
	maxFixLength = 15
)

func (p *packer) null() { p.b = append(p.b, packNil) }

func (p *packer) float(f float64) {
	p.b = append(p.b, packFloat64)
	p.b = binary.BigEndian.AppendUint64(p.b, math.Float64bits(f))
}

func (p *packer) uint(v uint64) {
	switch {
	case v <= maxFixInt:
		p.b = append(p.b, byte(v))
	case v <= math.MaxUint8:
		p.b = append(p.b, packUint8, byte(v))
	case v <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, packUint8+1), uint16(v))
	case v <= math.MaxUint32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, packUint8+2), uint32(v))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, packUint8+3), v)
	}
}

func (p *packer) int(v int64) {
	switch {
	case v >= 0:
		p.uint(uint64(v))
	case v >= minFixInt:
		p.b = append(p.b, byte(v))
	case v >= math.MinInt8:
		p.b = append(p.b, packInt8, byte(v))
	case v >= math.MinInt16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, packInt8+1), uint16(v))
	case v >= math.MinInt32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, packInt8+2), uint32(v))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, packInt8+3), uint64(v))
	}
}

func (p *packer) str(s string) {
	switch n := len(s); {
	case n <= maxFixStr:
		p.b = append(p.b, packFixStr|byte(n))
	case n <= math.MaxUint8:
		p.b = append(p.b, packStr8, byte(n))
	case n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, packStr8+1), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, packStr8+2), uint32(n))
	}
	p.b = append(p.b, s...)
}

func (p *packer) bin(b []byte) {
	p.b = append(p.b, packBin8, byte(len(b)))
	p.b = append(p.b, b...)
}

func (p *packer) array(n int) { p.header(n, packFixArray, packArray16) }

func (p *packer) dict(n int) { p.header(n, packFixMap, packMap16) }

func (p *packer) header(n int, fix, wide byte) {
	switch {
	case n <= maxFixLength:
		p.b = append(p.b, fix|byte(n))
	case n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, wide), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, wide+1), uint32(n))
	}
}
