package jinja

import "strings"

// The levels of an expression, loosest first: conditional, or, and, not,
// comparison, sum, concatenation, product, power, sign, postfix, filter.

// expression parses an expression; without cond, a conditional is left alone.
func (p *parser) expression(cond bool) (exprNode, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	if cond {
		return p.condExpr()
	}
	return p.orExpr()
}

func (p *parser) condExpr() (exprNode, error) {
	line := p.tok().line
	then, err := p.orExpr()
	if err != nil {
		return nil, err
	}
	for p.skipName("if") {
		test, err := p.orExpr()
		if err != nil {
			return nil, err
		}
		var otherwise exprNode
		if p.skipName("else") {
			if failed := p.enter(); failed != nil {
				return nil, failed
			}
			otherwise, err = p.condExpr()
			p.leave()
			if err != nil {
				return nil, err
			}
		}
		then = &condNode{at(line), test, then, otherwise}
		line = p.tok().line
	}
	return then, nil
}

// leftAssoc parses operand (op operand)*, where next reports the operator at the
// current token and skips it.
func (p *parser) leftAssoc(operand func() (exprNode, error), next func() (binOp, bool)) (exprNode, error) {
	line := p.tok().line
	left, err := operand()
	if err != nil {
		return nil, err
	}
	// A chain nests to the left, so its length is depth too.
	for depth := 0; ; depth++ {
		op, ok := next()
		if !ok {
			return left, nil
		}
		if depth > maxChain {
			return nil, limit("expression too long")
		}
		right, err := operand()
		if err != nil {
			return nil, err
		}
		left = &binNode{at(line), op, left, right}
		line = p.tok().line
	}
}

func (p *parser) orExpr() (exprNode, error) {
	return p.leftAssoc(p.andExpr, func() (binOp, bool) { return opOr, p.skipName("or") })
}

func (p *parser) andExpr() (exprNode, error) {
	return p.leftAssoc(p.notExpr, func() (binOp, bool) { return opAnd, p.skipName("and") })
}

func (p *parser) notExpr() (exprNode, error) {
	if !p.isName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	line := p.next().line
	n, err := p.notExpr()
	if err != nil {
		return nil, err
	}
	return &unaryNode{at(line), opNot, n}, nil
}

func (p *parser) compare() (exprNode, error) {
	line := p.tok().line
	expr, err := p.sum()
	if err != nil {
		return nil, err
	}
	var ops []operand
	for {
		op, ok := p.compareOp()
		if !ok {
			break
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		ops = append(ops, operand{op, right})
		line = p.tok().line
	}
	if ops == nil {
		return expr, nil
	}
	return &compareNode{at(line), expr, ops}, nil
}

func (p *parser) compareOp() (compareOp, bool) {
	if p.tok().kind == tOp {
		var op compareOp
		switch p.tok().text {
		case "==":
			op = cmpEq
		case "!=":
			op = cmpNe
		case "<":
			op = cmpLt
		case "<=":
			op = cmpLe
		case ">":
			op = cmpGt
		case ">=":
			op = cmpGe
		default:
			return 0, false
		}
		p.next()
		return op, true
	}
	if p.skipName("in") {
		return cmpIn, true
	}
	if p.isName("not") && p.peek().kind == tName && p.peek().text == "in" {
		p.next()
		p.next()
		return cmpNotIn, true
	}
	return 0, false
}

func (p *parser) sum() (exprNode, error) {
	return p.leftAssoc(p.concat, func() (binOp, bool) {
		switch {
		case p.skipOp("+"):
			return opAdd, true
		case p.skipOp("-"):
			return opSub, true
		default:
			return 0, false
		}
	})
}

func (p *parser) concat() (exprNode, error) {
	line := p.tok().line
	first, err := p.product()
	if err != nil {
		return nil, err
	}
	args := []exprNode{first}
	for p.skipOp("~") {
		arg, err := p.product()
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	if len(args) == 1 {
		return first, nil
	}
	return &concatNode{at(line), args}, nil
}

func (p *parser) product() (exprNode, error) {
	return p.leftAssoc(p.power, func() (binOp, bool) {
		switch {
		case p.skipOp("*"):
			return opMul, true
		case p.skipOp("/"):
			return opDiv, true
		case p.skipOp("//"):
			return opFloorDiv, true
		case p.skipOp("%"):
			return opMod, true
		default:
			return 0, false
		}
	})
}

// power associates to the left, unlike Python's.
func (p *parser) power() (exprNode, error) {
	return p.leftAssoc(func() (exprNode, error) { return p.unary(true) },
		func() (binOp, bool) { return opPow, p.skipOp("**") })
}

func (p *parser) unary(withFilter bool) (exprNode, error) {
	line := p.tok().line
	var n exprNode
	var err error
	switch {
	case p.isOp("-"), p.isOp("+"):
		op := opNeg
		if p.next().text == "+" {
			op = opPos
		}
		if failed := p.enter(); failed != nil {
			return nil, failed
		}
		n, err = p.unary(false)
		p.leave()
		n = &unaryNode{at(line), op, n}
	default:
		n, err = p.primary(false)
	}
	if err != nil {
		return nil, err
	}
	if n, err = p.postfix(n); err != nil || !withFilter {
		return n, err
	}
	return p.filters(n)
}

func (p *parser) primary(withNamespace bool) (exprNode, error) {
	t := p.tok()
	switch t.kind {
	case tName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constNode{at(t.line), Bool(true)}, nil
		case "false", "False":
			return &constNode{at(t.line), Bool(false)}, nil
		case "none", "None":
			return &constNode{at(t.line), None{}}, nil
		}
		if withNamespace && p.skipOp(".") {
			attr, err := p.expectName()
			if err != nil {
				return nil, err
			}
			return &nsRefNode{at(t.line), t.text, attr.text}, nil
		}
		return &nameNode{at(t.line), t.text, load}, nil
	case tString:
		p.next()
		text := t.text
		if p.tok().kind == tString {
			var b strings.Builder
			b.WriteString(text)
			for p.tok().kind == tString {
				b.WriteString(p.next().text)
			}
			text = b.String()
		}
		return &constNode{at(t.line), String(text)}, nil
	case tInt, tFloat:
		p.next()
		return &constNode{at(t.line), t.num}, nil
	case tEOF, tData, tVarBegin, tVarEnd, tBlockBegin, tBlockEnd:
	case tOp:
		switch t.text {
		case "(":
			p.next()
			n, err := p.tuple(tupleOpts{cond: true, parens: true})
			if err != nil {
				return nil, err
			}
			return n, p.expectOp(")")
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, syntax(t.line, "unexpected %q", t.describe())
}

// tupleOpts are the ways in which a tuple may be parsed.
type tupleOpts struct {
	simplified bool   // only primaries: an assignment target
	cond       bool   // conditionals are part of it
	end        string // a name that ends it, besides the end of the tag
	parens     bool   // inside parentheses, where it may be empty
	namespace  bool   // namespace attributes are allowed
}

// tuple parses an expression or a tuple without parentheses.
func (p *parser) tuple(o tupleOpts) (exprNode, error) {
	line := p.tok().line
	var args []exprNode
	isTuple := false
	for {
		if len(args) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		if p.tupleEnd(o.end) {
			break
		}
		var arg exprNode
		var err error
		if o.simplified {
			arg, err = p.primary(o.namespace)
		} else {
			arg, err = p.expression(o.cond)
		}
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
		if !p.isOp(",") {
			break
		}
		isTuple = true
		line = p.tok().line
	}
	if !isTuple {
		if len(args) > 0 {
			return args[0], nil
		}
		if !o.parens {
			return nil, syntax(p.tok().line, "expected an expression, got %q", p.tok().describe())
		}
	}
	return &tupleNode{at(line), args}, nil
}

func (p *parser) tupleEnd(end string) bool {
	t := p.tok()
	return t.kind == tVarEnd || t.kind == tBlockEnd || p.isOp(")") || end != "" && p.isName(end)
}

func (p *parser) list() (exprNode, error) {
	line := p.next().line
	var items []exprNode
	for !p.isOp("]") {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		if p.isOp("]") {
			break
		}
		item, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return &listNode{at(line), items}, p.expectOp("]")
}

func (p *parser) dict() (exprNode, error) {
	line := p.next().line
	var items []pairNode
	for !p.isOp("}") {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		if p.isOp("}") {
			break
		}
		key, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		if failed := p.expectOp(":"); failed != nil {
			return nil, failed
		}
		value, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		items = append(items, pairNode{key, value})
	}
	return &dictNode{at(line), items}, p.expectOp("}")
}
