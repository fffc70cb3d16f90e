package jinja

import "slices"

// expr compiles an expression.
func (c *compiler) expr(n exprNode, sc *scope) (expr, error) {
	if v, ok, err := c.constValue(n); err != nil {
		return nil, atLine(err, n.pos())
	} else if ok {
		return v, nil
	}
	switch n := n.(type) {
	case *nameNode:
		return c.name(n, sc)
	case *tupleNode:
		xs, err := c.exprs(n.items, sc)
		return tupleExpr(xs), err
	case *listNode:
		xs, err := c.exprs(n.items, sc)
		return listExpr(xs), err
	case *dictNode:
		return c.dict(n, sc)
	case *condNode:
		return c.cond(n, sc)
	case *binNode:
		return c.binary(n, sc)
	case *unaryNode:
		return c.unary(n, sc)
	case *concatNode:
		xs, err := c.exprs(n.nodes, sc)
		return concatExpr(xs), err
	case *compareNode:
		return c.compare(n, sc)
	case *getattrNode:
		x, err := c.expr(n.node, sc)
		return &getattrExpr{x, n.attr, undefinedAttr(n.attr)}, err
	case *getitemNode:
		return c.getitem(n, sc)
	case *filterNode:
		x, err := c.expr(n.node, sc)
		if err != nil {
			return nil, err
		}
		return c.filter(n, x, sc)
	case *callNode:
		return c.callOrMethod(n, sc)
	default:
		return nil, syntax(n.pos(), "unexpected expression")
	}
}

func (c *compiler) exprs(ns []exprNode, sc *scope) ([]expr, error) {
	out := make([]expr, len(ns))
	for i, n := range ns {
		var err error
		if out[i], err = c.expr(n, sc); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) name(n *nameNode, sc *scope) (expr, error) {
	r, id, ok := sc.ref(n.name)
	if !ok {
		return nil, syntax(n.pos(), "name %q is not known here", n.name)
	}
	if l, ok := sc.findLoad(id); ok && l.kind == loadParam && !c.pendingParam(id) {
		return &paramExpr{r}, nil
	}
	undef := undefinedName(n.name)
	if r.up == 0 {
		return &localExpr{r.slot, undef}, nil
	}
	return &outerExpr{r, undef}, nil
}

// pendingParam tells whether id is a parameter whose default comes later than the
// one being compiled.
func (c *compiler) pendingParam(id ident) bool {
	return len(c.paramDefs) > 0 && c.paramDefs[len(c.paramDefs)-1][id]
}

func (c *compiler) dict(n *dictNode, sc *scope) (expr, error) {
	out := &dictExpr{}
	for _, p := range n.items {
		k, err := c.expr(p.key, sc)
		if err != nil {
			return nil, err
		}
		v, err := c.expr(p.value, sc)
		if err != nil {
			return nil, err
		}
		out.keys = append(out.keys, k)
		out.values = append(out.values, v)
	}
	return out, nil
}

func (c *compiler) cond(n *condNode, sc *scope) (expr, error) {
	soft := sc.softened()
	then, err := c.expr(n.then, soft)
	if err != nil {
		return nil, err
	}
	test, err := c.expr(n.test, soft)
	if err != nil {
		return nil, err
	}
	if n.otherwise == nil {
		return &condExpr{test, then, constExpr{noElse}}, nil
	}
	otherwise, err := c.expr(n.otherwise, soft)
	return &condExpr{test, then, otherwise}, err
}

//nolint:gochecknoglobals // a constant, but for its type
var noElse = &Undefined{hint: "the inline if-expression evaluated to false and no else section was defined"}

func (c *compiler) binary(n *binNode, sc *scope) (expr, error) {
	l, err := c.expr(n.left, sc)
	if err != nil {
		return nil, err
	}
	r, err := c.expr(n.right, sc)
	return makeBinary(n.op, l, r), err
}

func makeBinary(op binOp, l, r expr) expr {
	switch op {
	case opAnd:
		return &andExpr{l, r}
	case opOr:
		return &orExpr{l, r}
	case opAdd:
		if sum, ok := l.(sumExpr); ok {
			return append(slices.Clip(sum), r)
		}
		return sumExpr{l, r}
	case opSub, opMul, opDiv, opFloorDiv, opMod, opPow:
		return &binExpr{op, l, r}
	default:
		return &binExpr{op, l, r}
	}
}

func (c *compiler) unary(n *unaryNode, sc *scope) (expr, error) {
	x, err := c.expr(n.node, sc)
	return makeUnary(n.op, x), err
}

func makeUnary(op unaryOp, x expr) expr {
	if op == opNot {
		return &notExpr{x}
	}
	return &signExpr{x, op}
}

func (c *compiler) compare(n *compareNode, sc *scope) (expr, error) {
	first, err := c.expr(n.expr, sc)
	if err != nil {
		return nil, err
	}
	out := &compareExpr{first: first}
	for _, o := range n.ops {
		x, err := c.expr(o.expr, sc)
		if err != nil {
			return nil, err
		}
		out.steps = append(out.steps, compareStep{o.op, x})
	}
	return out, nil
}

func (c *compiler) getitem(n *getitemNode, sc *scope) (expr, error) {
	x, err := c.expr(n.node, sc)
	if err != nil {
		return nil, err
	}
	if s, ok := n.arg.(*sliceNode); ok {
		out := &sliceExpr{x: x}
		for _, b := range []struct {
			n  exprNode
			to *expr
		}{{s.start, &out.start}, {s.stop, &out.stop}, {s.step, &out.step}} {
			if b.n == nil {
				continue
			}
			if *b.to, err = c.expr(b.n, sc); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	arg, err := c.expr(n.arg, sc)
	return &getitemExpr{x, arg, undefinedItem(n.arg)}, err
}

// undefinedItem is what a missing element yields. Only a name that the template
// spells out is named.
func undefinedItem(arg exprNode) *Undefined {
	if k, ok := arg.(*constNode); ok {
		if s, ok := k.value.(String); ok {
			return undefinedAttr(string(s))
		}
	}
	return undefinedElement
}

func (c *compiler) argList(a *callArgs, sc *scope) (argList, error) {
	var out argList
	var err error
	if out.pos, err = c.exprs(a.args, sc); err != nil {
		return out, err
	}
	for _, k := range a.kwargs {
		var x expr
		if x, err = c.expr(k.value, sc); err != nil {
			return out, err
		}
		out.kw = append(out.kw, kwExpr{k.name, x})
	}
	if a.dynArgs != nil {
		if out.dyn, err = c.expr(a.dynArgs, sc); err != nil {
			return out, err
		}
	}
	if a.dynKwds != nil {
		out.kwd, err = c.expr(a.dynKwds, sc)
	}
	return out, err
}

// filterOf compiles a chain of filters that ends at in instead of an expression.
func (c *compiler) filterOf(n *filterNode, in expr, sc *scope) (expr, error) {
	if n.node == nil {
		return c.filter(n, in, sc)
	}
	inner, ok := n.node.(*filterNode)
	if !ok {
		return nil, syntax(n.pos(), "expected a filter")
	}
	x, err := c.filterOf(inner, in, sc)
	if err != nil {
		return nil, err
	}
	return c.filter(n, x, sc)
}

// filter compiles a filter or test on x.
func (c *compiler) filter(n *filterNode, x expr, sc *scope) (expr, error) {
	def, kind := lib.filters[n.name], "filter"
	if n.isTest {
		def, kind = lib.tests[n.name], "test"
	}
	if def == nil {
		if !sc.soft {
			return nil, syntax(n.pos(), "no %s named %q", kind, n.name)
		}
		// jinja2 finds out only when it comes to it.
		def = &builtin{name: n.name, variadic: true, fn: func(*state, args) (Value, error) {
			return nil, raise(otherError, "no %s named %q found", kind, n.name)
		}}
	}
	if def.fn == nil {
		return nil, atLine(unsupported("%s %q", kind, n.name), n.pos())
	}
	a, err := c.argList(&n.callArgs, sc)
	return &filterExpr{def: def, x: x, args: a}, err
}

func (c *compiler) callOrMethod(n *callNode, sc *scope) (expr, error) {
	g, ok := n.node.(*getattrNode)
	if !ok {
		return c.call(n, sc)
	}
	if _, isConst, _ := c.constValue(g); isConst {
		return c.call(n, sc)
	}
	x, err := c.expr(g.node, sc)
	if err != nil {
		return nil, err
	}
	a, err := c.argList(&n.callArgs, sc)
	return &methodExpr{
		x: x, name: g.attr, undef: undefinedAttr(g.attr), line: n.pos(), args: a,
		onString: lib.strings[g.attr], onDict: lib.dicts[g.attr],
	}, err
}

func (c *compiler) call(n *callNode, sc *scope) (*callExpr, error) {
	fn, err := c.expr(n.node, sc)
	if err != nil {
		return nil, err
	}
	a, err := c.argList(&n.callArgs, sc)
	return &callExpr{fn: fn, args: a, line: n.pos()}, err
}
