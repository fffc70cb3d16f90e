package jinja

type macroArg struct {
	name  string
	slot  int
	value expr       // the default; nil: none
	undef *Undefined // what it is without one
}

// macroCode is a compiled macro or call block.
type macroCode struct {
	name      string
	anonymous bool
	line      int
	fn        *function
	args      []macroArg
	enter     []scopeEntry
	body      []stmt

	wantsCaller, explicitCaller         bool
	callerSlot, kwargsSlot, varargsSlot int // -1: not used
}

// macro is a macro with the variables around its definition.
type macro struct {
	code  *macroCode
	outer *frame
}

func (*macro) typeName() string { return "Macro" }

type macroStmt struct {
	macro  *macroCode
	target nameTarget
}

func (s *macroStmt) exec(st *state) (control, error) {
	return goOn, s.target.assign(st, &macro{s.macro, st.frame})
}

type callBlockStmt struct {
	line  int
	macro *macroCode
	call  *callExpr // nil: a generation block, which calls its body
}

func (s *callBlockStmt) exec(st *state) (control, error) {
	caller := &macro{s.macro, st.frame}
	var v Value
	var err error
	if s.call == nil {
		v, err = caller.call(st, args{})
	} else {
		v, err = s.call.evalWith(st, caller)
	}
	if err == nil {
		err = st.printRaw(v)
	}
	if err != nil {
		return goOn, atLine(err, s.line)
	}
	return goOn, nil
}

//nolint:gochecknoglobals // a constant, but for its type
var noCaller = &Undefined{hint: "no caller defined"}

// call runs the macro and returns what it wrote.
func (m *macro) call(st *state, a args) (Value, error) {
	if err := st.call(); err != nil {
		return nil, err
	}
	f := m.code.fn.newFrame(m.outer)
	if err := m.code.bind(f, a); err != nil {
		return nil, err
	}
	outer := st.frame
	st.frame = f
	mark := len(st.out)
	err := m.code.run(st)
	st.frame = outer
	st.depth--
	if err != nil {
		return nil, err
	}
	text, err := st.take(mark)
	return String(text), err
}

// bind puts arguments into the frame, as jinja2's Macro does.
func (m *macroCode) bind(f *frame, a args) error {
	used := 0 // keywords that found their parameter
	foundCaller := false
	for i := range m.args {
		if i < len(a.pos) {
			f.slots[m.args[i].slot] = a.pos[i]
			continue
		}
		if m.args[i].name == "caller" {
			foundCaller = true
		}
		if v := a.keyword(m.args[i].name); v != nil {
			f.slots[m.args[i].slot] = v
			used++
		}
	}
	if len(a.pos) >= len(m.args) {
		foundCaller = m.explicitCaller
	}
	takesCaller := m.wantsCaller && !foundCaller
	if takesCaller {
		v := a.keyword("caller")
		if v != nil {
			used++
		}
		if _, none := v.(None); v == nil || none {
			v = noCaller
		}
		if m.callerSlot >= 0 {
			f.slots[m.callerSlot] = v
		}
	}
	switch {
	case m.kwargsSlot >= 0:
		rest := NewDict(len(a.kw) - used)
		for _, k := range a.kw {
			if !(takesCaller && k.name == "caller") && !m.takes(k.name, len(a.pos)) {
				rest.Set(k.name, k.value)
			}
		}
		f.slots[m.kwargsSlot] = rest
	case used < len(a.kw):
		return raise(typeError, "macro %q takes no such keyword argument", m.name)
	}
	switch {
	case m.varargsSlot >= 0:
		var rest []Value
		if len(a.pos) > len(m.args) {
			rest = append(rest, a.pos[len(m.args):]...)
		}
		f.slots[m.varargsSlot] = NewTuple(rest...)
	case len(a.pos) > len(m.args):
		return raise(typeError, "macro %q takes not more than %d argument(s)", m.name, len(m.args))
	}
	return nil
}

// takes tells whether a keyword sets a parameter that the n positional arguments
// have not.
func (m *macroCode) takes(name string, n int) bool {
	for i := n; i < len(m.args); i++ {
		if m.args[i].name == name {
			return true
		}
	}
	return false
}

func (m *macroCode) run(st *state) error {
	st.enter(m.enter)
	slots := st.frame.slots
	for i := range m.args {
		p := &m.args[i]
		if slots[p.slot] != nil {
			continue
		}
		if p.value == nil {
			slots[p.slot] = p.undef
			continue
		}
		v, err := p.value.eval(st)
		if err != nil {
			return atLine(err, m.line)
		}
		slots[p.slot] = v
	}
	_, err := st.run(m.body)
	return err
}
