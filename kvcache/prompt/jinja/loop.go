package jinja

// forStmt is a loop. One with extended has the variable "loop".
type forStmt struct {
	line      int
	iter      expr
	filter    *loopFilter // may be nil
	target    target
	single    bool // the target is the variable in slot simple of this frame
	simple    int
	extended  bool
	loopSlot  int
	enter     []scopeEntry
	body      []stmt
	leave     []int
	hasElse   bool
	elseEnter []scopeEntry
	orelse    []stmt
	elseLeave []int
}

func (s *forStmt) exec(st *state) (control, error) {
	v, err := s.iter.eval(st)
	if err != nil {
		return goOn, atLine(err, s.line)
	}
	return s.run(st, v, nil, 0)
}

// run loops over v. recurse is the loop as a function, if it is recursive.
func (s *forStmt) run(st *state, v Value, recurse *recursion, depth int) (control, error) {
	it, loop, err := s.start(st, v, recurse, depth)
	if err != nil {
		return goOn, atLine(err, s.line)
	}
	empty := true // until a body has run to its end: a break or continue leaves it so
	for {
		var item Value
		var ok bool
		if item, ok, err = it.next(st); err == nil && ok {
			err = st.step(1)
		}
		if err == nil && ok && !s.single {
			err = s.target.assign(st, item)
		}
		if err != nil {
			return goOn, atLine(err, s.line)
		}
		if !ok {
			break
		}
		if s.single {
			st.frame.slots[s.simple] = item
		}
		if loop != nil {
			st.frame.slots[s.loopSlot] = loop
		}
		st.enter(s.enter)
		var ctl control
		if ctl, err = st.run(s.body); err != nil {
			return goOn, err
		}
		if ctl == breakLoop {
			break
		}
		if ctl == goOn {
			empty = false
		}
	}
	st.leave(s.leave)
	if !s.hasElse || !empty {
		return goOn, nil
	}
	st.enter(s.elseEnter)
	ctl, err := st.run(s.orelse)
	if err == nil && ctl == goOn {
		st.leave(s.elseLeave)
	}
	return ctl, err
}

// start makes the iterator over v, and the variable "loop" if there is one.
func (s *forStmt) start(st *state, v Value, recurse *recursion, depth int) (iterator, *loopContext, error) {
	var loop *loopContext
	if s.extended {
		loop = &loopContext{recurse: recurse, depth0: depth, index0: -1}
	}
	if s.filter != nil {
		outer := st.frame
		if recurse != nil {
			outer = recurse.outer // the condition is not part of the loop's function
		}
		it := s.filter.over(v, outer)
		if loop == nil {
			return it, nil, nil
		}
		loop.it = it
		return loop, loop, nil
	}
	if loop == nil {
		it, err := st.iter(v)
		return it, nil, err
	}
	loop.over = v
	var err error
	switch v := v.(type) {
	case *List:
		loop.items.items = v.items
		loop.it = &loop.items
	case *Tuple:
		loop.items.items = v.items
		loop.it = &loop.items
	default:
		loop.it, err = st.iter(v)
	}
	return loop, loop, err
}

// loopFilter is the condition of a loop: a generator of the items that meet it.
type loopFilter struct {
	line   int
	fn     *function
	enter  []scopeEntry
	target target
	test   expr
}

func (f *loopFilter) over(v Value, outer *frame) iterator {
	var inner *frame
	var it iterator
	return iterFunc(func(st *state) (Value, bool, error) {
		caller := st.frame
		defer func() { st.frame = caller }()
		if inner == nil {
			inner = f.fn.newFrame(outer)
			st.frame = inner
			st.enter(f.enter)
			var err error
			if it, err = st.iter(v); err != nil {
				return nil, false, err
			}
		}
		st.frame = inner
		for {
			item, ok, err := it.next(st)
			if err != nil || !ok {
				return nil, false, err
			}
			if failed := st.step(1); failed != nil {
				return nil, false, failed
			}
			if failed := f.target.assign(st, item); failed != nil {
				return nil, false, failed
			}
			pass, err := st.test(f.test)
			if err != nil {
				return nil, false, atLine(err, f.line)
			}
			if pass {
				return item, true, nil
			}
		}
	})
}

// recursiveStmt is a loop marked recursive: a function that is called at once and,
// by "loop(...)", from within.
type recursiveStmt struct {
	loop *forStmt
	fn   *function
}

func (s *recursiveStmt) exec(st *state) (control, error) {
	v, err := s.loop.iter.eval(st)
	if err != nil {
		return goOn, atLine(err, s.loop.line)
	}
	r := &recursion{s, st.frame}
	text, err := r.call(st, v, 0)
	if err != nil {
		return goOn, atLine(err, s.loop.line)
	}
	return goOn, st.write(text)
}

// recursion is a recursive loop with the variables around it.
type recursion struct {
	stmt  *recursiveStmt
	outer *frame
}

func (r *recursion) call(st *state, v Value, depth int) (string, error) {
	if err := st.call(); err != nil {
		return "", err
	}
	caller := st.frame
	st.frame = r.stmt.fn.newFrame(r.outer)
	text, err := st.capture(func() error {
		_, err := r.stmt.loop.run(st, v, r, depth)
		return err
	})
	st.frame = caller
	st.depth--
	return text, err
}

// loopContext is the variable "loop".
type loopContext struct {
	it       iterator
	items    sliceIter // what it is for a list
	over     Value     // what is looped over, if its length may be asked for
	recurse  *recursion
	depth0   int
	index0   int
	length   int
	measured bool
	after    Value // peeked, not yet returned
	current  Value
	before   Value
	changed  *Tuple
}

func (*loopContext) typeName() string { return "LoopContext" }

func (l *loopContext) next(st *state) (Value, bool, error) {
	v := l.after
	l.after = nil
	if v == nil {
		var ok bool
		var err error
		if v, ok, err = l.it.next(st); err != nil || !ok {
			return nil, false, err
		}
	}
	l.index0++
	l.before, l.current = l.current, v
	return v, true, nil
}

func (l *loopContext) peek(st *state) (Value, error) {
	if l.after == nil {
		v, ok, err := l.it.next(st)
		if err != nil || !ok {
			return nil, err
		}
		l.after = v
	}
	return l.after, nil
}

// len is the length; a generator is read to its end to know it.
func (l *loopContext) len(st *state) (int, error) {
	if l.measured {
		return l.length, nil
	}
	n := 0
	err := error(nil)
	if l.over != nil {
		n, err = st.length(l.over)
	}
	if l.over == nil || err != nil {
		if err != nil && !isClass(err, typeError) {
			return 0, err
		}
		rest, err := st.drain(l.it)
		if err != nil {
			return 0, err
		}
		l.it = &sliceIter{items: rest}
		n = len(rest) + l.index0 + 1
		if l.after != nil {
			n++
		}
	}
	l.length, l.measured = n, true
	return n, nil
}

//nolint:gochecknoglobals // constants, but for their type
var (
	noPrevious = &Undefined{hint: "there is no previous item"}
	noNext     = &Undefined{hint: "there is no next item"}
)

// attr returns an attribute of the loop; nil if there is none of that name.
func (l *loopContext) attr(st *state, name string) (Value, error) {
	switch name {
	case "index":
		return Int(l.index0 + 1), nil
	case "index0":
		return Int(l.index0), nil
	case "first":
		return Bool(l.index0 == 0), nil
	case "last":
		v, err := l.peek(st)
		return Bool(v == nil), err
	case "length", "revindex", "revindex0":
		n, err := l.len(st)
		switch name {
		case "revindex":
			n -= l.index0
		case "revindex0":
			n -= l.index0 + 1
		}
		return Int(n), err
	case "previtem":
		if l.index0 == 0 {
			return noPrevious, nil
		}
		return l.before, nil
	case "nextitem":
		v, err := l.peek(st)
		if v == nil {
			return noNext, err
		}
		return v, err
	case "depth":
		return Int(l.depth0 + 1), nil
	case "depth0":
		return Int(l.depth0), nil
	case "cycle":
		return method("cycle", l.cycle), nil
	case "changed":
		return method("changed", l.hasChanged), nil
	default:
		return nil, nil //nolint:nilnil // no value is the answer
	}
}

func (l *loopContext) cycle(_ *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, raise(typeError, "cycle() got an unexpected keyword argument")
	}
	if len(a.pos) == 0 {
		return nil, raise(typeError, "no items for cycling given")
	}
	return a.pos[l.index0%len(a.pos)], nil
}

func (l *loopContext) hasChanged(st *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, raise(typeError, "changed() got an unexpected keyword argument")
	}
	now := NewTuple(append([]Value(nil), a.pos...)...)
	if l.changed != nil {
		same, err := st.equal(l.changed, now)
		if err != nil || same {
			return Bool(false), err
		}
	}
	l.changed = now
	return Bool(true), nil
}

// call renders the loop's body for other items.
func (l *loopContext) call(st *state, a args) (Value, error) {
	if len(a.pos) != 1 || len(a.kw) > 0 {
		return nil, raise(typeError, "loop() takes one argument")
	}
	if l.recurse == nil {
		return nil, raise(typeError, "the loop must have the 'recursive' marker to be called recursively")
	}
	text, err := l.recurse.call(st, a.pos[0], l.depth0+1)
	return String(text), err
}
