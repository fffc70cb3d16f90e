package jinja

func (c *compiler) forStmt(n *forNode, sc *scope) (stmt, error) {
	if err := checkLoopName(n); err != nil {
		return nil, err
	}
	out := &forStmt{line: n.pos(), loopSlot: -1}
	body := sc.inner()
	if n.recursive {
		body = sc.innerFunction()
	}
	body.loop = true
	orelse := sc.inner()
	if n.recursive {
		orelse.symbols = newSymbols(sc.symbols, body.fn)
		orelse.loop = false
	}
	scopedBlock := false
	walk(n, func(c node) {
		if b, ok := c.(*blockNode); ok && b.scoped {
			scopedBlock = true
		}
	})
	out.extended = n.recursive || scopedBlock || undeclared(n.body, "loop")["loop"]
	if out.extended {
		out.loopSlot = body.fn.slot(body.declare("loop"))
	}
	body.visitAs(n.target, true)
	visitAll(body.symbols, n.body)
	visitAll(orelse.symbols, n.orelse)
	if n.test != nil {
		var err error
		if out.filter, err = c.loopFilter(n, sc); err != nil {
			return nil, err
		}
	}
	var err error
	if out.target, err = c.target(n.target, body); err != nil {
		return nil, err
	}
	if out.iter, err = c.expr(n.iter, sc); err != nil {
		return nil, err
	}
	out.enter = c.enter(body)
	if out.body, err = c.stmts(n.body, body); err != nil {
		return nil, err
	}
	if !n.recursive || n.orelse != nil {
		out.leave = c.leaveSlots(body)
	}
	if len(n.orelse) > 0 {
		out.hasElse = true
		out.elseEnter = c.enter(orelse)
		if out.orelse, err = c.stmts(n.orelse, orelse); err != nil {
			return nil, err
		}
		out.elseLeave = c.leaveSlots(orelse)
	}
	if t, ok := out.target.(nameTarget); ok && t.ref.up == 0 {
		out.simple, out.single = t.ref.slot, true
	}
	if n.recursive {
		return &recursiveStmt{loop: out, fn: body.fn}, nil
	}
	return out, nil
}

// loopFilter compiles the condition of a loop. In jinja2 it is a function of its
// own, which sees the loop's target but not its body.
func (c *compiler) loopFilter(n *forNode, sc *scope) (*loopFilter, error) {
	test := sc.innerFunction()
	test.visitAs(n.target, true)
	test.visit(n.test)
	f := &loopFilter{line: n.test.pos(), fn: test.fn, enter: c.enter(test)}
	var err error
	if f.target, err = c.target(n.target, test); err != nil {
		return nil, err
	}
	f.test, err = c.expr(n.test, test)
	return f, err
}

// checkLoopName refuses loops that set "loop", as jinja2 does.
func checkLoopName(n *forNode) error {
	var err error
	walk(n, func(c node) {
		if name, ok := c.(*nameNode); ok && name.ctx == store && name.name == "loop" && err == nil {
			err = syntax(name.pos(), "can't assign to special loop variable in for-loop target")
		}
	})
	return err
}

// macroBody compiles the function that a macro or a call block is.
func (c *compiler) macroBody(n *macroNode, sc *scope) (*macroCode, error) {
	inner := sc.innerFunction()
	m := &macroCode{name: n.name, line: n.pos(), fn: inner.fn}
	visitAll(inner.symbols, n.args)
	visitAll(inner.symbols, n.defaults)
	visitAll(inner.symbols, n.body)
	explicitCaller := -1
	skip := map[string]bool{}
	for i, arg := range n.args {
		if arg.name == "caller" {
			explicitCaller = i
			m.explicitCaller = true
		}
		skip[arg.name] = true
		_, id, _ := inner.ref(arg.name)
		m.args = append(m.args, macroArg{name: arg.name, slot: inner.fn.slot(id), undef: &Undefined{
			hint: "parameter '" + arg.name + "' was not provided",
		}})
	}
	free := undeclared(n.body, "caller", "kwargs", "varargs")
	m.callerSlot, m.kwargsSlot, m.varargsSlot = -1, -1, -1
	if free["caller"] {
		m.wantsCaller = true
		if explicitCaller >= 0 {
			if explicitCaller < len(n.args)-len(n.defaults) {
				return nil, syntax(n.pos(), "the special \"caller\" argument must be omitted or be given a default")
			}
		} else {
			m.callerSlot = inner.fn.slot(inner.declare("caller"))
		}
	}
	if free["kwargs"] && !skip["kwargs"] {
		m.kwargsSlot = inner.fn.slot(inner.declare("kwargs"))
	}
	if free["varargs"] && !skip["varargs"] {
		m.varargsSlot = inner.fn.slot(inner.declare("varargs"))
	}
	// jinja2 analyses twice, the second time with the special names declared.
	visitAll(inner.symbols, n.args)
	visitAll(inner.symbols, n.defaults)
	visitAll(inner.symbols, n.body)
	m.enter = c.enter(inner)
	return m, c.macroRest(n, m, inner)
}

func (c *compiler) macroRest(n *macroNode, m *macroCode, inner *scope) error {
	pending := map[ident]bool{}
	for id, l := range inner.loads {
		if l.kind == loadParam {
			pending[id] = true
		}
	}
	c.paramDefs = append(c.paramDefs, pending)
	first := len(n.args) - len(n.defaults)
	var err error
	for i, arg := range n.args {
		if i >= first {
			if m.args[i].value, err = c.expr(n.defaults[i-first], inner); err != nil {
				return err
			}
		}
		_, id, _ := inner.ref(arg.name)
		delete(pending, id)
	}
	c.paramDefs = c.paramDefs[:len(c.paramDefs)-1]
	m.body, err = c.stmts(n.body, inner)
	return err
}

func (c *compiler) macro(n *macroNode, sc *scope) (stmt, error) {
	m, err := c.macroBody(n, sc)
	if err != nil {
		return nil, err
	}
	r, _, ok := sc.ref(n.name)
	if !ok {
		return nil, syntax(n.pos(), "unknown target %q", n.name)
	}
	out := &macroStmt{macro: m, target: nameTarget{ref: r}}
	if sc.toplevel {
		out.target.top = n.name
	}
	return out, nil
}

func (c *compiler) callBlock(n *callBlockNode, sc *scope) (stmt, error) {
	m, err := c.macroBody(n.macroNode, sc)
	if err != nil {
		return nil, err
	}
	m.anonymous = true
	out := &callBlockStmt{line: n.pos(), macro: m}
	if n.call == nil {
		return out, nil
	}
	for _, k := range n.call.kwargs {
		if k.name == "caller" {
			return nil, syntax(n.pos(), "keyword argument repeated: caller")
		}
	}
	x, err := c.call(n.call, sc)
	if err != nil {
		return nil, err
	}
	out.call = x
	return out, nil
}
