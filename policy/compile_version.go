package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"reflect"
	"slices"
)

const versionBytes = 8

// versionOf is a hash of what the specs say, in order. How they were written, the
// API version of their documents and where things stood in a file are not part of it.
func versionOf(opts Options, specs []*Spec) string {
	var c canonical
	c.value(reflect.ValueOf(labelled(opts.Models)))
	for _, spec := range specs {
		said := *spec
		said.APIVersion = ""
		c.value(reflect.ValueOf(said))
	}
	sum := sha256.Sum256(c)
	return hex.EncodeToString(sum[:versionBytes])
}

// canonical is an encoding of plain data: equal data gives equal bytes, and other data
// others. Of structs it has the exported fields that say something, by name, so that a
// field that comes with a later release and is not used changes nothing.
type canonical []byte

func (c *canonical) number(n uint64) { *c = binary.AppendUvarint(*c, n) }

func (c *canonical) text(s string) {
	c.number(uint64(len(s)))
	*c = append(*c, s...)
}

func (c *canonical) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		c.text(v.String())
	case reflect.Bool:
		c.number(uint64(verdictOf(v.Bool())))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.number(v.Uint())
	case reflect.Float64:
		c.number(math.Float64bits(v.Float()))
	case reflect.Pointer: // of a field that is set
		c.value(v.Elem())
	case reflect.Slice:
		c.number(uint64(v.Len()))
		for i := range v.Len() {
			c.value(v.Index(i))
		}
	case reflect.Map:
		c.mapping(v)
	case reflect.Struct:
		c.fields(v)
	default:
		panic("policy: a Spec holds a " + v.Kind().String() + ", of which its version knows nothing")
	}
}

func (c *canonical) mapping(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	c.number(uint64(len(keys)))
	for _, k := range keys {
		c.text(k.String())
		c.value(v.MapIndex(k))
	}
}

func (c *canonical) fields(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || silent(v.Field(i)) {
			continue
		}
		c.text(f.Name)
		c.value(v.Field(i))
	}
	c.text("") // the end
}

// silent reports whether a field says nothing. An empty list does not, whether it is
// nil or not; a pointer to zero does.
func silent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !silent(v.Field(i)) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}
