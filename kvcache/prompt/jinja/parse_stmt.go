package jinja

import "strings"

// statement parses the statement whose name is the current token.
func (p *parser) statement() (node, error) {
	t := p.tok()
	if t.kind != tName {
		return nil, syntax(t.line, "tag name expected")
	}
	switch t.text {
	case "for":
		return p.forStmt()
	case "if":
		return p.ifStmt()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		return p.filterBlock()
	case "with":
		return p.with()
	case "print":
		return p.print()
	case "block":
		return p.blockStmt()
	case "generation":
		p.next()
		body, err := p.blockUntil("endgeneration")
		if err != nil {
			return nil, err
		}
		return &callBlockNode{nil, &macroNode{at: at(t.line), body: body}}, nil
	case "break":
		p.next()
		return &breakNode{at(t.line)}, nil
	case "continue":
		p.next()
		return &continueNode{at(t.line)}, nil
	case "extends", "include", "import", "from", "autoescape":
		return nil, atLine(unsupported("statement %q", t.text), t.line)
	default:
		return nil, syntax(t.line, "unknown tag %q", t.text)
	}
}

func (p *parser) forStmt() (node, error) {
	n := &forNode{at: at(p.next().line)}
	var err error
	if n.target, err = p.assignTarget("in", false); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.unexpected("in")
	}
	if n.iter, err = p.tuple(tupleOpts{end: "recursive"}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if n.test, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	n.recursive = p.skipName("recursive")
	if n.body, err = p.block("endfor", "else"); err != nil {
		return nil, err
	}
	if p.next().text == "else" {
		n.orelse, err = p.blockUntil("endfor")
	}
	return n, err
}

func (p *parser) ifStmt() (node, error) {
	result := &ifNode{at: at(p.next().line)}
	for n := result; ; {
		var err error
		if n.test, err = p.tuple(tupleOpts{}); err != nil {
			return nil, err
		}
		if n.body, err = p.block("elif", "else", "endif"); err != nil {
			return nil, err
		}
		switch p.next().text {
		case "elif":
			n = &ifNode{at: at(p.tok().line)}
			result.elifs = append(result.elifs, n)
			continue
		case "else":
			if result.orelse, err = p.blockUntil("endif"); err != nil {
				return nil, err
			}
		}
		return result, nil
	}
}

func (p *parser) set() (node, error) {
	line := p.next().line
	target, err := p.assignTarget("", true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		value, failed := p.tuple(tupleOpts{cond: true})
		return &assignNode{at(line), target, value}, failed
	}
	filter, err := p.blockFilter(false)
	if err != nil {
		return nil, err
	}
	body, err := p.blockUntil("endset")
	if err != nil {
		return nil, err
	}
	return &assignBlockNode{at(line), target, filter, body}, nil
}

// assignTarget parses what is assigned to: a name, a tuple of them, or with
// namespace also an attribute of a namespace.
func (p *parser) assignTarget(end string, namespace bool) (exprNode, error) {
	line := p.tok().line
	n, err := p.tuple(tupleOpts{simplified: true, end: end, namespace: namespace})
	if err != nil {
		return nil, err
	}
	if !setCtx(n, store) {
		return nil, syntax(line, "can't assign to this expression")
	}
	return n, nil
}

// setCtx marks the names of a target, and reports whether n is one.
func setCtx(n exprNode, ctx nameCtx) bool {
	switch n := n.(type) {
	case *nameNode:
		n.ctx = ctx
		return true
	case *nsRefNode:
		return true
	case *tupleNode:
		ok := true
		for _, item := range n.items {
			ok = setCtx(item, ctx) && ok
		}
		return ok
	default:
		return false
	}
}

// targetName parses a single name that is assigned to.
func (p *parser) targetName(ctx nameCtx) (*nameNode, error) {
	t, err := p.expectName()
	if err != nil {
		return nil, err
	}
	switch t.text {
	case "true", "false", "none", "True", "False", "None":
		return nil, syntax(t.line, "can't assign to %q", t.text)
	}
	return &nameNode{at(t.line), t.text, ctx}, nil
}

func (p *parser) macro() (node, error) {
	n := &macroNode{at: at(p.next().line)}
	name, err := p.targetName(store)
	if err != nil {
		return nil, err
	}
	n.name = name.name
	if failed := p.signature(n); failed != nil {
		return nil, failed
	}
	n.body, err = p.blockUntil("endmacro")
	return n, err
}

func (p *parser) signature(n *macroNode) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(n.args) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		arg, err := p.targetName(param)
		if err != nil {
			return err
		}
		for _, other := range n.args {
			if other.name == arg.name { // Python refuses the code made of it
				return syntax(arg.pos(), "duplicate argument %q", arg.name)
			}
		}
		if p.skipOp("=") {
			value, err := p.expression(true)
			if err != nil {
				return err
			}
			n.defaults = append(n.defaults, value)
		} else if len(n.defaults) > 0 {
			return syntax(arg.pos(), "non-default argument follows default argument")
		}
		n.args = append(n.args, arg)
	}
	return p.expectOp(")")
}

func (p *parser) callBlock() (node, error) {
	n := &macroNode{at: at(p.next().line)}
	if p.isOp("(") {
		if err := p.signature(n); err != nil {
			return nil, err
		}
	}
	e, err := p.expression(true)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callNode)
	if !ok {
		return nil, syntax(n.pos(), "expected call")
	}
	n.body, err = p.blockUntil("endcall")
	return &callBlockNode{call, n}, err
}

func (p *parser) filterBlock() (node, error) {
	n := &filterBlockNode{at: at(p.next().line)}
	var err error
	if n.filter, err = p.blockFilter(true); err != nil {
		return nil, err
	}
	n.body, err = p.blockUntil("endfilter")
	return n, err
}

func (p *parser) with() (node, error) {
	n := &withNode{at: at(p.next().line)}
	for p.tok().kind != tBlockEnd {
		if len(n.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		target, err := p.assignTarget("", false)
		if err != nil {
			return nil, err
		}
		setCtx(target, param)
		if failed := p.expectOp("="); failed != nil {
			return nil, failed
		}
		value, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		n.targets = append(n.targets, target)
		n.values = append(n.values, value)
	}
	var err error
	n.body, err = p.blockUntil("endwith")
	return n, err
}

func (p *parser) print() (node, error) {
	n := &outputNode{at: at(p.next().line)}
	for p.tok().kind != tBlockEnd {
		if len(n.nodes) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		n.nodes = append(n.nodes, e)
	}
	return n, nil
}

func (p *parser) blockStmt() (node, error) {
	n := &blockNode{at: at(p.next().line)}
	t, err := p.expectName()
	if err != nil {
		return nil, err
	}
	n.name = t.text
	n.scoped = p.skipName("scoped")
	n.required = p.skipName("required")
	if n.body, err = p.blockUntil("endblock"); err != nil {
		return nil, err
	}
	if n.required && !onlySpace(n.body) {
		return nil, syntax(n.pos(), "required blocks can only contain comments or whitespace")
	}
	p.skipName(n.name)
	return n, nil
}

func onlySpace(body []node) bool {
	for _, n := range body {
		out, ok := n.(*outputNode)
		if !ok {
			return false
		}
		for _, child := range out.nodes {
			if data, ok := child.(*dataNode); !ok || strings.TrimFunc(data.text, isSpace) != "" {
				return false
			}
		}
	}
	return true
}
