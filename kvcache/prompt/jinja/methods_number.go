package jinja

import "math"

// numberTable lists the methods of int and float.
func numberTable() map[string]*builtin {
	m := func(name string, fn func(v Value) (Value, error)) builtin {
		return builtin{name: name, params: []string{"self"}, required: 1, posOnly: true, fn: func(_ *state, a args) (Value, error) {
			return fn(a.pos[0])
		}}
	}
	return table([]builtin{
		m("bit_length", func(v Value) (Value, error) {
			b, _ := asBig(v)
			return Int(b.BitLen()), nil
		}),
		m("bit_count", func(v Value) (Value, error) {
			b, _ := asBig(v)
			n := 0
			for _, w := range b.Bits() {
				for ; w != 0; w &= w - 1 {
					n++
				}
			}
			return Int(n), nil
		}),
		m("conjugate", func(v Value) (Value, error) {
			if b, ok := v.(Bool); ok {
				n, _ := asInt(b)
				return Int(n), nil
			}
			return v, nil
		}),
		m("is_integer", func(v Value) (Value, error) {
			f, _, err := asFloat(v)
			return Bool(f == math.Trunc(f) && !math.IsInf(f, 0)), err
		}),
		{name: "as_integer_ratio"},
		{name: "to_bytes"},
		{name: "from_bytes"},
		{name: "hex"},
		{name: "fromhex"},
	})
}

// numberAttr returns an attribute of an int or float, nil if there is none.
func (st *state) numberAttr(v Value, name string) (Value, error) {
	_, isFloat := v.(Float)
	switch name {
	case "real", "numerator", "imag", "denominator":
		if isFloat {
			switch name {
			case "real":
				return v, nil
			case "imag":
				return Float(0), nil
			}
			return nil, nil //nolint:nilnil // no value is the answer
		}
		switch name {
		case "imag":
			return Int(0), nil
		case "denominator":
			return Int(1), nil
		}
		return st.sign(opPos, v)
	case "bit_length", "bit_count", "to_bytes", "from_bytes":
		if isFloat {
			return nil, nil //nolint:nilnil // no value is the answer
		}
	case "is_integer", "hex", "fromhex":
		if !isFloat {
			return nil, nil //nolint:nilnil // no value is the answer
		}
	}
	def := st.lib.num[name]
	if def == nil {
		return nil, nil //nolint:nilnil // no value is the answer
	}
	if def.fn == nil {
		return nil, unsupported("method %s", name)
	}
	return def.bind(v), nil
}
