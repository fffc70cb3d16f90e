package jinja

// Undefined is jinja2's Undefined: what a name or attribute that does not exist
// yields. It prints as nothing and is false; most other uses raise.
type Undefined struct {
	hint string // what a use of it says, without values
}

func (*Undefined) typeName() string { return "Undefined" }

func undefinedName(name string) *Undefined {
	return &Undefined{hint: "'" + name + "' is undefined"}
}

func undefinedAttr(name string) *Undefined {
	return &Undefined{hint: "object has no attribute '" + name + "'"}
}

//nolint:gochecknoglobals // constants, but for their type
var (
	undefinedElement = &Undefined{hint: "object has no such element"}
	undefinedUnsafe  = &Undefined{hint: "access to this attribute is unsafe"}
)

// fail is the UndefinedError that a use of u raises.
func (u *Undefined) fail() error { return raise(otherError, "%s", u.hint) }
