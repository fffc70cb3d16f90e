package jinja

import "slices"

// What vLLM 0.32 reads off a template's tree to find out whether it wants message
// content as a string or as a list of parts: whether it loops over the content of
// a message. It follows names through plain assignments and macro parameters, and
// knows nothing of scopes.

// formatDetector is one detection.
type formatDetector struct {
	assigns []*assignNode
	loops   []*forNode
	macros  []*macroNode
	calls   map[string][]*callNode // of a plain name
	failed  bool                   // an assertion of vLLM's failed: it then assumes strings
}

func detectFormat(root *templateNode) Format {
	d := &formatDetector{calls: map[string][]*callNode{}}
	walk(root, func(n node) {
		switch n := n.(type) {
		case *assignNode:
			d.assigns = append(d.assigns, n)
		case *forNode:
			d.loops = append(d.loops, n)
		case *macroNode:
			d.macros = append(d.macros, n)
		case *callNode:
			if name, ok := n.node.(*nameNode); ok {
				d.calls[name.name] = append(d.calls[name.name], n)
			}
		}
	})
	messages := d.messageNames()
	if !d.failed && d.loopsOverContent(messages) && !d.failed {
		return OpenAIFormat
	}
	return StringFormat
}

// variable returns the name that n reads, possibly filtered, tested or sliced, or
// with key the name whose item of that key it reads; "" if it is nothing like that.
func variable(n exprNode, key string) string {
	for {
		switch k := n.(type) {
		case *filterNode:
			if k.node == nil {
				return ""
			}
			n = k.node
			continue
		case *getitemNode:
			if _, ok := k.arg.(*sliceNode); ok {
				n = k.node
				continue
			}
			if c, ok := k.arg.(*constNode); ok && key != "" && c.value == String(key) {
				return plainName(k.node)
			}
		case *getattrNode:
			if key != "" && k.attr == key {
				return plainName(k.node)
			}
		case *nameNode:
			if key == "" {
				return plainName(k)
			}
		}
		return ""
	}
}

func plainName(n exprNode) string {
	if k, ok := n.(*nameNode); ok && k.ctx == load {
		return k.name
	}
	return ""
}

// target returns the name that a loop or assignment sets.
func (d *formatDetector) target(n exprNode) string {
	name, ok := n.(*nameNode)
	if !ok {
		d.failed = true
		return ""
	}
	return name.name
}

// messageNames returns the names of loop variables over the messages.
func (d *formatDetector) messageNames() map[string]bool {
	copies := map[string][]*assignNode{}
	for _, a := range d.assigns {
		if name := variable(a.node, ""); name != "" {
			copies[name] = append(copies[name], a)
		}
	}
	all := map[string]bool{"messages": true}
	for queue := []string{"messages"}; len(queue) > 0 && !d.failed; queue = queue[1:] {
		for _, a := range copies[queue[0]] {
			if name := d.target(a.target); name != "" && !all[name] {
				all[name] = true
				queue = append(queue, name)
			}
		}
	}
	out := map[string]bool{}
	for _, loop := range d.loops {
		if all[variable(loop.iter, "")] && !d.failed {
			out[d.target(loop.target)] = true
		}
	}
	return out
}

func (d *formatDetector) loopsOverContent(messages map[string]bool) bool {
	isContent := func(n exprNode) bool {
		name := variable(n, "content")
		return name != "" && messages[name]
	}
	inMacro := map[*forNode]bool{}
	params := map[*forNode]map[string]bool{}
	for _, m := range d.macros {
		names := d.contentParams(m, isContent)
		walk(m, func(c node) {
			loop, ok := c.(*forNode)
			if !ok {
				return
			}
			inMacro[loop] = true
			if len(names) > 0 {
				params[loop] = names
			}
		})
	}
	for _, loop := range d.loops {
		name, isName := loop.iter.(*nameNode)
		switch {
		case isContent(loop.iter):
		case isName && params[loop][name.name]:
		case isName && !inMacro[loop] && name.name == "content":
		default:
			continue
		}
		d.target(loop.target)
		return true
	}
	return false
}

// contentParams lists the parameters of a macro that some call gives a message's
// content.
func (d *formatDetector) contentParams(m *macroNode, isContent func(exprNode) bool) map[string]bool {
	out := map[string]bool{}
	for _, call := range d.calls[m.name] {
		for i, arg := range call.args {
			if i < len(m.args) && isContent(arg) {
				out[m.args[i].name] = true
			}
		}
		for _, k := range call.kwargs {
			known := slices.ContainsFunc(m.args, func(a *nameNode) bool { return a.name == k.name })
			if known && isContent(k.value) {
				out[k.name] = true
			}
		}
	}
	return out
}
