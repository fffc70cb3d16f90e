package jinja

import (
	"maps"
	"slices"
)

// jinja2 decides before rendering which variable each name means, scope by scope,
// by rules that templates rely on without knowing (a set in an if reaches out of
// it, a set in a for doesn't, a macro sees what its surroundings become). symbols
// imitates that analysis, and what it says is imitated by slots: each scope has
// variables of its own, filled when the scope is entered.

// ident is a variable: a name at a depth of scopes.
type ident struct {
	level int
	name  string
}

// loadKind says how a variable gets its value when its scope is entered.
type loadKind uint8

const (
	loadParam     loadKind = iota // whoever enters the scope has set it
	loadResolve                   // from the template's variables
	loadAlias                     // from the surrounding scope's variable
	loadUndefined                 // nothing yet
)

type loadInfo struct {
	kind  loadKind
	outer ident // of loadAlias
}

// symbols is what is known of the names of one scope.
type symbols struct {
	level  int
	parent *symbols
	fn     *function // whose frame holds the variables
	refs   map[string]ident
	loads  map[ident]loadInfo
	order  []ident // the keys of loads
	stores map[string]bool
}

func newSymbols(parent *symbols, fn *function) *symbols {
	s := &symbols{
		parent: parent, fn: fn,
		refs: map[string]ident{}, loads: map[ident]loadInfo{}, stores: map[string]bool{},
	}
	if parent != nil {
		s.level = parent.level + 1
	}
	return s
}

func (s *symbols) copy() *symbols {
	c := newSymbols(s.parent, s.fn)
	c.level = s.level
	c.update(s)
	return c
}

// update adds what o knows to s.
func (s *symbols) update(o *symbols) {
	maps.Copy(s.refs, o.refs)
	for _, id := range o.order {
		s.setLoad(id, o.loads[id])
	}
	for name := range o.stores {
		s.stores[name] = true
	}
}

func (s *symbols) setLoad(id ident, l loadInfo) {
	if _, ok := s.loads[id]; !ok {
		s.order = append(s.order, id)
	}
	s.loads[id] = l
}

func (s *symbols) define(name string, l loadInfo) ident {
	id := ident{s.level, name}
	s.refs[name] = id
	s.setLoad(id, l)
	return id
}

// find returns the variable that name means here and the scope that holds it.
func (s *symbols) find(name string) (ident, *symbols, bool) {
	for ; s != nil; s = s.parent {
		if id, ok := s.refs[name]; ok {
			return id, s, true
		}
	}
	return ident{}, nil, false
}

func (s *symbols) findLoad(id ident) (loadInfo, bool) {
	for ; s != nil; s = s.parent {
		if l, ok := s.loads[id]; ok {
			return l, true
		}
	}
	return loadInfo{}, false
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.refs[name]; ok {
		return
	}
	if outer, _, ok := s.parent.find(name); ok {
		s.define(name, loadInfo{loadAlias, outer})
		return
	}
	s.define(name, loadInfo{kind: loadUndefined})
}

func (s *symbols) declare(name string) ident {
	s.stores[name] = true
	return s.define(name, loadInfo{kind: loadParam})
}

func (s *symbols) load(name string) {
	if _, _, ok := s.find(name); !ok {
		s.define(name, loadInfo{kind: loadResolve})
	}
}

// branches merges what the branches of an if know. A name that only some of them
// set has the value from before the if, or else from the template's variables.
func (s *symbols) branches(branches ...*symbols) {
	stores := map[string]bool{}
	for _, b := range branches {
		for name := range b.stores {
			if !s.stores[name] {
				stores[name] = true
			}
		}
	}
	for _, b := range branches {
		s.update(b)
	}
	names := make([]string, 0, len(stores))
	for name := range stores {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id, _, _ := s.find(name)
		if outer, _, ok := s.parent.find(name); ok {
			s.setLoad(id, loadInfo{loadAlias, outer})
			continue
		}
		s.setLoad(id, loadInfo{kind: loadResolve})
	}
}

// visit notes the names in n as far as they belong to this scope.
func (s *symbols) visit(n node) { s.visitAs(n, false) }

func (s *symbols) visitAs(n node, asParam bool) {
	switch n := n.(type) {
	case *nameNode:
		switch {
		case asParam || n.ctx == param:
			s.declare(n.name)
		case n.ctx == store:
			s.store(n.name)
		default:
			s.load(n.name)
		}
	case *nsRefNode:
		s.load(n.name)
	case *ifNode:
		s.visitIf(n, asParam)
	case *macroNode:
		s.store(n.name)
	case *assignNode:
		s.visitAs(n.node, asParam)
		s.visitAs(n.target, asParam)
	case *forNode:
		s.visitAs(n.iter, asParam)
	case *callBlockNode:
		if n.call != nil {
			s.visitAs(n.call, asParam)
		}
	case *filterBlockNode:
		s.visitAs(n.filter, asParam)
	case *withNode:
		for _, v := range n.values {
			s.visit(v)
		}
	case *assignBlockNode:
		s.visitAs(n.target, asParam)
	case *blockNode:
	default:
		n.children(func(c node) { s.visitAs(c, asParam) })
	}
}

func (s *symbols) visitIf(n *ifNode, asParam bool) {
	s.visitAs(n.test, asParam)
	branch := func(body []node) *symbols {
		b := s.copy()
		for _, c := range body {
			b.visitAs(c, asParam)
		}
		return b
	}
	body := branch(n.body)
	elifs := s.copy()
	for _, e := range n.elifs {
		elifs.visitIf(e, asParam)
	}
	s.branches(body, elifs, branch(n.orelse))
}

// visitAll notes the names of several nodes.
func visitAll[T node](s *symbols, nodes []T) {
	for _, n := range nodes {
		s.visit(n)
	}
}

// undeclared returns which of the names are read in nodes before they are set
// there, in the order of the text.
func undeclared(nodes []node, names ...string) map[string]bool {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	found := map[string]bool{}
	var visit func(n node)
	visit = func(n node) {
		switch n := n.(type) {
		case *nameNode:
			if n.ctx == load && wanted[n.name] {
				found[n.name] = true
			} else {
				delete(wanted, n.name)
			}
		case *blockNode:
		default:
			n.children(visit)
		}
	}
	for _, n := range nodes {
		visit(n)
	}
	return found
}
