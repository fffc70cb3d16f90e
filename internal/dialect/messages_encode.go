package dialect

import (
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// EncodeRequest implements Service.
func (messages) EncodeRequest(r *Request, o *RequestOptions, note func(Warning)) ([]byte, error) {
	w := &messagesWriter{r: r, note: note, model: claudeOf(r.Model)}
	w.arrange()
	w.plan(o)
	w.member("model")
	w.str(r.Model)
	w.member("max_tokens")
	w.b = strconv.AppendInt(w.b, w.limit, 10)
	w.instructions()
	w.conversation()
	w.tools()
	w.choice()
	w.reasoning()
	w.sampling()
	w.stops()
	if r.User != "" {
		w.member("metadata")
		w.text(`{"user_id":`)
		w.str(r.User)
		w.text(`}`)
	}
	if r.Stream {
		w.member("stream")
		w.text(`true`)
	}
	w.rest()
	if w.err != nil {
		return nil, w.err
	}
	return append(w.b, '}'), nil
}

// messagesWriter writes a request. The first thing that can't be carried over sticks.
type messagesWriter struct {
	r     *Request
	note  func(Warning)
	model claude
	err   error
	b     []byte

	// What arrange made of the request's turns.
	system []Part
	turns  []Message
	// What plan made of its limits.
	limit    int64
	thinking messagesThinking
	// noted are the reasons noted of parts: once each.
	noted map[string]bool
}

func (w *messagesWriter) refuse(field, reason string) {
	if w.err == nil {
		w.err = &UnsupportedError{Field: field, Service: messagesName, Reason: reason}
	}
}

func (w *messagesWriter) warn(field, reason string) { w.note(Warning{Field: field, Reason: reason}) }

// warnOnce is for what every turn may have.
func (w *messagesWriter) warnOnce(field, reason string) {
	if w.noted[reason] {
		return
	}
	if w.noted == nil {
		w.noted = map[string]bool{}
	}
	w.noted[reason] = true
	w.warn(field, reason)
}

func (w *messagesWriter) text(s string) { w.b = append(w.b, s...) }
func (w *messagesWriter) raw(p []byte)  { w.b = append(w.b, p...) }
func (w *messagesWriter) str(s string)  { w.b = jsonscan.AppendString(w.b, s) }

// member begins a member of the body.
func (w *messagesWriter) member(name string) {
	if len(w.b) == 0 {
		w.b = append(w.b, '{')
	} else {
		w.b = append(w.b, ',')
	}
	w.str(name)
	w.b = append(w.b, ':')
}

// comma separates elements: first tells whether it is the first.
func (w *messagesWriter) comma(first bool) {
	if !first {
		w.b = append(w.b, ',')
	}
}

func (w *messagesWriter) instructions() {
	if len(w.system) == 0 {
		return
	}
	w.member("system")
	w.content("system", w.system)
}

func (w *messagesWriter) conversation() {
	w.member("messages")
	w.text(`[`)
	for i := range w.turns {
		w.comma(i == 0)
		if w.turns[i].Role == Assistant {
			w.text(`{"role":"assistant","content":`)
		} else {
			w.text(`{"role":"user","content":`)
		}
		w.content("messages", w.turns[i].Parts)
		w.text(`}`)
	}
	w.text(`]`)
}

// stops writes the stop sequences. The service refuses those of white space, and to leave
// one out would make answers longer.
func (w *messagesWriter) stops() {
	if len(w.r.Stop) == 0 {
		return
	}
	w.member("stop_sequences")
	w.text(`[`)
	for i, s := range w.r.Stop {
		if strings.TrimSpace(s) == "" {
			w.refuse("stop", "a stop sequence needs something else than white space")
		}
		w.comma(i == 0)
		w.str(s)
	}
	w.text(`]`)
}

// rest writes the API's own members, and decides on those of others.
func (w *messagesWriter) rest() {
	err := Leftover(w.r.Rest, messagesName, func(m *Member) bool {
		if m.From != messagesName {
			return false
		}
		w.member(m.Name)
		w.raw(m.Raw)
		return true
	}, w.note)
	if err != nil && w.err == nil {
		w.err = err
	}
}
