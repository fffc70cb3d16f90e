package jinja

import "strings"

// getattr is v.name in a template: an attribute that the sandbox allows, or else
// the item of that name. nil is: neither.
func (st *state) getattr(v Value, name string) (Value, error) {
	a, err := st.attribute(v, name)
	if a != nil || err != nil {
		return a, err
	}
	switch d := v.(type) {
	case *Dict:
		if a, ok := d.Get(name); ok {
			return a, nil
		}
	case *dictType:
		return newAlias(String(name))
	}
	return nil, nil //nolint:nilnil // no value is the answer
}

// getitem is v[key] in a template: the item, or else the attribute of that name.
// nil is: neither.
func (st *state) getitem(v, key Value) (Value, error) {
	switch c := v.(type) {
	case *Dict:
		if err := st.hashed(key); err != nil {
			return nil, err
		}
		i, err := c.find(key)
		if err == nil && i >= 0 {
			return c.entries[i].val, nil
		}
	case *List:
		if i, ok := elementIndex(key, len(c.items)); ok {
			return c.items[i], nil
		}
	case *Tuple:
		if i, ok := elementIndex(key, len(c.items)); ok {
			return c.items[i], nil
		}
	case *rangeValue:
		if i, ok := elementIndex(key, c.len()); ok {
			return c.at(i), nil
		}
	case String:
		if isInt(key) {
			return st.charAt(string(c), key, false)
		}
	case markup:
		if isInt(key) {
			return st.charAt(string(c), key, true)
		}
	case *dictType:
		return newAlias(key)
	case *Undefined:
		return nil, c.fail()
	}
	if name, ok := asString(key); ok {
		return st.attribute(v, name)
	}
	return nil, nil //nolint:nilnil // no value is the answer
}

// elementIndex resolves an index, counted from the end if negative.
func elementIndex(key Value, n int) (int, bool) {
	i, ok := asInt(key)
	if !ok {
		return 0, false
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

func (st *state) charAt(s string, key Value, isMarkup bool) (Value, error) {
	i, ok := asInt(key)
	if !ok {
		return nil, nil //nolint:nilnil // no value is the answer
	}
	var c string
	switch {
	case i >= 0 && i < int64(len(s)):
		at := runeOffset(s, int(i))
		_, n := decodeRune(s[at:])
		c = s[at : at+n]
		if err := st.work(at); err != nil {
			return nil, err
		}
	case i < 0 && i >= -int64(len(s)):
		n := 0
		rest := s
		for ; i < 0 && rest != ""; i++ {
			_, n = decodeLastRune(rest)
			rest = rest[:len(rest)-n]
		}
		if i == 0 {
			c = s[len(rest) : len(rest)+n]
		}
		if err := st.work(len(s) - len(rest)); err != nil {
			return nil, err
		}
	}
	if c == "" {
		return nil, nil //nolint:nilnil // no value is the answer
	}
	if isMarkup {
		return markup(c), nil
	}
	return String(c), nil
}

// attribute is getattr(v, name) as far as the sandbox allows; nil if there is no
// such attribute.
func (st *state) attribute(v Value, name string) (Value, error) {
	switch o := v.(type) {
	case *Undefined:
		if dunders[name] {
			return undefinedUnsafe, nil
		}
		return nil, o.fail()
	case *namespace:
		return o.attr(name), nil
	}
	if strings.HasPrefix(name, "__") && (dunders[name] || dundersOf(v, name)) {
		return undefinedUnsafe, nil
	}
	var methods map[string]*builtin
	switch o := v.(type) {
	case String:
		methods = st.lib.strings
	case markup:
		return st.markupAttr(o, name), nil
	case *List:
		if mutators[name] {
			return undefinedUnsafe, nil
		}
		methods = st.lib.lists
	case *Tuple:
		if i, ok := map[string]int{"grouper": 0, "list": 1}[name]; ok && o.group {
			return o.items[i], nil
		}
		methods = st.lib.tuples
	case *Dict:
		if dictMutators[name] {
			return undefinedUnsafe, nil
		}
		methods = st.lib.dicts
	case *rangeValue:
		if bound, ok := map[string]int64{"start": o.start, "stop": o.stop, "step": o.step}[name]; ok {
			return Int(bound), nil
		}
		methods = st.lib.ranges
	case Int, Bool, *bigInt, Float:
		return st.numberAttr(v, name)
	case *loopContext:
		return o.attr(st, name)
	case *dictType:
		return o.attr(st, name), nil
	case *alias:
		if dictNames[name] {
			return nil, unsupported("an attribute of a types.GenericAlias")
		}
	default:
		return st.objectAttr(v, name), nil
	}
	if m := methods[name]; m != nil {
		if m.fn == nil {
			return nil, unsupported("method %s", name)
		}
		return m.bind(v), nil
	}
	return nil, nil //nolint:nilnil // no value is the answer
}

// attr returns an attribute; nil if there is none of that name.
func (n *namespace) attr(name string) Value {
	a, ok := n.attrs.Get(name)
	switch {
	case ok && strings.HasPrefix(name, "_"), name == "__class__":
		return undefinedUnsafe
	case ok:
		return a
	default:
		return nil
	}
}

// objectAttr returns attributes of jinja2's own objects and of views.
func (st *state) objectAttr(v Value, name string) Value {
	switch o := v.(type) {
	case *cycler:
		switch name {
		case "current":
			return o.items[o.pos]
		case "next":
			return method("next", o.next)
		case "reset":
			return method("reset", o.reset)
		case "items":
			return NewTuple(o.items...)
		case "pos":
			return Int(o.pos)
		}
	case *joiner:
		switch name {
		case "sep":
			return o.sep
		case "used":
			return Bool(o.used)
		}
	case *macro:
		return o.attr(name)
	case *dictView:
		if name == "mapping" || name == "isdisjoint" && o.kind != viewValues {
			return &callable{name: name, fn: func(*state, args) (Value, error) {
				return nil, unsupported("%s of a dict view", name)
			}}
		}
	case *generator:
		if o.kind == "generator" {
			switch name {
			case "gi_frame", "gi_code":
				return undefinedUnsafe
			case "gi_running", "gi_suspended":
				return Bool(false)
			case "send", "throw", "close", "gi_yieldfrom":
				return &callable{name: name, fn: func(*state, args) (Value, error) {
					return nil, unsupported("%s of a generator", name)
				}}
			}
		}
	}
	return nil
}

func (m *macro) attr(name string) Value {
	switch name {
	case "name":
		if m.code.anonymous {
			return None{}
		}
		return String(m.code.name)
	case "arguments":
		var names []Value
		for _, a := range m.code.args {
			names = append(names, String(a.name))
		}
		return NewTuple(names...)
	case "catch_kwargs":
		return Bool(m.code.kwargsSlot >= 0)
	case "catch_varargs":
		return Bool(m.code.varargsSlot >= 0)
	case "caller":
		return Bool(m.code.wantsCaller)
	case "explicit_caller":
		return Bool(m.code.explicitCaller)
	default:
		return nil
	}
}

func (c *cycler) next(_ *state, a args) (Value, error) {
	if len(a.pos) > 0 || len(a.kw) > 0 {
		return nil, raise(typeError, "next() takes no arguments")
	}
	v := c.items[c.pos]
	c.pos = (c.pos + 1) % len(c.items)
	return v, nil
}

func (c *cycler) reset(_ *state, a args) (Value, error) {
	if len(a.pos) > 0 || len(a.kw) > 0 {
		return nil, raise(typeError, "reset() takes no arguments")
	}
	c.pos = 0
	return None{}, nil
}

func set(names string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		out[name] = true
	}
	return out
}

// Tables of attribute names.
//
//nolint:gochecknoglobals // tables that nothing changes
var (
	// mutators are methods of lists that the sandbox hides.
	mutators     = set("append clear pop reverse insert sort extend remove")
	dictMutators = set("clear pop popitem setdefault update")
	// dictNames are all attributes of dicts that a template can reach or is kept
	// from: they win over keys.
	dictNames = set("clear copy fromkeys get items keys pop popitem setdefault update values " +
		objectDunders + " " + containerDunders + " __or__ __ror__ __ior__ __class_getitem__ __reversed__ __delitem__ __setitem__")
	dunders = set(objectDunders)
)

const (
	// objectDunders are special attributes that every object has.
	objectDunders = "__class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ " +
		"__gt__ __hash__ __init__ __init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ " +
		"__repr__ __setattr__ __sizeof__ __str__ __subclasshook__"
	containerDunders = "__contains__ __getitem__ __iter__ __len__"
)

//nolint:gochecknoglobals // a table that nothing changes
var moreDunders = set(containerDunders + " __add__ __mul__ __rmul__ __mod__ __rmod__ __getnewargs__ __reversed__ " +
	"__call__ __name__ __self__ __or__ __ror__ __ior__ __iadd__ __imul__ __setitem__ __delitem__ __class_getitem__ " +
	"__abs__ __bool__ __float__ __int__ __index__ __dict__ __module__ __next__ __del__")

// dundersOf tells whether a special attribute that not every object has exists on
// v. Nothing can be done with one but find out that it is there.
func dundersOf(v Value, name string) bool {
	if !moreDunders[name] {
		return false
	}
	switch v.(type) {
	case *Dict:
		return dictNames[name]
	case None:
		return name == "__bool__"
	case Int, Bool, *bigInt, Float:
		return !strings.Contains(containerDunders, name) && name != "__call__" && name != "__name__" && name != "__self__"
	default:
		return strings.Contains(containerDunders, name)
	}
}
