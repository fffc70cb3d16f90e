package jinja

// function is the code that one frame of variables serves: the template, a macro,
// a block, a recursive loop, a loop's filter. Scopes within it share its frame.
type function struct {
	parent *function
	slots  map[ident]int
}

func newFunction(parent *function) *function {
	return &function{parent: parent, slots: map[ident]int{}}
}

// slot returns the place of a variable in the frame, making one if need be.
func (f *function) slot(id ident) int {
	i, ok := f.slots[id]
	if !ok {
		i = len(f.slots)
		f.slots[id] = i
	}
	return i
}

// frame holds variables while rendering. nil is a variable without a value.
type frame struct {
	slots  []Value
	parent *frame // of the function around, as it was when the macro was defined
	few    [8]Value
}

func (f *function) newFrame(parent *frame) *frame {
	out := &frame{parent: parent}
	if n := len(f.slots); n <= len(out.few) {
		out.slots = out.few[:n]
	} else {
		out.slots = make([]Value, n)
	}
	return out
}

// varRef is where a variable is found: up frames outwards, in a slot.
type varRef struct{ up, slot int }

func (st *state) get(r varRef) Value {
	f := st.frame
	for range r.up {
		f = f.parent
	}
	return f.slots[r.slot]
}

func (st *state) put(r varRef, v Value) {
	f := st.frame
	for range r.up {
		f = f.parent
	}
	f.slots[r.slot] = v
}

// scope is a scope being compiled.
type scope struct {
	*symbols
	toplevel bool // of the template: a set is visible to blocks
	loop     bool // break and continue are allowed
	soft     bool // in a condition, where unknown filters are found out only when used
}

func (sc *scope) inner() *scope {
	return &scope{symbols: newSymbols(sc.symbols, sc.fn), loop: sc.loop}
}

// innerFunction is inner for a scope that becomes a function of its own.
func (sc *scope) innerFunction() *scope {
	return &scope{symbols: newSymbols(sc.symbols, newFunction(sc.fn))}
}

// softened is sc in a condition.
func (sc *scope) softened() *scope {
	c := *sc
	c.soft = true
	return &c
}

// scopeEntry fills the variables of a scope.
type scopeEntry struct {
	kind  loadKind
	slot  int
	from  varRef
	name  string
	index int // in the table of names the template reads
}

// locate finds a variable as seen from sc's function.
func (sc *scope) locate(id ident, holder *symbols) varRef {
	up := 0
	for f := sc.fn; f != holder.fn; f = f.parent {
		up++
	}
	return varRef{up, holder.fn.slot(id)}
}

// ref finds the variable that name means in sc.
func (sc *scope) ref(name string) (varRef, ident, bool) {
	id, holder, ok := sc.find(name)
	if !ok {
		return varRef{}, ident{}, false
	}
	return sc.locate(id, holder), id, true
}

// enter compiles what happens when the scope is entered.
func (c *compiler) enter(sc *scope) []scopeEntry {
	var out []scopeEntry
	for _, id := range sc.order {
		l := sc.loads[id]
		e := scopeEntry{kind: l.kind, slot: sc.fn.slot(id), name: id.name}
		switch l.kind {
		case loadParam:
			continue
		case loadAlias:
			_, holder, _ := sc.parent.find(l.outer.name)
			e.from = sc.locate(l.outer, holder)
		case loadResolve:
			e.index = c.resolve(id.name)
		case loadUndefined:
		}
		out = append(out, e)
	}
	return out
}

// leaveSlots are the variables that lose their value when the scope is left.
func (c *compiler) leaveSlots(sc *scope) []int {
	out := make([]int, 0, len(sc.order))
	for _, id := range sc.order {
		out = append(out, sc.fn.slot(id))
	}
	return out
}

func (st *state) enter(entries []scopeEntry) {
	slots := st.frame.slots
	for i := range entries {
		e := &entries[i]
		switch e.kind {
		case loadResolve:
			slots[e.slot] = st.resolve(e.index, e.name)
		case loadAlias:
			slots[e.slot] = st.get(e.from)
		case loadUndefined:
			slots[e.slot] = nil
		case loadParam:
		}
	}
}

func (st *state) leave(slots []int) {
	for _, s := range slots {
		st.frame.slots[s] = nil
	}
}
