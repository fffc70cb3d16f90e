package jinja

import (
	"slices"
)

// compiler turns a tree into executable nodes.
type compiler struct {
	opts      *Options
	names     map[string]int // the names read from the variables, by index
	blocks    map[string]*blockCode
	paramDefs []map[ident]bool // parameters that have no value yet, per macro being compiled
	consts    map[exprNode]constant
}

// code is what Template renders.
type code struct {
	fn     *function
	enter  []scopeEntry
	body   []stmt
	names  int
	blocks map[string]*blockCode
}

// blockCode is a {% block %}.
type blockCode struct {
	fn    *function
	enter []scopeEntry
	body  []stmt
}

func compileTemplate(tree *templateNode, o *Options) (*code, *compiler, error) {
	c := &compiler{
		opts: o, names: map[string]int{}, blocks: map[string]*blockCode{},
		consts: map[exprNode]constant{},
	}
	var blocks []*blockNode
	var err error
	walk(tree, func(n node) {
		if b, ok := n.(*blockNode); ok {
			if c.blocks[b.name] != nil && err == nil {
				err = syntax(b.pos(), "block %q defined twice", b.name)
			}
			c.blocks[b.name] = &blockCode{}
			blocks = append(blocks, b)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	root := &scope{symbols: newSymbols(nil, newFunction(nil)), toplevel: true}
	if undeclared(tree.body, "self")["self"] {
		return nil, nil, unsupported("variable %q", "self")
	}
	visitAll(root.symbols, tree.body)
	out := &code{fn: root.fn, blocks: c.blocks}
	out.enter = c.enter(root)
	if out.body, err = c.stmts(tree.body, root); err != nil {
		return nil, nil, err
	}
	for _, b := range blocks {
		if err := c.block(b); err != nil {
			return nil, nil, err
		}
	}
	out.names = len(c.names)
	return out, c, nil
}

// block compiles the body of a {% block %}, which sees nothing of its
// surroundings but the template's variables.
func (c *compiler) block(n *blockNode) error {
	if found := undeclared(n.body, "self", "super"); len(found) > 0 {
		return atLine(unsupported("self or super in a block"), n.pos())
	}
	sc := &scope{symbols: newSymbols(nil, newFunction(nil))}
	visitAll(sc.symbols, n.body)
	b := c.blocks[n.name]
	b.fn = sc.fn
	b.enter = c.enter(sc)
	var err error
	b.body, err = c.stmts(n.body, sc)
	return err
}

// resolve notes that the template reads name from its variables.
func (c *compiler) resolve(name string) int {
	i, ok := c.names[name]
	if !ok {
		i = len(c.names)
		c.names[name] = i
	}
	return i
}

// variables lists the names read from the variables, without jinja2's globals.
func (c *compiler) variables() []string {
	out := make([]string, 0, len(c.names))
	for name := range c.names {
		if !isJinjaGlobal(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (c *compiler) stmts(nodes []node, sc *scope) ([]stmt, error) {
	out := make([]stmt, 0, len(nodes))
	for _, n := range nodes {
		s, err := c.stmt(n, sc)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

func (c *compiler) stmt(n node, sc *scope) (stmt, error) {
	switch n := n.(type) {
	case *outputNode:
		return c.output(n, sc)
	case *ifNode:
		return c.ifStmt(n, sc)
	case *forNode:
		return c.forStmt(n, sc)
	case *assignNode:
		return c.assign(n, sc)
	case *assignBlockNode:
		return c.assignBlock(n, sc)
	case *macroNode:
		return c.macro(n, sc)
	case *callBlockNode:
		return c.callBlock(n, sc)
	case *filterBlockNode:
		return c.filterBlock(n, sc)
	case *withNode:
		return c.with(n, sc)
	case *blockNode:
		return c.blockStmt(n, sc)
	case *breakNode:
		if !sc.loop {
			return nil, syntax(n.pos(), "'break' outside loop")
		}
		return breakStmt{}, nil
	case *continueNode:
		if !sc.loop {
			return nil, syntax(n.pos(), "'continue' outside loop")
		}
		return continueStmt{}, nil
	default:
		return nil, unsupported("statement")
	}
}

func (c *compiler) output(n *outputNode, sc *scope) (stmt, error) {
	out := &outputStmt{line: n.pos()}
	for _, child := range n.nodes {
		text, isText := "", false
		var e exprNode
		switch child := child.(type) {
		case *dataNode:
			text, isText = child.text, true
		case exprNode:
			e = child
			text, isText = c.constText(e)
		}
		if isText {
			if last := len(out.parts) - 1; last >= 0 && out.parts[last].expr == nil {
				out.parts[last].text += text
			} else {
				out.parts = append(out.parts, outputPart{text: text})
			}
			continue
		}
		x, err := c.expr(e, sc)
		if err != nil {
			return nil, err
		}
		out.parts = append(out.parts, outputPart{expr: x, line: e.pos()})
	}
	if len(out.parts) == 1 && out.parts[0].expr == nil {
		return textStmt(out.parts[0].text), nil
	}
	return out, nil
}

func (c *compiler) ifStmt(n *ifNode, sc *scope) (stmt, error) {
	soft := sc.softened()
	out := &ifStmt{}
	branch := func(test exprNode, body []node) error {
		b := ifBranch{line: test.pos()}
		var err error
		if b.test, err = c.expr(test, soft); err != nil {
			return err
		}
		if b.body, err = c.stmts(body, soft); err != nil {
			return err
		}
		out.branches = append(out.branches, b)
		return nil
	}
	if err := branch(n.test, n.body); err != nil {
		return nil, err
	}
	for _, e := range n.elifs {
		if err := branch(e.test, e.body); err != nil {
			return nil, err
		}
	}
	var err error
	out.orelse, err = c.stmts(n.orelse, soft)
	return out, err
}

func (c *compiler) with(n *withNode, sc *scope) (stmt, error) {
	inner := sc.inner()
	visitAll(inner.symbols, n.targets)
	visitAll(inner.symbols, n.body)
	out := &withStmt{line: n.pos(), enter: c.enter(inner)}
	for i, target := range n.targets {
		t, err := c.target(target, inner)
		if err != nil {
			return nil, err
		}
		v, err := c.expr(n.values[i], sc)
		if err != nil {
			return nil, err
		}
		out.targets = append(out.targets, t)
		out.values = append(out.values, v)
	}
	var err error
	if out.body, err = c.stmts(n.body, inner); err != nil {
		return nil, err
	}
	out.leave = c.leaveSlots(inner)
	return out, nil
}

func (c *compiler) filterBlock(n *filterBlockNode, sc *scope) (stmt, error) {
	inner := sc.inner()
	visitAll(inner.symbols, n.body)
	inner.visit(n.filter)
	out := &filterBlockStmt{line: n.pos(), enter: c.enter(inner)}
	var err error
	if out.body, err = c.stmts(n.body, inner); err != nil {
		return nil, err
	}
	if out.filter, err = c.captured(n.filter, inner); err != nil {
		return nil, err
	}
	out.leave = c.leaveSlots(inner)
	return out, nil
}

// captured compiles a filter chain whose innermost input is a block's output.
func (c *compiler) captured(f *filterNode, sc *scope) (*capturedFilter, error) {
	in := &inputExpr{}
	x, err := c.filterOf(f, in, sc)
	if err != nil {
		return nil, err
	}
	return &capturedFilter{in, x}, nil
}

func (c *compiler) assign(n *assignNode, sc *scope) (stmt, error) {
	out := &assignStmt{line: n.pos()}
	var err error
	if out.target, err = c.target(n.target, sc); err != nil {
		return nil, err
	}
	if out.value, err = c.expr(n.node, sc); err != nil {
		return nil, err
	}
	out.namespaces = namespaceChecks(out.target, nil)
	return out, nil
}

func (c *compiler) assignBlock(n *assignBlockNode, sc *scope) (stmt, error) {
	inner := sc.inner()
	visitAll(inner.symbols, n.body)
	out := &assignBlockStmt{line: n.pos(), enter: c.enter(inner)}
	var err error
	if out.body, err = c.stmts(n.body, inner); err != nil {
		return nil, err
	}
	if out.target, err = c.target(n.target, sc); err != nil {
		return nil, err
	}
	if n.filter != nil {
		if out.filter, err = c.captured(n.filter, inner); err != nil {
			return nil, err
		}
	}
	out.leave = c.leaveSlots(inner)
	return out, nil
}

// target compiles what is assigned to.
func (c *compiler) target(n exprNode, sc *scope) (target, error) {
	switch n := n.(type) {
	case *nameNode:
		r, _, ok := sc.ref(n.name)
		if !ok {
			return nil, syntax(n.pos(), "unknown target %q", n.name)
		}
		t := nameTarget{ref: r}
		if sc.toplevel && n.ctx == store {
			t.top = n.name
		}
		return t, nil
	case *nsRefNode:
		r, _, ok := sc.ref(n.name)
		if !ok {
			return nil, syntax(n.pos(), "unknown target %q", n.name)
		}
		return nsTarget{r, n.attr}, nil
	case *tupleNode:
		var out tupleTarget
		for _, item := range n.items {
			t, err := c.target(item, sc)
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		}
		return out, nil
	default:
		return nil, syntax(n.pos(), "can't assign to this expression")
	}
}

func (c *compiler) blockStmt(n *blockNode, sc *scope) (stmt, error) {
	out := &blockStmt{line: n.pos(), name: n.name, required: n.required, scoped: n.scoped}
	if !n.scoped {
		return out, nil
	}
	seen := map[string]bool{}
	for s := sc.symbols; s != nil; s = s.parent {
		for name := range s.stores {
			if !seen[name] {
				seen[name] = true
				r, _, _ := sc.ref(name)
				out.locals = append(out.locals, blockLocal{name, r})
			}
		}
	}
	return out, nil
}
