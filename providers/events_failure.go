package providers

import (
	"bytes"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/sse"
)

// The names and types of events that are errors.
const (
	errorEvent  = "error"
	failedEvent = "response.failed"
)

// mayFail is a first look at an event, for each of a stream: most are no errors.
func mayFail(ev sse.Event) bool {
	return string(ev.Name) == errorEvent || string(ev.Name) == failedEvent ||
		bytes.Contains(ev.Data, []byte(`"error"`)) || bytes.Contains(ev.Data, []byte(failedEvent))
}

// failing notes an event that is an error. One that speaks of the gateway's account is
// returned in our own words, any other as it is.
func (b *events) failing(ev sse.Event) sse.Event {
	v, err := jsonscan.ParseValue(ev.Data, 0)
	at, is := errorIn(v)
	if !is && (err == nil || string(ev.Name) != errorEvent) {
		return ev
	}
	f := b.failure(v, at)
	if !b.failed {
		b.failed = true
		b.call.streamFailed(f)
	}
	public := f.Public()
	if public == f && err == nil {
		return ev
	}
	return b.reworded(ev, v, at, public)
}

// errorIn returns the part of an event's data that is the error: a member error, as in chat
// and messages, that of the response in response.failed, or, in Responses' event of the type
// error, the whole object. An error that is null is none.
func errorIn(v jsonscan.Value) (at jsonscan.Value, is bool) {
	typ, _ := v.Get("type").Str()
	switch at = v.Get("error"); at.Kind() {
	case jsonscan.KindObject, jsonscan.KindString:
		return at, true
	default:
	}
	switch typ {
	case errorEvent:
		return v, true
	case failedEvent:
		return v.Get("response").Get("error"), true
	default:
		return jsonscan.Value{}, false
	}
}

// failure reads the error at some place of an event's data.
func (b *events) failure(v, at jsonscan.Value) *dialect.Failure {
	data := v.Raw()
	if at.Kind() != jsonscan.KindNone && at.Offset() != v.Offset() {
		data = append(append([]byte(`{"type":"error","error":`), at.Raw()...), '}')
	}
	return b.call.offer.from.Kind.Failure(0, nil, data)
}

// reworded returns an event with another error than it has.
func (b *events) reworded(ev sse.Event, v, at jsonscan.Value, f *dialect.Failure) sse.Event {
	_, data := b.call.failureCodec().EncodeFailure(f) // all of it, where nothing can be read
	if at.Kind() != jsonscan.KindNone {
		own := ownError(data, v, at)
		data = append(append(append([]byte(nil), ev.Data[:at.Offset()]...), own...), ev.Data[at.Offset()+len(at.Raw()):]...)
	}
	data = bytes.ReplaceAll(data, []byte("\n"), []byte(" ")) // between tokens: strings have none
	var raw []byte
	if len(ev.Name) > 0 {
		raw = append(append(append(raw, "event: "...), ev.Name...), '\n')
	}
	raw = append(append(append(raw, "data: "...), data...), "\n\n"...)
	return sse.Event{Raw: raw, Name: ev.Name, Data: data, HasData: true}
}

// ownError is the error of a body in the form that the event v has it at some place: of
// Responses' own events only code and message.
func ownError(body []byte, v, at jsonscan.Value) []byte {
	own, err := jsonscan.ParseValue(body, 0)
	e := own.Get("error")
	whole := at.Offset() == v.Offset()
	if err != nil || !whole && !v.Get("type").Is(failedEvent) {
		return e.Raw()
	}
	out := []byte{'{'}
	if whole {
		out = append(out, `"type":"error","param":null,`...)
		if n := v.Get("sequence_number"); n.Kind() == jsonscan.KindNumber {
			out = append(append(append(out, `"sequence_number":`...), n.Raw()...), ',')
		}
	}
	code := e.Get("code")
	if !code.Exists() {
		code = e.Get("type")
	}
	out = append(append(out, `"code":`...), code.Raw()...)
	out = append(append(out, `,"message":`...), e.Get("message").Raw()...)
	return append(out, '}')
}
