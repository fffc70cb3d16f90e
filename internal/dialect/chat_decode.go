package dialect

import (
	"bytes"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func (chatCodec) NewStreamDecoder() StreamDecoder { return &chatDecoder{} }

// chatDecoder reads chunks. What the service says at the end (why it ended, what it used) is
// in several chunks, in any order, and not all services have a last word: so the end of the
// last part, Finish and End wait for [DONE] or the body's end.
type chatDecoder struct {
	ev     Event
	begun  bool
	over   bool
	id     string
	finish string
	met    string
	usage  Usage
	parts  chatParts
	text   []byte
	// spoken: reasoning_content has had text since the last signature.
	spoken bool
}

func (d *chatDecoder) Decode(name string, data []byte, emit func(*Event)) error {
	if d.over {
		return nil
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		d.end(emit)
		return nil
	}
	o, err := jsonscan.Parse(unlisted(data), 0)
	if err != nil {
		return &BodyError{Reason: "has an event that is not a JSON object: " + err.Error()}
	}
	if o.Value("error").Exists() || name == "error" || o.Value("object").Is("error") {
		d.fail(o, emit)
		return nil
	}
	if u := chatUsage(o.Value("usage")); u.Known {
		d.usage = u // the last report counts: they add up already
	}
	choice := chatFirst(o.Value("choices"))
	if choice.Kind() != jsonscan.KindObject {
		d.put(emit, Event{Kind: Keep})
		return nil
	}
	d.begin(o, emit)
	d.parts.emit = emit
	if err := d.delta(choice.Get("delta")); err != nil {
		return err
	}
	if s, ok := choice.Get("finish_reason").Str(); ok && s != "" {
		d.finish = s
		d.met, _ = choice.Get("stop_reason").Str()
	}
	return nil
}

// unlisted is the error of a list of one: Gemini's form, in streams, too.
func unlisted(data []byte) []byte {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return data
	}
	v, err := jsonscan.ParseValue(data, 0)
	if err != nil || v.Kind() != jsonscan.KindArray {
		return data
	}
	if it := v.Iter(); it.Next() && it.Value().Get("error").Exists() {
		return it.Value().Raw()
	}
	return data
}

func (d *chatDecoder) put(emit func(*Event), ev Event) {
	d.ev = ev
	emit(&d.ev)
}

func (d *chatDecoder) begin(o jsonscan.Object, emit func(*Event)) {
	if d.begun {
		return
	}
	d.begun = true
	ev := Event{Kind: Begin, Usage: d.usage}
	ev.ID, _ = o.Value("id").Str()
	ev.Model, _ = o.Value("model").Str()
	ev.Created, _ = o.Value("created").Int()
	d.id = ev.ID
	d.put(emit, ev)
}

func (d *chatDecoder) fail(o jsonscan.Object, emit func(*Event)) {
	d.over = true
	f := &Failure{}
	if v, err := jsonscan.ParseValue(o.Bytes(), 0); err == nil {
		chatError(f, v)
	}
	f.Message = clip(f.Message, maxMessage)
	f.Kind = chatFailureKind(f)
	d.put(emit, Event{Kind: Fail, Failure: f})
}

// delta reads what a chunk adds, in the order in which models say it.
func (d *chatDecoder) delta(v jsonscan.Value) error {
	var content, refusal, thought, thought2, blocks, calls, call jsonscan.Value
	for it := v.Iter(); it.Next(); {
		switch string(it.Key()) {
		case "content":
			content = it.Value()
		case "refusal":
			refusal = it.Value()
		case "reasoning_content":
			thought = it.Value()
		case "reasoning":
			thought2 = it.Value()
		case "thinking_blocks":
			blocks = it.Value()
		case "tool_calls":
			calls = it.Value()
		case "function_call":
			call = it.Value()
		default:
		}
	}
	if thought.Empty() { // some send both, and mean one
		thought = thought2
	}
	d.add(Reasoning, thought)
	d.spoken = d.spoken || !thought.Empty()
	d.blocks(blocks)
	if content.Kind() == jsonscan.KindArray {
		chatContent(content, func(kind PartKind, text string) { d.parts.text(kind, text) })
	} else {
		d.add(Text, content)
	}
	d.add(Refusal, refusal)
	for it := calls.Iter(); calls.Kind() == jsonscan.KindArray && it.Next(); {
		v := it.Value()
		index, ok := v.Get("index").Int()
		if !ok {
			index = noIndex
		}
		id, _ := v.Get("id").Str()
		d.call(index, id, callSignature(v), v.Get("function"))
	}
	if call.Kind() == jsonscan.KindObject {
		d.call(0, "", "", call)
	}
	return d.parts.err
}

func (d *chatDecoder) add(kind PartKind, v jsonscan.Value) {
	if v.Kind() != jsonscan.KindString || v.Empty() {
		return
	}
	d.text, _ = v.AppendText(d.text[:0])
	d.parts.text(kind, string(d.text))
}

func (d *chatDecoder) call(index int64, id, signature string, fn jsonscan.Value) {
	p := chatPart{index: index, id: id, signature: signature}
	p.name, _ = fn.Get("name").Str()
	d.parts.call(d.id, &p, chatArguments(fn.Get("arguments")))
}

// blocks reads thinking_blocks: signatures, and reasoning that is shown to nobody. Their
// texts may repeat what reasoning_content has said in pieces.
func (d *chatDecoder) blocks(list jsonscan.Value) {
	for it := list.Iter(); list.Kind() == jsonscan.KindArray && it.Next(); {
		b := it.Value()
		if hidden, ok := b.Get("data").Str(); ok && hidden != "" {
			d.parts.redacted(hidden)
			d.spoken = false
			continue
		}
		if !d.spoken {
			d.add(Reasoning, b.Get("thinking"))
		}
		if signature, ok := b.Get("signature").Str(); ok && signature != "" {
			d.parts.sign(signature, d.spoken)
			d.spoken = false
		}
	}
}

// BodyEnd takes the reason of the end for the last word, where there is no [DONE].
func (d *chatDecoder) BodyEnd(emit func(*Event)) {
	if d.finish != "" && !d.over {
		d.end(emit)
	}
}

func (d *chatDecoder) end(emit func(*Event)) {
	d.over = true
	d.begin(jsonscan.Object{}, emit)
	d.parts.emit = emit
	d.parts.flush()
	var met jsonscan.Value
	stop := chatStopOf(d.finish, met)
	if stop == StopEnd && d.met != "" {
		stop = StopText
	}
	stop = chatStopWith(stop, d.parts.called, d.parts.refused)
	ev := Event{Kind: Finish, Stop: stop, Usage: d.usage}
	if stop == StopText {
		ev.StopText = d.met
	}
	d.put(emit, ev)
	d.put(emit, Event{Kind: End})
}
