package jinja

import "strings"

// dictType is the class dict as a value.
type dictType struct{}

func (*dictType) typeName() string { return "type" }

// alias is what a class yields for a subscript, dict[key]: it calls as dict does.
// A template gets one for any attribute that dict doesn't have, and there are
// templates that live on that. Its key is a number, a string or None; what iterates
// it or takes its methods is refused, for that is not the same in all of Python's
// versions.
type alias struct{ key Value }

// aliasKey is what an alias hashes as.
type aliasKey struct{ key any }

func newAlias(key Value) (Value, error) {
	switch key.(type) {
	case String, Int, *bigInt, Bool, Float, None:
		return &alias{key}, nil
	default:
		return nil, unsupported("the class dict subscripted by a %s", key.typeName())
	}
}

func (*alias) typeName() string { return "types.GenericAlias" }

// attr returns an attribute of the class; its methods take their receiver as
// first argument.
func (*dictType) attr(st *state, name string) Value {
	switch {
	case name == "mro" || strings.HasPrefix(name, "__") && (dictNames[name] || moreDunders[name] || name == "__bases__"):
		return undefinedUnsafe
	case dictMutators[name]:
		return &callable{name: name, fn: func(*state, args) (Value, error) {
			return nil, unsupported("method %s of the class dict", name)
		}}
	case name == "fromkeys":
		return st.lib.dicts[name].bind(&Dict{})
	}
	def := st.lib.dicts[name]
	if def == nil {
		return nil
	}
	return &callable{name: name, fn: func(st *state, a args) (Value, error) {
		if len(a.pos) == 0 {
			return nil, raise(typeError, "unbound method dict.%s() needs an argument", name)
		}
		if _, ok := a.pos[0].(*Dict); !ok {
			return nil, raise(typeError, "descriptor %q doesn't apply to a %s object", name, a.pos[0].typeName())
		}
		return def.call(st, a)
	}}
}
