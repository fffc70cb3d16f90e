package jinja

import "strings"

// maxChain bounds what nests without brackets: a + b + c, a.b.c, a|f|g.
const maxChain = 1000

// postfix parses subscripts and calls behind n.
func (p *parser) postfix(n exprNode) (exprNode, error) {
	for depth := 0; ; depth++ {
		var err error
		switch {
		case p.isOp("."), p.isOp("["):
			n, err = p.subscript(n)
		case p.isOp("("):
			n, err = p.call(n)
		default:
			return n, nil
		}
		if err == nil && depth > maxChain {
			err = limit("expression too long")
		}
		if err != nil {
			return nil, err
		}
	}
}

// filters parses filters, tests and calls behind n.
func (p *parser) filters(n exprNode) (exprNode, error) {
	for depth := 0; ; depth++ {
		var err error
		switch {
		case p.isOp("|"):
			p.next()
			n, err = p.filter(n)
		case p.isName("is"):
			n, err = p.test(n)
		case p.isOp("("):
			n, err = p.call(n)
		default:
			return n, nil
		}
		if err == nil && depth > maxChain {
			err = limit("expression too long")
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(n exprNode) (exprNode, error) {
	t := p.next()
	if t.text == "." {
		attr := p.next()
		switch attr.kind {
		case tName:
			return &getattrNode{at(t.line), n, attr.text}, nil
		case tInt:
			return &getitemNode{at(t.line), n, &constNode{at(attr.line), attr.num}}, nil
		default:
			return nil, syntax(attr.line, "expected name or number")
		}
	}
	var args []exprNode
	for !p.isOp("]") {
		if len(args) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		arg, err := p.subscribed()
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	if err := p.expectOp("]"); err != nil {
		return nil, err
	}
	if len(args) == 1 {
		return &getitemNode{at(t.line), n, args[0]}, nil
	}
	for _, a := range args {
		if s, ok := a.(*sliceNode); ok { // Python refuses the code made of it
			return nil, syntax(s.pos(), "slice in a tuple")
		}
	}
	return &getitemNode{at(t.line), n, &tupleNode{at(t.line), args}}, nil
}

// subscribed parses what stands between brackets: an expression or a slice.
func (p *parser) subscribed() (exprNode, error) {
	line := p.tok().line
	var start, stop, step exprNode
	var err error
	if !p.isOp(":") {
		start, err = p.expression(true)
		if err != nil || !p.isOp(":") {
			return start, err
		}
	}
	p.next()
	if !p.isOp(":") && !p.isOp("]") && !p.isOp(",") {
		if stop, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	if p.skipOp(":") && !p.isOp("]") && !p.isOp(",") {
		if step, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	return &sliceNode{at(line), start, stop, step}, nil
}

func (p *parser) call(n exprNode) (exprNode, error) {
	line := p.tok().line
	args, err := p.callArgs()
	if err != nil {
		return nil, err
	}
	return &callNode{at(line), n, args}, nil
}

// callArgs parses arguments in parentheses.
func (p *parser) callArgs() (callArgs, error) {
	var a callArgs
	line := p.tok().line
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	if err := p.enter(); err != nil {
		return a, err
	}
	defer p.leave()
	for first := true; !p.isOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.isOp(")") {
				break
			}
		}
		if err := p.argument(&a, line); err != nil {
			return a, err
		}
	}
	return a, p.expectOp(")")
}

func (p *parser) argument(a *callArgs, line int) error {
	var err error
	bad := syntax(line, "invalid syntax for function call expression")
	switch {
	case p.isOp("*"):
		if a.dynArgs != nil || a.dynKwds != nil {
			return bad
		}
		p.next()
		a.dynArgs, err = p.expression(true)
	case p.isOp("**"):
		if a.dynKwds != nil {
			return bad
		}
		p.next()
		a.dynKwds, err = p.expression(true)
	case p.tok().kind == tName && p.peek().kind == tOp && p.peek().text == "=":
		if a.dynKwds != nil {
			return bad
		}
		name := p.next().text
		p.next()
		for _, k := range a.kwargs {
			if k.name == name { // Python refuses the code made of it
				return syntax(line, "keyword argument repeated: %s", name)
			}
		}
		var value exprNode
		value, err = p.expression(true)
		a.kwargs = append(a.kwargs, keyword{name, value})
	default:
		if a.dynArgs != nil || a.dynKwds != nil || len(a.kwargs) > 0 {
			return bad
		}
		var value exprNode
		value, err = p.expression(true)
		a.args = append(a.args, value)
	}
	return err
}

// dotted parses the name of a filter or test.
func (p *parser) dotted() (token, string, error) {
	t, err := p.expectName()
	if err != nil {
		return t, "", err
	}
	if !p.isOp(".") {
		return t, t.text, nil
	}
	parts := []string{t.text}
	for p.skipOp(".") {
		part, err := p.expectName()
		if err != nil {
			return t, "", err
		}
		parts = append(parts, part.text)
	}
	return t, strings.Join(parts, "."), nil
}

// filter parses a filter's name and arguments; n is nil in a filter block.
func (p *parser) filter(n exprNode) (exprNode, error) {
	f, err := p.filterNode(n)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (p *parser) filterNode(n exprNode) (*filterNode, error) {
	t, name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterNode{at: at(t.line), node: n, name: name}
	if p.isOp("(") {
		if f.callArgs, err = p.callArgs(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// blockFilter parses the filters of a filter block or a set block.
func (p *parser) blockFilter(inline bool) (*filterNode, error) {
	var f *filterNode
	for depth := 0; inline || p.isOp("|"); depth++ {
		if !inline {
			p.next()
		}
		inline = false
		if depth > maxChain {
			return nil, limit("expression too long")
		}
		var inner exprNode
		if f != nil {
			inner = f
		}
		var err error
		if f, err = p.filterNode(inner); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (p *parser) test(n exprNode) (exprNode, error) {
	t := p.next()
	negated := p.skipName("not")
	_, name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterNode{at: at(t.line), node: n, name: name, isTest: true}
	switch {
	case p.isOp("("):
		f.callArgs, err = p.callArgs()
	case p.startsTestArg():
		if p.isName("is") {
			return nil, syntax(p.tok().line, "you cannot chain multiple tests with is")
		}
		var arg exprNode
		if arg, err = p.primary(false); err == nil {
			arg, err = p.postfix(arg)
		}
		f.args = []exprNode{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &unaryNode{at(t.line), opNot, f}, nil
	}
	return f, nil
}

// startsTestArg tells whether an argument without parentheses follows.
func (p *parser) startsTestArg() bool {
	switch p.tok().kind {
	case tName:
		return !p.isName("else") && !p.isName("or") && !p.isName("and")
	case tString, tInt, tFloat:
		return true
	case tOp:
		return p.isOp("[") || p.isOp("{")
	default:
		return false
	}
}
