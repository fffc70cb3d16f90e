package jinja

import (
	"context"
	"math"
)

// jinja2 evaluates constant expressions when it compiles. That is not only faster:
// it hides unknown filters behind a constant "or", and it makes some expressions
// fail at once. So the same is done here.

// constant is what is known of an expression as a constant.
type constant struct {
	v    Value
	ok   bool // it has a value
	safe bool // which can stand in the code instead of the expression
}

// Limits of what is computed at compile time; what needs more is left to Render.
const (
	foldOutput = 1 << 16
	foldSteps  = 100_000
	foldDepth  = 50
)

// constText returns what a constant prints as.
func (c *compiler) constText(n exprNode) (string, bool) {
	k := c.fold(n)
	if !k.ok {
		return "", false
	}
	s, err := c.foldState().str(k.v)
	return s, err == nil
}

// constValue returns the constant that can stand for n. An error means that the
// template can't be compiled.
func (c *compiler) constValue(n exprNode) (expr, bool, error) {
	k := c.fold(n)
	if !k.ok || !k.safe {
		return nil, false, nil
	}
	if tooManyDigits(k.v) {
		return nil, false, syntax(n.pos(), "integer too long")
	}
	if !finite(k.v) {
		// jinja2 writes inf and nan into its code as if they were names.
		return failExpr{raise(otherError, "a constant is not finite")}, true, nil
	}
	return constExpr{k.v}, true, nil
}

func (c *compiler) foldState() *state {
	o := *c.opts
	o.MaxOutput, o.MaxSteps, o.MaxDepth = foldOutput, foldSteps, foldDepth
	return newState(context.Background(), &o, nil, &Dict{})
}

// fold evaluates n if it is constant.
func (c *compiler) fold(n exprNode) constant {
	if k, ok := n.(*constNode); ok {
		return constant{k.value, true, true}
	}
	if k, ok := c.consts[n]; ok {
		return k
	}
	var k constant
	if v, ok := c.foldNode(n); ok {
		k = constant{v, true, safeConstant(v)}
	}
	c.consts[n] = k
	return k
}

func (c *compiler) foldNode(n exprNode) (Value, bool) {
	switch n := n.(type) {
	case *binNode:
		if n.op == opAnd || n.op == opOr {
			return c.foldLogic(n)
		}
		return c.evalConst(func(x []expr) expr { return makeBinary(n.op, x[0], x[1]) }, n.left, n.right)
	case *unaryNode:
		return c.evalConst(func(x []expr) expr { return makeUnary(n.op, x[0]) }, n.node)
	case *tupleNode:
		return c.evalConst(func(x []expr) expr { return tupleExpr(x) }, n.items...)
	case *listNode:
		return c.evalConst(func(x []expr) expr { return listExpr(x) }, n.items...)
	case *concatNode:
		return c.evalConst(func(x []expr) expr { return concatExpr(x) }, n.nodes...)
	case *dictNode:
		var all []exprNode
		for _, p := range n.items {
			all = append(all, p.key, p.value)
		}
		return c.evalConst(func(x []expr) expr {
			d := &dictExpr{}
			for i := 0; i < len(x); i += 2 {
				d.keys = append(d.keys, x[i])
				d.values = append(d.values, x[i+1])
			}
			return d
		}, all...)
	case *compareNode:
		return c.foldCompare(n)
	case *condNode:
		return c.foldCond(n)
	case *getattrNode:
		return c.evalConst(func(x []expr) expr { return &getattrExpr{x[0], n.attr, undefinedAttr(n.attr)} }, n.node)
	case *getitemNode:
		return c.foldItem(n)
	case *filterNode:
		return c.foldFilter(n)
	default:
		return nil, false
	}
}

// evalConst evaluates what build makes of the constants that ns are.
func (c *compiler) evalConst(build func([]expr) expr, ns ...exprNode) (Value, bool) {
	xs := make([]expr, len(ns))
	for i, n := range ns {
		k := c.fold(n)
		if !k.ok {
			return nil, false
		}
		xs[i] = constExpr{k.v}
	}
	v, err := build(xs).eval(c.foldState())
	return v, err == nil
}

func (c *compiler) foldLogic(n *binNode) (Value, bool) {
	left := c.fold(n.left)
	if !left.ok {
		return nil, false
	}
	truth, err := c.foldState().truth(left.v)
	if err != nil {
		return nil, false
	}
	if truth == (n.op == opOr) {
		return left.v, true
	}
	right := c.fold(n.right)
	return right.v, right.ok
}

// foldCompare stops at the first comparison that fails, so that what follows may
// be anything.
func (c *compiler) foldCompare(n *compareNode) (Value, bool) {
	left := c.fold(n.expr)
	if !left.ok {
		return nil, false
	}
	for _, o := range n.ops {
		right := c.fold(o.expr)
		if !right.ok {
			return nil, false
		}
		ok, err := c.foldState().compare(o.op, left.v, right.v)
		if err != nil {
			return nil, false
		}
		if !ok {
			return Bool(false), true
		}
		left = right
	}
	return Bool(true), true
}

func (c *compiler) foldCond(n *condNode) (Value, bool) {
	test := c.fold(n.test)
	if !test.ok {
		return nil, false
	}
	truth, err := c.foldState().truth(test.v)
	if err != nil {
		return nil, false
	}
	branch := n.otherwise
	if truth {
		branch = n.then
	}
	if branch == nil {
		return nil, false
	}
	k := c.fold(branch)
	return k.v, k.ok
}

func (c *compiler) foldItem(n *getitemNode) (Value, bool) {
	s, ok := n.arg.(*sliceNode)
	if !ok {
		return c.evalConst(func(x []expr) expr { return &getitemExpr{x[0], x[1], undefinedElement} }, n.node, n.arg)
	}
	x := c.fold(n.node)
	if !x.ok {
		return nil, false
	}
	bounds := [3]Value{None{}, None{}, None{}}
	for i, b := range []exprNode{s.start, s.stop, s.step} {
		if b == nil {
			continue
		}
		k := c.fold(b)
		if !k.ok {
			return nil, false
		}
		bounds[i] = k.v
	}
	v, err := c.foldState().slice(x.v, bounds)
	if isClass(err, typeError, lookupError) {
		return undefinedElement, true // unlike at run time, where it raises
	}
	return v, err == nil
}

func (c *compiler) foldFilter(n *filterNode) (Value, bool) {
	def := lib.filters[n.name]
	if n.isTest {
		def = lib.tests[n.name]
	}
	if def == nil || def.fn == nil || def.late || n.node == nil {
		return nil, false
	}
	x := c.fold(n.node)
	if !x.ok {
		return nil, false
	}
	var list argList
	ok := true
	arg := func(a exprNode) expr {
		if a == nil {
			return nil
		}
		k := c.fold(a)
		ok = ok && k.ok
		return constExpr{k.v}
	}
	for _, a := range n.args {
		list.pos = append(list.pos, arg(a))
	}
	for _, k := range n.kwargs {
		list.kw = append(list.kw, kwExpr{k.name, arg(k.value)})
	}
	list.dyn, list.kwd = arg(n.dynArgs), arg(n.dynKwds)
	if !ok {
		return nil, false
	}
	f := &filterExpr{def: def, x: constExpr{x.v}, args: list}
	v, err := f.eval(c.foldState())
	return v, err == nil
}

// maxConstant bounds the constants that are kept: what is larger is computed anew
// by each render, within its limits. Lists that hold each other are small and yet
// endless to look through.
const maxConstant = 10_000

// safeConstant tells whether jinja2 writes v into its code.
func safeConstant(v Value) bool {
	budget := maxConstant
	return everyPart(v, &budget, func(v Value) bool {
		switch v := v.(type) {
		case None, Bool, Int, Float, String, markup, *bigInt, *rangeValue, *List, *Dict:
			return true
		case *Tuple:
			return !v.group
		default:
			return false
		}
	})
}

func finite(v Value) bool {
	budget := maxConstant
	return everyPart(v, &budget, func(v Value) bool {
		f, ok := v.(Float)
		return !ok || !math.IsInf(float64(f), 0) && !math.IsNaN(float64(f))
	})
}

// everyPart tells whether v and all that it holds are so.
func everyPart(v Value, budget *int, ok func(Value) bool) bool {
	if *budget--; *budget < 0 || !ok(v) {
		return false
	}
	switch v := v.(type) {
	case *List:
		return everyItem(v.items, budget, ok)
	case *Tuple:
		return everyItem(v.items, budget, ok)
	case *Dict:
		for _, e := range v.entries {
			if !everyPart(e.key, budget, ok) || !everyPart(e.val, budget, ok) {
				return false
			}
		}
	}
	return true
}

func everyItem(items []Value, budget *int, ok func(Value) bool) bool {
	for _, item := range items {
		if !everyPart(item, budget, ok) {
			return false
		}
	}
	return true
}

func tooManyDigits(v Value) bool {
	b, ok := v.(*bigInt)
	return ok && digitCount(b.v) > maxIntDigits
}
