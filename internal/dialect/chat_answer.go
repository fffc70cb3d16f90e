package dialect

import (
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func (chatCodec) DecodeAnswer(body []byte) (*Answer, error) {
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, &BodyError{Reason: "is not a JSON object: " + err.Error()}
	}
	choices := o.Value("choices")
	if choices.Len() == 0 || choices.Kind() != jsonscan.KindArray {
		if o.Value("error").Exists() {
			return nil, &BodyError{Reason: "is an error, though its status says otherwise"}
		}
		return nil, &BodyError{Field: "choices", Reason: "has no answer"}
	}
	a := &Answer{Usage: chatUsage(o.Value("usage"))}
	a.ID, _ = o.Value("id").Str()
	a.Model, _ = o.Value("model").Str()
	a.Created, _ = o.Value("created").Int()
	first := chatFirst(choices)
	msg := first.Get("message")
	if msg.Kind() != jsonscan.KindObject {
		return nil, &BodyError{Field: "choices[0].message", Reason: "must be an object"}
	}
	chatMessage(a, msg)
	finish, _ := first.Get("finish_reason").Str()
	a.Stop = chatStopOf(finish, first.Get("stop_reason"))
	var calls, refused bool
	for i := range a.Parts {
		calls = calls || a.Parts[i].Kind == ToolCall
		refused = refused || a.Parts[i].Kind == Refusal
	}
	a.Stop = chatStopWith(a.Stop, calls, refused)
	if a.Stop == StopText {
		a.StopText, _ = first.Get("stop_reason").Str()
	}
	return a, nil
}

// chatFirst is the choice with index 0: one answer is all that other APIs can hold.
func chatFirst(choices jsonscan.Value) (first jsonscan.Value) {
	for it := choices.Iter(); it.Next(); {
		v := it.Value()
		if n, ok := v.Get("index").Int(); !ok || n == 0 {
			return v
		}
	}
	return first
}

// chatMessage reads the parts of an answer's message.
func chatMessage(a *Answer, msg jsonscan.Value) {
	a.Parts = chatThoughts(msg)
	var open PartKind
	var text []byte // of the part that is open: there may be many pieces
	flush := func() {
		if len(text) > 0 {
			a.Parts = append(a.Parts, Part{Kind: open, Text: string(text)})
			text = text[:0]
		}
	}
	add := func(kind PartKind, piece string) {
		if kind != open {
			flush()
			open = kind
		}
		text = append(text, piece...)
	}
	chatContent(msg.Get("content"), add)
	if s, ok := msg.Get("refusal").Str(); ok {
		add(Refusal, s)
	}
	flush()
	call := func(id, signature string, fn jsonscan.Value) {
		if id == "" {
			id = chatCallID(a.ID, len(a.Parts))
		}
		p := Part{Kind: ToolCall, ID: id, Signature: signature}
		p.Name, _ = fn.Get("name").Str()
		p.Text = chatArguments(fn.Get("arguments"))
		a.Parts = append(a.Parts, p)
	}
	for it := msg.Get("tool_calls").Iter(); it.Next(); {
		id, _ := it.Value().Get("id").Str()
		call(id, callSignature(it.Value()), it.Value().Get("function"))
	}
	if fn := msg.Get("function_call"); fn.Exists() {
		call("", "", fn)
	}
}

// chatCallID makes an id for a call that came without: conversations must not repeat one.
func chatCallID(answer string, n int) string {
	return "call_" + answer + "_" + strconv.Itoa(n)
}

// chatArguments are a string that holds JSON; some services spell the JSON itself.
func chatArguments(v jsonscan.Value) string {
	if v.Kind() == jsonscan.KindObject {
		return string(v.Raw())
	}
	s, _ := v.Str()
	return s
}

// chatContent reads a string, or the lists of parts that services with reasoning models make
// of it: text, and reasoning that nests its texts in a summary or in a list of its own.
func chatContent(v jsonscan.Value, add func(kind PartKind, text string)) {
	if s, ok := v.Str(); ok {
		add(Text, s)
		return
	}
	for it := v.Iter(); v.Kind() == jsonscan.KindArray && it.Next(); {
		p := it.Value()
		kind, _ := p.Get("type").Str()
		switch kind {
		case "text", "output_text":
			s, _ := p.Get("text").Str()
			add(Text, s)
		case "refusal":
			s, _ := p.Get("refusal").Str()
			add(Refusal, s)
		case "reasoning", "thinking":
			for _, name := range [...]string{"text", "thinking", "reasoning", "summary"} {
				inner := p.Get(name)
				if s, ok := inner.Str(); ok {
					add(Reasoning, s)
					continue
				}
				for it := inner.Iter(); inner.Kind() == jsonscan.KindArray && it.Next(); {
					s, _ := it.Value().Get("text").Str()
					add(Reasoning, s)
				}
			}
		default: // citations and the like: nothing that the model said
		}
	}
}

// chatStopOf reads finish_reason. vLLM's stop_reason has the stop sequence that was met, or
// the id of a token.
func chatStopOf(finish string, met jsonscan.Value) Stop {
	switch finish {
	case "stop", "eos", "end_turn", "eos_token":
		if s, ok := met.Str(); ok && s != "" {
			return StopText
		}
		return StopEnd
	case "stop_sequence":
		return StopText
	case "length", "max_tokens", "model_length":
		return StopLength
	case "tool_calls", "function_call":
		return StopTools
	case "content_filter":
		return StopFilter
	default:
		return StopUnknown
	}
}

// chatStopWith corrects a reason by what there is: services say stop where a call was forced,
// and others say it always. Clients of other APIs act on the reason.
func chatStopWith(s Stop, calls, refused bool) Stop {
	switch {
	case calls && (s == StopEnd || s == StopUnknown):
		return StopTools
	case refused && !calls && s == StopEnd:
		return StopRefusal
	default:
		return s
	}
}

// chatUsage reads a report. Cached tokens are part of prompt_tokens.
func chatUsage(v jsonscan.Value) (u Usage) {
	var in, out bool
	u.Input, in = count(v.Get("prompt_tokens"))
	u.Output, out = count(v.Get("completion_tokens"))
	u.Known = in || out
	details := v.Get("prompt_tokens_details")
	u.CacheRead, u.CachedKnown = count(details.Get("cached_tokens"))
	if n, ok := count(details.Get("cache_write_tokens")); ok {
		u.CacheWrite, u.CachedKnown = n, true
	}
	u.Reasoning, u.ReasoningKnown = count(v.Get("completion_tokens_details").Get("reasoning_tokens"))
	if total, ok := count(v.Get("total_tokens")); ok && in && total-u.Input > u.Output {
		// Gemini and others leave reasoning out of completion_tokens, and charge for it.
		thought := total - u.Input - u.Output
		u.Output = total - u.Input
		u.Reasoning, u.ReasoningKnown = max(u.Reasoning, thought), true
	}
	return u
}

func count(v jsonscan.Value) (int64, bool) {
	if n, ok := v.Int(); ok && n >= 0 {
		return n, true
	}
	return 0, false
}

func (chatCodec) EncodeAnswer(dst []byte, a *Answer, o *AnswerOptions) []byte {
	w := jsonWriter{b: append(dst, '{')}
	h := chatHead(a.ID, a.Model, a.Created, o)
	w.key("id").str(h.ID)
	w.key("object").str("chat.completion")
	w.key("created").int(h.Created)
	w.key("model").str(h.Model)
	w.key("choices").open('[')
	w.open('{')
	w.key("index").int(0)
	w.key("message").open('{')
	refused := chatWriteMessage(&w, a)
	w.end('}')
	w.key("logprobs").raw("null")
	w.key("finish_reason").str(chatFinish(a.Stop, refused))
	w.end('}')
	w.end(']')
	if a.Usage.Known {
		chatWriteUsage(w.key("usage"), &a.Usage)
	}
	w.end('}')
	return w.b
}

// chatHead fills in what the service didn't say, and the model that the client asked for.
func chatHead(id, model string, created int64, o *AnswerOptions) Answer {
	a := Answer{ID: id, Model: model, Created: created}
	if a.ID == "" {
		a.ID = "chatcmpl-" + o.ID
	}
	if o.Model != "" {
		a.Model = o.Model
	}
	if a.Created == 0 {
		a.Created = o.Created
	}
	return a
}

func chatWriteMessage(w *jsonWriter, a *Answer) (refused bool) {
	var text, refusal, thoughts strings.Builder
	calls, texts, signed := 0, 0, false
	for i := range a.Parts {
		switch p := &a.Parts[i]; p.Kind {
		case Text:
			texts++
			text.WriteString(p.Text)
		case Refusal:
			refused = true
			refusal.WriteString(p.Text)
		case Reasoning:
			thoughts.WriteString(p.Text)
			signed = signed || p.Signature != "" || p.Redacted != ""
		case ToolCall:
			calls++
		default:
		}
	}
	w.key("role").str("assistant")
	if texts > 0 || calls == 0 && !refused {
		w.key("content").str(text.String())
	} else {
		w.key("content").raw("null")
	}
	if refused {
		w.key("refusal").str(refusal.String())
	} else {
		w.key("refusal").raw("null")
	}
	if thoughts.Len() > 0 {
		w.key("reasoning_content").str(thoughts.String())
	}
	if signed {
		w.key("thinking_blocks").open('[')
		for i := range a.Parts {
			if a.Parts[i].Kind == Reasoning {
				chatWriteThought(w, &a.Parts[i])
			}
		}
		w.end(']')
	}
	if calls > 0 {
		w.key("tool_calls").open('[')
		for i := range a.Parts {
			if p := &a.Parts[i]; p.Kind == ToolCall {
				chatWriteCall(w, p, i)
			}
		}
		w.end(']')
	}
	return refused
}

// chatWriteThought writes reasoning that is to be handed back as it is, in the form that
// gateways to Anthropic's models gave it: the API itself has no place for signatures.
func chatWriteThought(w *jsonWriter, p *Part) {
	w.open('{')
	if p.Redacted != "" {
		w.key("type").str("redacted_thinking")
		w.key("data").str(p.Redacted)
	} else {
		w.key("type").str("thinking")
		w.key("thinking").str(p.Text)
		w.key("signature").str(p.Signature)
	}
	w.end('}')
}

func chatFinish(s Stop, refused bool) string {
	switch s {
	case StopLength, StopPause:
		return "length"
	case StopTools:
		return "tool_calls"
	case StopFilter:
		return "content_filter"
	case StopRefusal:
		if refused { // the message says so itself
			return "stop"
		}
		return "content_filter"
	case StopEnd, StopText, StopUnknown:
	}
	return "stop"
}

func chatWriteUsage(w *jsonWriter, u *Usage) {
	w.open('{')
	w.key("prompt_tokens").int(u.Input)
	w.key("completion_tokens").int(u.Output)
	w.key("total_tokens").int(u.Input + u.Output)
	if u.CachedKnown {
		w.key("prompt_tokens_details").open('{')
		w.key("cached_tokens").int(u.CacheRead)
		if u.CacheWrite > 0 {
			w.key("cache_write_tokens").int(u.CacheWrite)
		}
		w.end('}')
	}
	if u.ReasoningKnown {
		w.key("completion_tokens_details").open('{')
		w.key("reasoning_tokens").int(u.Reasoning)
		w.end('}')
	}
	w.end('}')
}
