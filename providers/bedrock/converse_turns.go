package bedrock

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// conversation writes the turns as the service takes them: instructions apart, turns of
// user and assistant in alternation, the user's first, no blank texts, and results of tools
// before all else that the user says.
func (w *writer) conversation() {
	w.out.System = w.blocks("system", w.r.System)
	for _, m := range w.r.Messages {
		if m.Name != "" {
			w.warn("messages[].name", "the service doesn't tell participants apart")
		}
		if m.Role == dialect.System {
			w.warn("messages[].role", "instructions amid the conversation were put before it")
			w.out.System = append(w.out.System, w.blocks("system", m.Parts)...)
			continue
		}
		role := "user"
		if m.Role == dialect.Assistant {
			role = "assistant"
		}
		content := w.beside(w.blocks("messages", m.Parts))
		if len(content) == 0 {
			continue
		}
		if n := len(w.out.Messages); n > 0 && w.out.Messages[n-1].Role == role {
			w.out.Messages[n-1].Content = append(w.out.Messages[n-1].Content, content...)
			continue
		}
		w.out.Messages = append(w.out.Messages, wireMessage{Role: role, Content: content})
	}
	for i := range w.out.Messages {
		if w.out.Messages[i].Role == "user" {
			resultsFirst(w.out.Messages[i].Content)
		}
	}
	w.complete()
}

// beside puts a text beside a document: the service takes none without.
func (w *writer) beside(content []wireBlock) []wireBlock {
	documents, texts := false, false
	for i := range content {
		documents = documents || content[i].Document != nil
		texts = texts || content[i].Text != nil
	}
	if documents && !texts {
		w.warn("messages[].content", "a text was put beside the document: the service needs one")
		text := filler
		content = append(content, wireBlock{Text: &text})
	}
	return content
}

// resultsFirst keeps a mark behind what it was behind.
func resultsFirst(content []wireBlock) {
	after := false // a result was before
	rank := make(map[*wireCachePoint]int)
	for i := range content {
		if content[i].CachePoint == nil {
			after = content[i].ToolResult != nil
		} else if !after {
			rank[content[i].CachePoint] = 1
		}
	}
	of := func(b *wireBlock) int {
		switch {
		case b.ToolResult != nil:
			return 0
		case b.CachePoint != nil:
			return rank[b.CachePoint]
		default:
			return 1
		}
	}
	slices.SortStableFunc(content, func(a, b wireBlock) int { return of(&a) - of(&b) })
}

// filler stands for a turn that the service wants and the client has not.
const filler = "."

// complete sees to it that the user begins, and that a last turn of the assistant's, which
// the answer goes on with, has no white space at its end.
func (w *writer) complete() {
	m := w.out.Messages
	switch {
	case len(m) == 0 && len(w.out.System) > 0:
		w.warn("messages", "the instructions were sent as the user's turn: the service needs one")
		w.out.Messages = []wireMessage{{Role: "user", Content: w.out.System}}
		w.out.System = nil
		return
	case len(m) == 0 || m[0].Role != "user":
		w.warn("messages", "a turn of the user's was put first: the service needs one")
		text := filler
		m = slices.Insert(m, 0, wireMessage{Role: "user", Content: []wireBlock{{Text: &text}}})
	}
	w.out.Messages = m
	last := &m[len(m)-1]
	if last.Role == "assistant" {
		if b := &last.Content[len(last.Content)-1]; b.Text != nil {
			text := strings.TrimRight(*b.Text, " \t\r\n")
			b.Text = &text
		}
	}
}

// blocks writes parts; what the service refuses as blank is left out.
func (w *writer) blocks(field string, parts []dialect.Part) []wireBlock {
	return w.blocksOf(field, parts, false)
}

// blocksOf writes parts, or those within a tool's result.
func (w *writer) blocksOf(field string, parts []dialect.Part, within bool) []wireBlock {
	var out []wireBlock
	for i := range parts {
		p := &parts[i]
		if b, ok := w.block(field, p); ok {
			out = append(out, b)
		}
		control := p.Cache
		for k := range p.Parts { // a result of a tool has no marks within
			if p.Parts[k].Cache != nil {
				control = p.Parts[k].Cache
			}
		}
		if mark := w.cachePoint(field, control); mark != nil && len(out) > 0 && !within {
			out = append(out, wireBlock{CachePoint: mark})
		}
	}
	return out
}

func (w *writer) block(field string, p *dialect.Part) (b wireBlock, ok bool) {
	switch p.Kind {
	case dialect.Text, dialect.Refusal:
		b.Text = &p.Text
		return b, strings.TrimSpace(p.Text) != ""
	case dialect.Image:
		b.Image = w.image(field, p)
	case dialect.Document:
		b.Document = w.document(field, p)
	case dialect.Audio:
		b.Audio = w.audio(field, p)
	case dialect.ToolCall:
		w.called = true
		b.ToolUse = &wireToolUse{ID: toolID(p.ID), Name: p.Name, Input: w.input(field, p.Text)}
	case dialect.ToolResult:
		w.called = true
		r := &wireToolResult{ID: toolID(p.ID), Content: w.blocksOf(field, p.Parts, true)}
		if r.Content == nil {
			r.Content = []wireBlock{} // the member must be there
		}
		if p.Failed && (w.family == anthropic || w.family == amazon || w.family == "") {
			r.Status = "error"
		}
		b.ToolResult = r
	case dialect.Reasoning:
		switch {
		case p.Redacted != "":
			b.ReasoningContent = &wireReasoning{Redacted: p.Redacted}
		case p.Signature != "":
			b.ReasoningContent = &wireReasoning{Text: &wireReasoningText{Text: p.Text, Signature: p.Signature}}
		default:
			w.warn("messages[]", "reasoning of other services is not taken back")
			return b, false
		}
	}
	return b, true
}

// input is a call's arguments as the object that the service wants. Models write other
// things at times: those are put into an object.
func (w *writer) input(field, arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage(`{}`)
	}
	v, err := jsonscan.ParseValue([]byte(arguments), 0)
	if err == nil && v.Kind() == jsonscan.KindObject {
		return v.Raw()
	}
	w.warn(field, "arguments that are no JSON object were put into one")
	return append(jsonscan.AppendString([]byte(`{"invalid_arguments":`), arguments), '}')
}
