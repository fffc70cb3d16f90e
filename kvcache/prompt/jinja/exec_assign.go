package jinja

// target is what is assigned to.
type target interface {
	assign(st *state, v Value) error
}

type nameTarget struct {
	ref varRef
	top string // the name, if blocks see it
}

func (t nameTarget) assign(st *state, v Value) error {
	st.put(t.ref, v)
	if t.top != "" && st.tops != nil {
		st.tops.vars[t.top] = v
	}
	return nil
}

type nsTarget struct {
	ref  varRef
	attr string
}

func (t nsTarget) assign(st *state, v Value) error {
	switch ns := st.get(t.ref).(type) {
	case *namespace:
		ns.attrs.Set(t.attr, v)
		return nil
	case *Dict:
		return unsupported("assignment to an item of a dict")
	default:
		return raise(typeError, "object does not support item assignment")
	}
}

type tupleTarget []target

func (t tupleTarget) assign(st *state, v Value) error {
	switch v := v.(type) {
	case *Tuple:
		return t.assignAll(st, v.items)
	case *List:
		return t.assignAll(st, v.items)
	}
	it, err := st.iter(v)
	if err != nil {
		return err
	}
	var items []Value
	for len(items) <= len(t) {
		item, ok, err := it.next(st)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		items = append(items, item)
	}
	return t.assignAll(st, items)
}

func (t tupleTarget) assignAll(st *state, items []Value) error {
	if len(items) != len(t) {
		return raise(valueError, "wrong number of values to unpack, expected %d", len(t))
	}
	for i, item := range items {
		if err := t[i].assign(st, item); err != nil {
			return err
		}
	}
	return nil
}

type assignStmt struct {
	line       int
	target     target
	value      expr
	namespaces []varRef // have to be namespaces before value is evaluated
}

// namespaceChecks collects the variables in t whose attributes are assigned to.
func namespaceChecks(t target, refs []varRef) []varRef {
	switch t := t.(type) {
	case nsTarget:
		refs = append(refs, t.ref)
	case tupleTarget:
		for _, item := range t {
			refs = namespaceChecks(item, refs)
		}
	}
	return refs
}

func (s *assignStmt) exec(st *state) (control, error) {
	if err := st.step(1); err != nil {
		return goOn, atLine(err, s.line)
	}
	for _, r := range s.namespaces {
		if _, ok := st.get(r).(*namespace); !ok {
			return goOn, atLine(raise(otherError, "cannot assign attribute on non-namespace object"), s.line)
		}
	}
	v, err := s.value.eval(st)
	if err == nil {
		err = s.target.assign(st, v)
	}
	if err != nil {
		return goOn, atLine(err, s.line)
	}
	return goOn, nil
}

type assignBlockStmt struct {
	line   int
	enter  []scopeEntry
	body   []stmt
	filter *capturedFilter // may be nil
	target target
	leave  []int
}

func (s *assignBlockStmt) exec(st *state) (control, error) {
	st.enter(s.enter)
	text, ctl, err := st.captureBody(s.body)
	if err != nil || ctl != goOn {
		return ctl, err
	}
	var v Value = String(text)
	if s.filter != nil {
		v, err = s.filter.apply(st, text)
	}
	if err == nil {
		err = s.target.assign(st, v)
	}
	if err != nil {
		return goOn, atLine(err, s.line)
	}
	st.leave(s.leave)
	return goOn, nil
}
