package dialect

// joinTurns joins neighbouring turns of one role that have calls of tools or results: the API
// wants all calls of a turn in one message, and the results of all of them right after it.
// first has where each turn began in the list.
func joinTurns(list []Message) (turns []Message, first []int) {
	turns, first = make([]Message, 0, len(list)), make([]int, 0, len(list))
	for i := range list {
		m := list[i]
		if n := len(turns); n > 0 && m.Role != System && turns[n-1].Role == m.Role && (usesTools(&turns[n-1]) || usesTools(&m)) {
			last := &turns[n-1]
			parts := make([]Part, 0, len(last.Parts)+len(m.Parts)) // the request's own are left alone
			last.Parts = append(append(parts, last.Parts...), m.Parts...)
			if last.Name == "" {
				last.Name = m.Name
			}
			continue
		}
		turns, first = append(turns, m), append(first, i)
	}
	return turns, first
}

func usesTools(m *Message) bool {
	for i := range m.Parts {
		if m.Parts[i].Kind == ToolCall || m.Parts[i].Kind == ToolResult {
			return true
		}
	}
	return false
}
