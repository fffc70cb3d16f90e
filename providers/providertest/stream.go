package providertest

import (
	"bytes"
	"net/http"
)

// stream writes events as a.Frames say.
func (x *exchange) stream(a *Answer, events []event) {
	f := &a.Frames
	x.change(func() { x.r.Status = http.StatusOK })
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	x.w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(x.w)
	if flusher.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	if f.NoDone && len(events) > 0 {
		events = events[:len(events)-1]
	}
	for i := range events {
		at := i + 1
		if !x.wait(x.ctx, a.Pace) {
			panic(http.ErrAbortHandler)
		}
		switch at {
		case f.DieAt:
			panic(http.ErrAbortHandler)
		case f.StallAt:
			x.hang(x.ctx)
			panic(http.ErrAbortHandler)
		case f.FailAt:
			x.write(f, x.failed(f.Fault, at))
			return
		default:
		}
		text := x.frame(f, &events[i], at)
		if at == f.DieWithin {
			x.write(f, text[:len(text)/2])
			panic(http.ErrAbortHandler)
		}
		x.write(f, text)
	}
}

// frame is the text of an event.
func (x *exchange) frame(f *Frames, e *event, at int) []byte {
	end, space := "\n", " "
	switch {
	case f.CRLF:
		end = "\r\n"
	case f.CR:
		end = "\r"
	}
	if f.NoSpace {
		space = ""
	}
	var b bytes.Buffer
	if f.Comments {
		b.WriteString(": keep-alive" + end + end)
	}
	if e.name != "" {
		b.WriteString("event:" + space + e.name + end)
	}
	data := e.data
	if at == f.PadAt {
		data = pad(data, f.Pad)
	}
	b.WriteString("data:" + space)
	b.Write(data)
	b.WriteString(end + end)
	return b.Bytes()
}

// pad makes a JSON object longer by a member that nobody knows.
func pad(data []byte, length int) []byte {
	const before, after = `{"padding":"`, `",`
	missing := length - len(data) - len(before) - len(after) + 1
	if missing <= 0 || len(data) < 3 || data[0] != '{' {
		return data
	}
	out := append([]byte(before), bytes.Repeat([]byte{'p'}, missing)...)
	return append(append(out, after...), data[1:]...)
}

// write writes in as many pieces as Split says. Each is on its way before the next.
func (x *exchange) write(f *Frames, text []byte) {
	flusher := http.NewResponseController(x.w)
	for len(text) > 0 {
		n := len(text)
		if f.Split > 0 {
			n = min(n, f.Split)
		}
		if _, err := x.w.Write(text[:n]); err != nil {
			panic(http.ErrAbortHandler) // the client left
		}
		if flusher.Flush() != nil {
			panic(http.ErrAbortHandler)
		}
		text = text[n:]
	}
}

// failed is an error within a stream.
func (x *exchange) failed(fault Fault, at int) []byte {
	if fault == NoFault {
		fault = ServerError
	}
	p := &problem{fault: fault}
	e := event{}
	switch {
	case x.dialect == Anthropic:
		_, kind, text := anthropicWords(p, x.r.Model)
		e = event{"error", encode(object{"type": "error", "error": object{"type": kind, "message": text}})}
	case x.endpoint == responses:
		w := x.openAIWords(p)
		e = event{"error", encode(object{
			"type": "error", "code": or(w.code, w.kind), "message": w.text, "param": null(w.param), "sequence_number": at - 1,
		})}
	default:
		_, body := x.failure(p)
		e.data = body
	}
	return x.frame(&Frames{}, &e, 0)
}
