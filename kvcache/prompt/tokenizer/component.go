package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/rx"
)

// A component is one JSON object of the file, read field by field. Every field must be
// asked for: one that nobody knows might change what the component does. The first error
// sticks.
type component struct {
	path  string
	kind  string
	value *jsontree.Value
	known map[string]bool
	err   error
}

// maxComponents bounds what a file may ask for. Real ones have a dozen.
const maxComponents = 200

// component opens the object at a path. Without a type it is an error.
func (l *loader) component(path string, v *jsontree.Value) *component {
	c := &component{path: path, value: v, known: map[string]bool{"type": true}}
	if l.components++; l.components > maxComponents {
		c.refusef("more than %d components", maxComponents)
		return c
	}
	if v.Kind != jsontree.Object {
		c.fail(malformedf(path, "expected an object"))
		return c
	}
	kind := v.Get("type")
	if kind == nil || kind.Kind != jsontree.String {
		c.fail(unsupportedf(path, "a component without a type"))
		return c
	}
	c.kind = kind.Text
	return c
}

func (c *component) fail(err error) {
	if c.err != nil {
		return
	}
	var e *LoadError
	if errors.As(err, &e) && e.Type == "" && e.Path == c.path {
		e.Type = c.kind
	}
	c.err = err
}

func (c *component) refusef(format string, args ...any) {
	c.fail(unsupportedf(c.path, format, args...))
}

// done returns the first error, or one about a field that nobody asked for.
func (c *component) done() error {
	for _, m := range c.value.Members {
		if !c.known[m.Key] {
			c.refusef("unknown field %q", m.Key)
		}
	}
	return c.err
}

// get returns a field, nil if it is absent.
func (c *component) get(name string) *jsontree.Value {
	c.known[name] = true
	return c.value.Get(name)
}

func (c *component) need(name string, kind jsontree.Kind) *jsontree.Value {
	v := c.get(name)
	if v == nil || v.Kind != kind {
		c.fail(malformedf(c.path, "field %q is missing or of another type", name))
		return &jsontree.Value{Kind: kind}
	}
	return v
}

func (c *component) text(name string) string { return c.need(name, jsontree.String).Text }

func (c *component) flag(name string) bool { return c.need(name, jsontree.Bool).Bool }

// optionalFlag reads a boolean that may be absent or null.
func (c *component) optionalFlag(name string, fallback bool) bool {
	if v := c.get(name); v == nil || v.Kind == jsontree.Null {
		return fallback
	}
	return c.flag(name)
}

// optionalText reads a string that may be absent or null.
func (c *component) optionalText(name string) string {
	if v := c.get(name); v == nil || v.Kind == jsontree.Null {
		return ""
	}
	return c.text(name)
}

func (c *component) number(name string) uint32 {
	v := c.need(name, jsontree.Number)
	const bits = 32
	n, err := strconv.ParseUint(v.Text, 10, bits)
	if err != nil && c.err == nil {
		c.fail(malformedf(c.path, "field %q isn't an integer from 0 to %d", name, uint32(math.MaxUint32)))
	}
	return uint32(n)
}

// items calls f with each element of a list and its path.
func (c *component) items(name string, f func(path string, v *jsontree.Value) error) {
	list := c.need(name, jsontree.Array)
	for i := range list.Items {
		if c.err != nil {
			return
		}
		if err := f(fmt.Sprintf("%s.%s[%d]", c.path, name, i), &list.Items[i]); err != nil {
			c.fail(err)
		}
	}
}

// pattern reads a field that is {"String": ...} or {"Regex": ...}.
func (c *component) pattern(name string, rc *rx.Compiler) (literal []byte, re *rx.Regexp) {
	v := c.need(name, jsontree.Object)
	if len(v.Members) != 1 || v.Members[0].Value.Kind != jsontree.String {
		c.fail(malformedf(c.path, "field %q is no pattern", name))
		return nil, nil
	}
	text := v.Members[0].Value.Text
	switch key := v.Members[0].Key; {
	case text == "":
		c.refusef("an empty pattern")
	case key == "String":
		return []byte(text), nil
	case key == "Regex":
		re, err := rc.Add(text)
		if err != nil {
			c.refusef("%v", err)
		}
		return nil, re
	default:
		c.refusef("a pattern of kind %q", key)
	}
	return nil, nil
}
