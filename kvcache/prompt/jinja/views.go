package jinja

type dictView struct {
	d    *Dict
	kind uint8
}
type sliceValue struct{}

func (*dictView) typeName() string   { return "dict_items" }
func (*sliceValue) typeName() string { return "slice" }
