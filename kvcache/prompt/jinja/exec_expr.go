package jinja

// constExpr is a constant.
type constExpr struct{ v Value }

func (x constExpr) eval(*state) (Value, error) { return x.v, nil }

// failExpr raises whenever it is evaluated.
type failExpr struct{ err error }

func (x failExpr) eval(*state) (Value, error) {
	if e, ok := x.err.(*Error); ok { //nolint:errorlint // made here, never wrapped
		c := *e // each failure notes its own line
		return nil, &c
	}
	return nil, x.err
}

// localExpr reads a variable of this frame.
type localExpr struct {
	slot  int
	undef *Undefined
}

func (x *localExpr) eval(st *state) (Value, error) {
	if v := st.frame.slots[x.slot]; v != nil {
		return v, nil
	}
	return x.undef, nil
}

// outerExpr reads a variable of a frame further out.
type outerExpr struct {
	ref   varRef
	undef *Undefined
}

func (x *outerExpr) eval(st *state) (Value, error) {
	if v := st.get(x.ref); v != nil {
		return v, nil
	}
	return x.undef, nil
}

// paramExpr reads a parameter, which jinja2 assumes to have a value.
type paramExpr struct{ ref varRef }

func (x *paramExpr) eval(st *state) (Value, error) {
	if v := st.get(x.ref); v != nil {
		return v, nil
	}
	return missing{}, nil
}

// missing is jinja2's marker of a variable without a value. A template sees it
// only by a macro that outlives the loop it refers to.
type missing struct{}

func (missing) typeName() string { return "MissingType" }

type tupleExpr []expr

func (x tupleExpr) eval(st *state) (Value, error) {
	items, err := st.evalAll(x)
	if err != nil {
		return nil, err
	}
	return NewTuple(items...), nil
}

type listExpr []expr

func (x listExpr) eval(st *state) (Value, error) {
	items, err := st.evalAll(x)
	if err != nil {
		return nil, err
	}
	return NewList(items...), nil
}

func (st *state) evalAll(xs []expr) ([]Value, error) {
	if err := st.growItems(len(xs)); err != nil {
		return nil, err
	}
	out := make([]Value, len(xs))
	for i, x := range xs {
		v, err := x.eval(st)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

type dictExpr struct{ keys, values []expr }

func (x *dictExpr) eval(st *state) (Value, error) {
	if err := st.growItems(len(x.keys)); err != nil {
		return nil, err
	}
	d := NewDict(len(x.keys))
	for i := range x.keys {
		k, err := x.keys[i].eval(st)
		if err != nil {
			return nil, err
		}
		v, err := x.values[i].eval(st)
		if err != nil {
			return nil, err
		}
		if err := d.set(k, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

type condExpr struct {
	test, then, otherwise expr // otherwise is never nil
}

func (x *condExpr) eval(st *state) (Value, error) {
	ok, err := st.test(x.test)
	if err != nil {
		return nil, err
	}
	if ok {
		return x.then.eval(st)
	}
	return x.otherwise.eval(st)
}

func (x *condExpr) print(st *state) error {
	ok, err := st.test(x.test)
	if err != nil {
		return err
	}
	if ok {
		return st.printExpr(x.then)
	}
	return st.printExpr(x.otherwise)
}

type andExpr struct{ left, right expr }

func (x *andExpr) eval(st *state) (Value, error) {
	v, err := x.left.eval(st)
	if err != nil {
		return nil, err
	}
	if ok, err := st.truth(v); err != nil || !ok {
		return v, err
	}
	return x.right.eval(st)
}

type orExpr struct{ left, right expr }

func (x *orExpr) eval(st *state) (Value, error) {
	v, err := x.left.eval(st)
	if err != nil {
		return nil, err
	}
	if ok, err := st.truth(v); err != nil || ok {
		return v, err
	}
	return x.right.eval(st)
}

type notExpr struct{ x expr }

func (x *notExpr) eval(st *state) (Value, error) {
	ok, err := st.test(x.x)
	return Bool(!ok), err
}

type signExpr struct {
	x  expr
	op unaryOp
}

func (x *signExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	return st.sign(x.op, v)
}

type binExpr struct {
	op          binOp
	left, right expr
}

func (x *binExpr) eval(st *state) (Value, error) {
	l, err := x.left.eval(st)
	if err != nil {
		return nil, err
	}
	r, err := x.right.eval(st)
	if err != nil {
		return nil, err
	}
	return st.binary(x.op, l, r)
}

type concatExpr []expr

func (x concatExpr) eval(st *state) (Value, error) {
	mark := len(st.out)
	if err := x.print(st); err != nil {
		return nil, err
	}
	s, err := st.take(mark)
	return String(s), err
}

func (x concatExpr) print(st *state) error {
	for _, item := range x {
		if err := st.printExpr(item); err != nil {
			return err
		}
	}
	return nil
}

// sumExpr is a + b + c ... Templates put their texts together that way, so the sum
// of strings is written piece by piece and made a string once, if at all.
type sumExpr []expr

func (x sumExpr) eval(st *state) (Value, error) {
	mark := len(st.out)
	v, err := x.sum(st, mark)
	if v != nil || err != nil {
		return v, err
	}
	s, err := st.take(mark)
	return String(s), err
}

func (x sumExpr) print(st *state) error {
	v, err := x.sum(st, len(st.out))
	if v == nil || err != nil {
		return err
	}
	return st.print(v)
}

// sum evaluates the sum. If all terms are strings they are left behind mark in the
// output and the result is nil.
func (x sumExpr) sum(st *state, mark int) (Value, error) {
	for i, term := range x {
		v, err := term.eval(st)
		if err != nil {
			return nil, err
		}
		if s, ok := v.(String); ok {
			if err := st.write(string(s)); err != nil {
				return nil, err
			}
			continue
		}
		if i > 0 {
			left, err := st.take(mark)
			if err != nil {
				return nil, err
			}
			if v, err = st.binary(opAdd, String(left), v); err != nil {
				return nil, err
			}
		}
		return x[i+1:].addTo(st, v)
	}
	return nil, nil //nolint:nilnil // the sum is in the output
}

func (x sumExpr) addTo(st *state, v Value) (Value, error) {
	for _, term := range x {
		w, err := term.eval(st)
		if err != nil {
			return nil, err
		}
		if v, err = st.binary(opAdd, v, w); err != nil {
			return nil, err
		}
	}
	return v, nil
}

type compareStep struct {
	op compareOp
	x  expr
}

// compareExpr is a chain of comparisons: a < b < c.
type compareExpr struct {
	first expr
	steps []compareStep
}

func (x *compareExpr) eval(st *state) (Value, error) {
	left, err := x.first.eval(st)
	if err != nil {
		return nil, err
	}
	for i := range x.steps {
		right, err := x.steps[i].x.eval(st)
		if err != nil {
			return nil, err
		}
		ok, err := st.compare(x.steps[i].op, left, right)
		if err != nil {
			return nil, err
		}
		if !ok {
			return Bool(false), nil
		}
		left = right
	}
	return Bool(true), nil
}

type getattrExpr struct {
	x     expr
	name  string
	undef *Undefined
}

func (x *getattrExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	if d, ok := v.(*Dict); ok && !dictNames[x.name] {
		// The usual case: a key that is no attribute of dicts.
		if item, ok := d.Get(x.name); ok {
			return item, nil
		}
		return x.undef, nil
	}
	v, err = st.getattr(v, x.name)
	if v == nil && err == nil {
		return x.undef, nil
	}
	return v, err
}

type getitemExpr struct {
	x, arg expr
	undef  *Undefined
}

func (x *getitemExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	arg, err := x.arg.eval(st)
	if err != nil {
		return nil, err
	}
	v, err = st.getitem(v, arg)
	if v == nil && err == nil {
		return x.undef, nil
	}
	return v, err
}

// sliceExpr is x[start:stop:step].
type sliceExpr struct {
	x                 expr
	start, stop, step expr // may be nil
}

func (x *sliceExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	var bounds [3]Value
	for i, b := range []expr{x.start, x.stop, x.step} {
		bounds[i] = None{}
		if b == nil {
			continue
		}
		if bounds[i], err = b.eval(st); err != nil {
			return nil, err
		}
	}
	return st.slice(v, bounds)
}

type filterExpr struct {
	def  *builtin
	x    expr
	args argList
}

func (x *filterExpr) eval(st *state) (Value, error) {
	mark := len(st.args)
	v, err := x.x.eval(st)
	if err != nil {
		return nil, err
	}
	st.args = append(st.args, v)
	a, err := x.args.eval(st, mark, nil)
	if err != nil {
		return nil, err
	}
	v, err = x.def.call(st, a)
	st.args = st.args[:mark]
	return v, err
}
