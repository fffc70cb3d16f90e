package jinja

// control says how a statement ended.
type control uint8

const (
	goOn control = iota
	breakLoop
	continueLoop
)

// stmt is an executable statement.
type stmt interface {
	exec(st *state) (control, error)
}

// expr is an executable expression.
type expr interface {
	eval(st *state) (Value, error)
}

func (st *state) run(body []stmt) (control, error) {
	for _, s := range body {
		if ctl, err := s.exec(st); err != nil || ctl != goOn {
			return ctl, err
		}
	}
	return goOn, nil
}

type textStmt string

func (s textStmt) exec(st *state) (control, error) { return goOn, st.write(string(s)) }

type outputPart struct {
	text string
	expr expr // nil: text
	line int
}

type outputStmt struct {
	line  int
	parts []outputPart
}

func (s *outputStmt) exec(st *state) (control, error) {
	if err := st.step(len(s.parts)); err != nil {
		return goOn, err
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.expr == nil {
			if err := st.write(p.text); err != nil {
				return goOn, err
			}
			continue
		}
		if err := st.printExpr(p.expr); err != nil {
			return goOn, atLine(err, p.line)
		}
	}
	return goOn, nil
}

// printer is an expression that can be written without making its value first.
type printer interface {
	print(st *state) error
}

// printExpr writes str of what x yields.
func (st *state) printExpr(x expr) error {
	if p, ok := x.(printer); ok {
		return p.print(st)
	}
	v, err := x.eval(st)
	if err != nil {
		return err
	}
	return st.print(v)
}

// print writes str(v).
func (st *state) print(v Value) error {
	switch v := v.(type) {
	case String:
		return st.write(string(v))
	case markup:
		return st.write(string(v))
	case *Undefined:
		return nil
	default:
		s, err := st.str(v)
		if err != nil {
			return err
		}
		return st.write(s)
	}
}

type ifBranch struct {
	line int
	test expr
	body []stmt
}

type ifStmt struct {
	branches []ifBranch
	orelse   []stmt
}

func (s *ifStmt) exec(st *state) (control, error) {
	for i := range s.branches {
		b := &s.branches[i]
		if err := st.step(1); err != nil {
			return goOn, atLine(err, b.line)
		}
		ok, err := st.test(b.test)
		if err != nil {
			return goOn, atLine(err, b.line)
		}
		if ok {
			return st.run(b.body)
		}
	}
	return st.run(s.orelse)
}

// test evaluates x as a condition.
func (st *state) test(x expr) (bool, error) {
	v, err := x.eval(st)
	if err != nil {
		return false, err
	}
	return st.truth(v)
}

type (
	breakStmt    struct{}
	continueStmt struct{}
)

func (breakStmt) exec(*state) (control, error)    { return breakLoop, nil }
func (continueStmt) exec(*state) (control, error) { return continueLoop, nil }

type withStmt struct {
	line    int
	enter   []scopeEntry
	targets []target
	values  []expr
	body    []stmt
	leave   []int
}

func (s *withStmt) exec(st *state) (control, error) {
	st.enter(s.enter)
	for i, t := range s.targets {
		v, err := s.values[i].eval(st)
		if err == nil {
			err = t.assign(st, v)
		}
		if err != nil {
			return goOn, atLine(err, s.line)
		}
	}
	ctl, err := st.run(s.body)
	if ctl == goOn && err == nil {
		st.leave(s.leave)
	}
	return ctl, err
}

// capturedFilter applies filters to the output of a block. input is shared by all
// renders, so the text is passed through the state's stack of inputs.
type capturedFilter struct {
	input  *inputExpr
	filter expr
}

// inputExpr stands for the text that a filter block filters.
type inputExpr struct{}

func (*inputExpr) eval(st *state) (Value, error) { return st.inputs[len(st.inputs)-1], nil }

func (f *capturedFilter) apply(st *state, text string) (Value, error) {
	st.inputs = append(st.inputs, String(text))
	v, err := f.filter.eval(st)
	st.inputs = st.inputs[:len(st.inputs)-1]
	return v, err
}

type filterBlockStmt struct {
	line   int
	enter  []scopeEntry
	body   []stmt
	filter *capturedFilter
	leave  []int
}

func (s *filterBlockStmt) exec(st *state) (control, error) {
	st.enter(s.enter)
	text, ctl, err := st.captureBody(s.body)
	if err != nil || ctl != goOn {
		return ctl, err
	}
	v, err := s.filter.apply(st, text)
	if err == nil {
		err = st.printRaw(v)
	}
	if err != nil {
		return goOn, atLine(err, s.line)
	}
	st.leave(s.leave)
	return goOn, nil
}

// printRaw writes what Python would join without str(): it has to be a string.
func (st *state) printRaw(v Value) error {
	s, ok := asString(v)
	if !ok {
		return raise(typeError, "expected str instance, %s found", v.typeName())
	}
	return st.write(s)
}

// captureBody runs body and returns what it wrote. A break or continue out of the
// body loses it.
func (st *state) captureBody(body []stmt) (string, control, error) {
	mark := len(st.out)
	ctl, err := st.run(body)
	if err != nil || ctl != goOn {
		st.out = st.out[:mark]
		return "", ctl, err
	}
	text, err := st.take(mark)
	return text, goOn, err
}

type blockLocal struct {
	name string
	ref  varRef
}

type blockStmt struct {
	line             int
	name             string
	required, scoped bool
	locals           []blockLocal
}

func (s *blockStmt) exec(st *state) (control, error) {
	if s.required {
		return goOn, atLine(raise(otherError, "required block %q not found", s.name), s.line)
	}
	if err := st.call(); err != nil {
		return goOn, atLine(err, s.line)
	}
	outer, tops := st.frame, st.tops
	if s.scoped {
		st.tops = &contextVars{vars: map[string]Value{}, parent: tops}
		for _, l := range s.locals {
			if v := st.get(l.ref); v != nil {
				st.tops.vars[l.name] = v
			}
		}
	}
	b := st.code.blocks[s.name]
	st.frame = b.fn.newFrame(nil)
	st.enter(b.enter)
	_, err := st.run(b.body)
	st.frame, st.tops = outer, tops
	st.depth--
	return goOn, err
}
