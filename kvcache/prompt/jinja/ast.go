package jinja

// The tree has the nodes of jinja2's, with children in the order of its fields:
// scope analysis depends on the order.

// node is a statement or an expression.
type node interface {
	// children calls f for each child in order.
	children(f func(node))
}

type exprNode interface {
	node
	pos() int // the line
}

// at is embedded for the line of a node.
type at int

func (a at) pos() int { return int(a) }

// nameCtx says what a name is for.
type nameCtx uint8

const (
	load nameCtx = iota
	store
	param
)

type (
	nameNode struct {
		at
		name string
		ctx  nameCtx
	}
	nsRefNode struct { // namespace attribute as assignment target
		at
		name, attr string
	}
	constNode struct {
		at
		value Value
	}
	tupleNode struct {
		at
		items []exprNode
	}
	listNode struct {
		at
		items []exprNode
	}
	pairNode struct{ key, value exprNode }
	dictNode struct {
		at
		items []pairNode
	}
	condNode struct {
		at
		test, then, otherwise exprNode // otherwise may be nil
	}
	callArgs struct {
		args             []exprNode
		kwargs           []keyword
		dynArgs, dynKwds exprNode // may be nil
	}
	keyword struct {
		name  string
		value exprNode
	}
	filterNode struct { // also a test
		at
		node exprNode // nil in a filter block
		name string
		callArgs
		isTest bool
	}
	callNode struct {
		at
		node exprNode
		callArgs
	}
	getitemNode struct {
		at
		node, arg exprNode
	}
	getattrNode struct {
		at
		node exprNode
		attr string
	}
	sliceNode struct {
		at
		start, stop, step exprNode // may be nil
	}
	concatNode struct {
		at
		nodes []exprNode
	}
	operand struct {
		op   compareOp
		expr exprNode
	}
	compareNode struct {
		at
		expr exprNode
		ops  []operand
	}
	binNode struct {
		at
		op          binOp
		left, right exprNode
	}
	unaryNode struct {
		at
		op   unaryOp
		node exprNode
	}
)

type binOp uint8

const (
	opAdd binOp = iota
	opSub
	opMul
	opDiv
	opFloorDiv
	opMod
	opPow
	opAnd
	opOr
)

type unaryOp uint8

const (
	opNot unaryOp = iota
	opNeg
	opPos
)

type compareOp uint8

const (
	cmpEq compareOp = iota
	cmpNe
	cmpLt
	cmpLe
	cmpGt
	cmpGe
	cmpIn
	cmpNotIn
)

// Statements.
type (
	dataNode struct {
		at
		text string
	}
	outputNode struct {
		at
		nodes []node // exprNode or *dataNode
	}
	forNode struct {
		at
		target, iter exprNode
		body, orelse []node
		test         exprNode // may be nil
		recursive    bool
	}
	ifNode struct {
		at
		test   exprNode
		body   []node
		elifs  []*ifNode
		orelse []node
	}
	macroNode struct { // also the body of a call block
		name     string
		args     []*nameNode
		defaults []exprNode
		body     []node
		at
	}
	callBlockNode struct {
		call *callNode // nil: a generation block
		*macroNode
	}
	filterBlockNode struct {
		at
		body   []node
		filter *filterNode
	}
	withNode struct {
		at
		targets, values []exprNode
		body            []node
	}
	assignNode struct {
		at
		target, node exprNode
	}
	assignBlockNode struct {
		at
		target exprNode
		filter *filterNode // may be nil
		body   []node
	}
	blockNode struct {
		at
		name             string
		scoped, required bool
		body             []node
	}
	breakNode    struct{ at }
	continueNode struct{ at }
	templateNode struct{ body []node }
)

func each[T node](f func(node), nodes []T) {
	for _, n := range nodes {
		f(n)
	}
}

func some(f func(node), nodes ...exprNode) {
	for _, n := range nodes {
		if n != nil {
			f(n)
		}
	}
}

func (*nameNode) children(func(node))       {}
func (*nsRefNode) children(func(node))      {}
func (*constNode) children(func(node))      {}
func (n *tupleNode) children(f func(node))  { each(f, n.items) }
func (n *listNode) children(f func(node))   { each(f, n.items) }
func (n *concatNode) children(f func(node)) { each(f, n.nodes) }
func (n *dictNode) children(f func(node)) {
	for _, p := range n.items {
		some(f, p.key, p.value)
	}
}
func (n *condNode) children(f func(node)) { some(f, n.test, n.then, n.otherwise) }
func (a *callArgs) visit(f func(node)) {
	each(f, a.args)
	for _, k := range a.kwargs {
		f(k.value)
	}
	some(f, a.dynArgs, a.dynKwds)
}
func (n *filterNode) children(f func(node))  { some(f, n.node); n.visit(f) }
func (n *callNode) children(f func(node))    { some(f, n.node); n.visit(f) }
func (n *getitemNode) children(f func(node)) { some(f, n.node, n.arg) }
func (n *getattrNode) children(f func(node)) { some(f, n.node) }
func (n *sliceNode) children(f func(node))   { some(f, n.start, n.stop, n.step) }
func (n *compareNode) children(f func(node)) {
	f(n.expr)
	for _, o := range n.ops {
		f(o.expr)
	}
}
func (n *binNode) children(f func(node))    { some(f, n.left, n.right) }
func (n *unaryNode) children(f func(node))  { some(f, n.node) }
func (*dataNode) children(func(node))       {}
func (n *outputNode) children(f func(node)) { each(f, n.nodes) }
func (n *forNode) children(f func(node)) {
	some(f, n.target, n.iter)
	each(f, n.body)
	each(f, n.orelse)
	some(f, n.test)
}

func (n *ifNode) children(f func(node)) {
	some(f, n.test)
	each(f, n.body)
	each(f, n.elifs)
	each(f, n.orelse)
}

func (n *macroNode) children(f func(node)) {
	each(f, n.args)
	each(f, n.defaults)
	each(f, n.body)
}

func (n *callBlockNode) children(f func(node)) {
	if n.call != nil {
		f(n.call)
	}
	n.macroNode.children(f)
}
func (n *filterBlockNode) children(f func(node)) { each(f, n.body); f(n.filter) }
func (n *withNode) children(f func(node)) {
	each(f, n.targets)
	each(f, n.values)
	each(f, n.body)
}
func (n *assignNode) children(f func(node)) { some(f, n.target, n.node) }
func (n *assignBlockNode) children(f func(node)) {
	f(n.target)
	if n.filter != nil {
		f(n.filter)
	}
	each(f, n.body)
}
func (n *blockNode) children(f func(node))    { each(f, n.body) }
func (*breakNode) children(func(node))        {}
func (*continueNode) children(func(node))     {}
func (n *templateNode) children(f func(node)) { each(f, n.body) }

// walk calls f for every descendant of n, parents first.
func walk(n node, f func(node)) {
	n.children(func(c node) {
		f(c)
		walk(c, f)
	})
}
