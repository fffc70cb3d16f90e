package jinja

import (
	"context"
	"math"
	"time"
)

// state is one render.
type state struct {
	ctx  context.Context //nolint:containedctx // a state lives for one call of Render
	opts *Options
	vars *Dict

	out      []byte // what is being written: the result, or a macro's or block's
	base     int    // where in out the result begins: the caller's bytes are before
	frame    *frame
	args     []Value // a stack of arguments of calls under way
	resolved []Value // the template's variables by index, once looked up
	known    []bool
	tops     *contextVars // what the template has set, for blocks

	steps  int     // left
	bytes  int     // left for strings
	depth  int     // of calls
	nested int     // of values being walked
	inputs []Value // of filter blocks under way
	code   *code
	lib    *library
}

// newState prepares a render. code is nil when constants are folded.
func newState(ctx context.Context, o *Options, c *code, vars *Dict) *state {
	st := &state{ctx: ctx, opts: o, vars: vars, code: c, lib: &lib, steps: o.MaxSteps, bytes: math.MaxInt}
	if o.MaxOutput < math.MaxInt/bytesFactor {
		st.bytes = bytesFactor * o.MaxOutput
	}
	if c != nil {
		st.resolved = make([]Value, c.names)
		st.known = make([]bool, c.names)
		if len(c.blocks) > 0 {
			st.tops = &contextVars{vars: map[string]Value{}}
		}
	}
	return st
}

// contextVars are variables set at the template's top level, as blocks see them.
type contextVars struct {
	vars   map[string]Value
	parent *contextVars
}

// checkEvery is how many steps pass between two looks at the context.
const checkEvery = 1024

// bytesFactor says how much all strings of a render may have, as a multiple of
// the largest one.
const bytesFactor = 32

// step accounts for work, in steps.
func (st *state) step(n int) error {
	before := st.steps / checkEvery
	st.steps -= n
	if st.steps < 0 {
		return limit("more than %d steps", st.opts.MaxSteps)
	}
	if st.steps/checkEvery != before && st.ctx != nil {
		return st.ctx.Err()
	}
	return nil
}

// unit is how many bytes or items handled at once count as a step.
const unit = 64

// work accounts for n bytes or items read.
func (st *state) work(n int) error {
	if n < unit {
		return nil
	}
	return st.step(n / unit)
}

// compared accounts for n bytes compared or hashed, which goes faster than other
// work.
func (st *state) compared(n int) error {
	const unit = 1024
	if n < unit {
		return nil
	}
	return st.step(n / unit)
}

// hashed accounts for looking up key in a dict.
func (st *state) hashed(key Value) error {
	switch k := key.(type) {
	case String:
		return st.compared(len(k))
	case *bigInt:
		return st.step(k.v.BitLen()/unit + 1)
	default:
		return nil
	}
}

// grow accounts for a string of n bytes to be made. Call it before making it.
func (st *state) grow(n int) error {
	if n > st.opts.MaxOutput {
		return limit("string longer than %d bytes", st.opts.MaxOutput)
	}
	return st.spend(n)
}

// spend accounts for n bytes of memory.
func (st *state) spend(n int) error {
	st.bytes -= n
	if st.bytes < 0 {
		return limit("strings need more than %d bytes", bytesFactor*st.opts.MaxOutput)
	}
	return st.work(n)
}

// What a list and each of its items count for in bytes.
const (
	listSize  = 48
	valueSize = 16
)

// growItems accounts for a list of n items to be made.
func (st *state) growItems(n int) error {
	if most := st.opts.MaxOutput / valueSize; n > most {
		return limit("list longer than %d", most)
	}
	return st.spend(listSize + n*valueSize)
}

// call counts a level of nested calls.
func (st *state) call() error {
	if st.depth >= st.opts.MaxDepth {
		return limit("calls nested deeper than %d", st.opts.MaxDepth)
	}
	st.depth++
	return st.step(1)
}

// resolve looks a name up in the template's variables; nil if there is none.
func (st *state) resolve(index int, name string) Value {
	if st.tops != nil {
		for c := st.tops; c != nil; c = c.parent {
			if v, ok := c.vars[name]; ok {
				return v
			}
		}
	}
	if st.known[index] {
		return st.resolved[index]
	}
	v, ok := st.vars.Get(name)
	if !ok {
		v = global(name)
	}
	st.known[index], st.resolved[index] = true, v
	return v
}

// write appends to what is being written.
func (st *state) write(s string) error {
	if err := st.room(len(s)); err != nil {
		return err
	}
	st.out = append(st.out, s...)
	return nil
}

func (st *state) room(n int) error {
	if len(st.out)-st.base+n > st.opts.MaxOutput {
		return limit("output longer than %d bytes", st.opts.MaxOutput)
	}
	return st.work(n)
}

// capture runs f and returns what it wrote.
func (st *state) capture(f func() error) (string, error) {
	mark := len(st.out)
	if err := f(); err != nil {
		return "", err
	}
	return st.take(mark)
}

// take removes what was written since mark and returns it.
func (st *state) take(mark int) (string, error) {
	if err := st.grow(len(st.out) - mark); err != nil {
		return "", err
	}
	s := string(st.out[mark:])
	st.out = st.out[:mark]
	return s, nil
}

func (st *state) now() time.Time { return st.opts.Now() }
