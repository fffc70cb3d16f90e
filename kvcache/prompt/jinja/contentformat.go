package jinja

// What vLLM 0.32 reads off a template's tree to find out whether it wants message
// content as a string or as a list of parts: whether it loops over the content of
// a message. It follows names through plain assignments and macro parameters, and
// knows nothing of scopes.

// formatDetector is one detection.
type formatDetector struct {
	root   *templateNode
	failed bool // an assertion of vLLM's failed: it then assumes strings
}

func detectFormat(root *templateNode) Format {
	d := &formatDetector{root: root}
	messages := d.messageNames()
	if d.failed {
		return StringFormat
	}
	if d.loopsOverContent(messages) && !d.failed {
		return OpenAIFormat
	}
	return StringFormat
}

// isVar tells whether n is the name, possibly filtered, tested or sliced, or with
// key that item of it.
func isVar(n exprNode, name, key string) bool {
	switch n := n.(type) {
	case *filterNode:
		return n.node != nil && isVar(n.node, name, key)
	case *getitemNode:
		if _, ok := n.arg.(*sliceNode); ok {
			return isVar(n.node, name, key)
		}
	}
	if key != "" {
		return isAttr(n, name, key)
	}
	return isVarAccess(n, name)
}

func isVarAccess(n exprNode, name string) bool {
	k, ok := n.(*nameNode)
	return ok && k.ctx == load && k.name == name
}

func isAttr(n exprNode, name, key string) bool {
	switch n := n.(type) {
	case *getitemNode:
		k, ok := n.arg.(*constNode)
		return ok && k.value == String(key) && isVarAccess(n.node, name)
	case *getattrNode:
		return n.attr == key && isVarAccess(n.node, name)
	default:
		return false
	}
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

// messageNames lists the names of loop variables over the messages.
func (d *formatDetector) messageNames() []string {
	all := []string{"messages"}
	seen := map[string]bool{"messages": true}
	for i := 0; i < len(all) && !d.failed; i++ {
		walk(d.root, func(n node) {
			a, ok := n.(*assignNode)
			if !ok || d.failed || !isVar(a.node, all[i], "") {
				return
			}
			if name := d.target(a.target); name != "" && !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		})
	}
	var out []string
	walk(d.root, func(n node) {
		loop, ok := n.(*forNode)
		if !ok || d.failed {
			return
		}
		for _, name := range all {
			if isVar(loop.iter, name, "") {
				out = append(out, d.target(loop.target))
				return
			}
		}
	})
	return out
}

// isContent tells whether n is the content of one of the messages.
func isContent(n exprNode, messages []string) bool {
	for _, name := range messages {
		if isVar(n, name, "content") {
			return true
		}
	}
	return false
}

func (d *formatDetector) loopsOverContent(messages []string) bool {
	inMacro := map[*forNode]bool{}
	params := map[*forNode]map[string]bool{}
	walk(d.root, func(n node) {
		m, ok := n.(*macroNode)
		if !ok {
			return
		}
		names := d.contentParams(m, messages)
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
	})
	found := false
	walk(d.root, func(n node) {
		loop, ok := n.(*forNode)
		if !ok || found || d.failed {
			return
		}
		name, isName := loop.iter.(*nameNode)
		switch {
		case isContent(loop.iter, messages):
		case isName && params[loop][name.name]:
		case isName && !inMacro[loop] && name.name == "content":
		default:
			return
		}
		d.target(loop.target)
		found = true
	})
	return found
}

// contentParams lists the parameters of a macro that some call gives a message's
// content.
func (d *formatDetector) contentParams(m *macroNode, messages []string) map[string]bool {
	out := map[string]bool{}
	known := map[string]bool{}
	for _, a := range m.args {
		known[a.name] = true
	}
	walk(d.root, func(n node) {
		call, ok := n.(*callNode)
		if !ok {
			return
		}
		if name, ok := call.node.(*nameNode); !ok || name.name != m.name {
			return
		}
		for i, arg := range call.args {
			if i < len(m.args) && isContent(arg, messages) {
				out[m.args[i].name] = true
			}
		}
		for _, k := range call.kwargs {
			if known[k.name] && isContent(k.value, messages) {
				out[k.name] = true
			}
		}
	})
	return out
}
