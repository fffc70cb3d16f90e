package canary

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// failed remembers that a test would have failed.
type failed struct {
	testing.TB

	errs int
	last func()
}

func (*failed) Helper()                 {}
func (f *failed) Errorf(string, ...any) { f.errs++ }
func (f *failed) Cleanup(last func())   { f.last = last }

type opaque struct{ inner error }

func (opaque) Error() string   { return "opaque" }
func (o opaque) Unwrap() error { return o.inner }

// A canary is found wherever it comes out, once for each place and field.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	for name, leak := range map[string]func(c *Canary){
		"text":           func(c *Canary) { c.Text("here", "a "+c.In("prompt")) },
		"upper case":     func(c *Canary) { c.Text("here", "a C4N4RY7F3AXKEYX") },
		"wrapped":        func(c *Canary) { c.Error("here", opaque{fmt.Errorf("a: %w", opaque{errors.New(c.In("key"))})}) },
		"joined":         func(c *Canary) { c.Error("here", errors.Join(errors.New("a"), opaque{errors.New(c.In("key"))})) },
		"a field of one": func(c *Canary) { c.JSON("here", struct{ a string }{c.In("key")}) },
		"a log":          func(c *Canary) { c.Logger().Debug("a", "b", c.In("key")) },
	} {
		f := &failed{}
		c := New(f)
		leak(c)
		leak(c)
		f.last()
		require.Equal(t, 1, f.errs, name)
	}
	f := &failed{}
	c := New(f)
	c.Error("here", opaque{errors.New("fine")})
	c.Error("here", nil)
	c.JSON("here", map[string]int{"a": 1})
	c.Logger().Info("fine")
	require.Equal(t, 1, c.Lines())
	f.last()
	require.Zero(t, f.errs)
}
