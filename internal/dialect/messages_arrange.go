package dialect

import (
	"slices"
	"strings"
)

// fillerTurn stands for a turn that the API wants and the client has not.
const fillerTurn = "."

// arrange brings the conversation into the form that the API takes: instructions apart,
// turns of user and assistant in alternation, the user's first, no empty texts, tools'
// results before all else that the user says.
func (w *messagesWriter) arrange() {
	w.system = w.said(nil, w.r.System)
	for _, m := range w.r.Messages {
		if m.Name != "" {
			w.warnOnce("messages[].name", "the service doesn't tell participants apart")
		}
		if m.Role == System {
			w.warnOnce("messages[].role", "instructions amid the conversation were put before it")
			w.system = w.said(w.system, m.Parts)
			continue
		}
		parts := w.said(nil, m.Parts)
		if len(parts) == 0 {
			continue
		}
		if n := len(w.turns); n > 0 && w.turns[n-1].Role == m.Role {
			w.turns[n-1].Parts = append(w.turns[n-1].Parts, parts...)
			continue
		}
		w.turns = append(w.turns, Message{Role: m.Role, Parts: parts})
	}
	w.complete()
	for i := range w.turns {
		if w.turns[i].Role == User {
			slices.SortStableFunc(w.turns[i].Parts, func(a, b Part) int { return resultsFirst(&a) - resultsFirst(&b) })
		}
	}
	if n := len(w.turns); w.turns[n-1].Role == Assistant {
		if w.model.has(claudeAdaptive) {
			w.refuse("messages", "this model begins a new answer and can't go on with one that was begun: end with a turn of the user's")
		}
		trimLast(&w.turns[n-1])
	}
}

func resultsFirst(p *Part) int {
	if p.Kind == ToolResult {
		return 0
	}
	return 1
}

// complete sees to it that the user begins.
func (w *messagesWriter) complete() {
	switch {
	case len(w.turns) == 0 && len(w.system) > 0:
		w.warn("messages", "the instructions were sent as the user's turn: the service needs one")
		w.turns = []Message{{Role: User, Parts: w.system}}
		w.system = nil
	case len(w.turns) == 0 || w.turns[0].Role == Assistant:
		w.warn("messages", "a turn of the user's was put first: the service needs one")
		w.turns = slices.Insert(w.turns, 0, Message{Role: User, Parts: []Part{{Kind: Text, Text: fillerTurn}}})
	default:
	}
}

// said appends the parts that the API takes: it refuses texts without any, and reasoning
// that it hasn't signed.
func (w *messagesWriter) said(dst, parts []Part) []Part {
	for _, p := range parts {
		switch p.Kind {
		case Text, Refusal:
			if strings.TrimSpace(p.Text) == "" {
				continue
			}
			p.Kind = Text
		case Reasoning:
			if p.Signature == "" && p.Redacted == "" {
				w.warnOnce("messages[]", "reasoning of other services is not taken back")
				continue
			}
		case Image, Document, Audio, ToolCall, ToolResult:
		}
		dst = append(dst, p)
	}
	return dst
}

// trimLast removes the white space at the end of a last turn of the assistant's, which the
// answer is to continue: the API refuses it.
func trimLast(m *Message) {
	last := &m.Parts[len(m.Parts)-1]
	if last.Kind == Text {
		last.Text = strings.TrimRight(last.Text, " \t\r\n")
	}
}
