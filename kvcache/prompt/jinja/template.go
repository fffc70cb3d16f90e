package jinja

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"
)

// Defaults of Options, chosen far above what real templates need for the longest
// conversations and far below what hurts a router.
const (
	defaultMaxOutput = 8 << 20
	defaultMaxSteps  = 10_000_000
	defaultMaxDepth  = 200
	maxSource        = 1 << 20
	maxNames         = 1000
)

// Options bounds a template. The zero value is good.
type Options struct {
	// MaxOutput is the largest result of a render, and the largest string, in
	// bytes; lists are bounded accordingly. All that one render makes together may
	// have 32 times as much. 0: 8 MiB.
	MaxOutput int
	// MaxSteps bounds the work of one render: statements, loop iterations, calls,
	// and one step for every 64 bytes or items handled at once. A step takes of
	// the order of 100 ns. 0: 10,000,000.
	MaxSteps int
	// MaxDepth bounds nesting: of expressions and blocks in the source, of macro
	// calls, and of the values printed. Python gives up at comparable depths. 0: 200.
	MaxDepth int
	// Now is the clock that strftime_now reads; its location is the engine's time
	// zone. nil: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.MaxOutput <= 0 {
		o.MaxOutput = defaultMaxOutput
	}
	if o.MaxSteps <= 0 {
		o.MaxSteps = defaultMaxSteps
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = defaultMaxDepth
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Format is how a template wants message content.
type Format uint8

// The formats, by vLLM's names.
const (
	StringFormat Format = iota // "string": text parts are joined before rendering
	OpenAIFormat               // "openai": the template loops over the parts itself
)

// String returns vLLM's name of the format.
func (f Format) String() string {
	if f == OpenAIFormat {
		return "openai"
	}
	return "string"
}

// Template is a compiled template. It is immutable and safe for concurrent use.
type Template struct {
	opts      Options
	code      *code
	variables []string
	format    Format
	clock     bool
}

// Compile parses source. The error is an *Error of kind Syntax, Unsupported or
// Limit. Compile needs time and memory in proportion to the source, which may have
// at most 1 MiB and 1,000 different names.
func Compile(source string, o Options) (*Template, error) {
	o = o.withDefaults()
	if len(source) > maxSource {
		return nil, limit("template longer than %d bytes", maxSource)
	}
	if !utf8.ValidString(source) {
		return nil, syntax(0, "template is not valid UTF-8")
	}
	tree, err := parse(source, o.MaxDepth)
	if err != nil {
		return nil, err
	}
	t := &Template{opts: o, format: detectFormat(tree)}
	code, c, err := compileTemplate(tree, &o)
	if err != nil {
		return nil, err
	}
	t.code, t.variables = code, c.variables()
	t.clock = slices.Contains(t.variables, "strftime_now")
	return t, nil
}

// Render appends the result for vars to dst and returns the extended slice, as
// append does; on an error it returns dst as it was given. vars is only read; nil
// is none. The result is UTF-8 unless the variables hold lone surrogates (see
// [String]).
// The error is an *Error, or ctx's error once ctx has ended.
func (t *Template) Render(ctx context.Context, dst []byte, vars *Dict) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if vars == nil {
		vars = &Dict{}
	}
	st := newState(ctx, &t.opts, t.code, vars)
	st.out, st.base = dst, len(dst)
	st.frame = t.code.fn.newFrame(nil)
	st.enter(t.code.enter)
	if _, err := st.run(t.code.body); err != nil {
		return dst, err
	}
	return st.out, nil
}

// Variables returns the names that the template reads from its variables, sorted:
// jinja2.meta.find_undeclared_variables of vLLM's environment, so raise_exception
// and strftime_now are among them where they are used.
func (t *Template) Variables() []string { return append([]string(nil), t.variables...) }

// ContentFormat returns what vLLM 0.32 detects as the content format for this
// template (its option "auto").
func (t *Template) ContentFormat() Format { return t.format }

// UsesClock reports whether the template reads strftime_now, so that its result may
// change with the day.
func (t *Template) UsesClock() bool { return t.clock }
