package kvsteer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/sse"
	"github.com/kvsteer/kvsteer/internal/usage"
)

// Answer reads a worker's answer as it passes by: the first token, the usage, the ids of
// responses and prompts, and the end. It ends its Selection, once, and tells the fleet how
// the worker did. It is what a [Transport] does, for gateways that drive HTTP themselves:
// make one with [Selection.Answer], give every byte to Pass, then call End or Break. It is
// safe for concurrent use; bytes must come in order.
type Answer struct {
	sel    *Selection
	member *fleet.Member // nil: a Transport tells the fleet, or nobody knows whose it is
	kind   answerKind
	// stranger: the Selection had ended when the answer came; it says nothing.
	stranger bool
	cause    error // why the answer is no success, nil if it is one
	// failure: the answer, however whole, is none that speaks for the worker.
	failure bool
	// swallow takes out the usage chunk that only we asked for: an event that may be it
	// is held back until it is whole. All other bytes are forwarded as they come.
	swallow bool

	mu       sync.Mutex
	reader   usage.Reader
	scan     sse.Scanner
	kept     []byte // of a JSON answer
	large    bool   // beyond maxKept: kept is the end of it
	pending  []byte // scanned and to be forwarded
	ahead    int    // how much of the event to come was forwarded before it was whole
	complete bool   // the response said that it was whole
	failed   bool   // the response holds an error in place of (more) content
	over     bool   // the Selection has ended
}

// answerKind is how an answer is read.
type answerKind uint8

const (
	plainAnswer answerKind = iota // not looked into
	jsonAnswer                    // usage at the end
	eventAnswer                   // server-sent events
)

// maxKept bounds how much of a JSON response is kept to read its usage from. Of a longer one
// it is the last maxTail bytes, at least, that are looked through for it.
const (
	maxKept = 8 << 20
	maxTail = 64 << 10
)

// Answer starts to read the answer to the current attempt, of which the status and the
// header are here; it may be an error, too. The Selection counts as alive until End or
// Break, one of which must be called. The answer to a Selection that has ended, as by
// [Selection.Moved], is passed on and counts for nothing.
func (s *Selection) Answer(status int, h http.Header) *Answer {
	s.hold()
	s.mu.Lock()
	member, asked, ended := s.attempt.member, s.asked, s.ended
	s.mu.Unlock()
	var cause error
	if status >= http.StatusBadRequest {
		cause = &statusError{status: status}
	}
	a := newAnswer(s, answerKindOf(status, h), cause)
	a.swallow, a.failure = asked && a.kind == eventAnswer, retryable(status)
	if a.stranger = ended; ended {
		return a
	}
	a.member = member
	if a.failure {
		s.blame(context.Background(), cause)
	}
	return a
}

func newAnswer(sel *Selection, kind answerKind, cause error) *Answer {
	if kind != eventAnswer {
		sel.Unseen()
	}
	a := &Answer{sel: sel, kind: kind, cause: cause}
	if cause == nil {
		sel.begins()
	}
	a.reader.WantIDs, _ = sel.parsed.object.Value("return_token_ids").Bool()
	a.reader.WantResponse = sel.parsed.api == Responses
	return a
}

func answerKindOf(status int, h http.Header) answerKind {
	if status != http.StatusOK {
		return plainAnswer
	}
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return plainAnswer // compressed although plain was asked for: nothing to see
	}
	switch mediaType(h) {
	case contentEventStream:
		return eventAnswer
	case contentJSON:
		return jsonAnswer
	default:
		return plainAnswer
	}
}

// Rewrites reports whether Pass may return other bytes than it is given. Then the
// answer's Content-Length, if it has one, must not be passed on.
func (a *Answer) Rewrites() bool { return a.swallow }

// Pass takes the next bytes of the body and returns those to forward, which are valid
// until the next call.
func (a *Answer) Pass(p []byte) []byte {
	out, _ := a.take(p, nil)
	return out
}

// End says that the body is through, and returns what is still to be forwarded. Further
// calls do nothing.
func (a *Answer) End() []byte {
	out, ended := a.take(nil, io.EOF)
	if ended && a.member != nil && !a.failure {
		a.member.ReportSuccess()
	}
	return out
}

// Break says that the body ends here for another reason: err is [context.Canceled], or
// wraps it, if the client no longer wants the rest or nobody knows, as nil stands for;
// anything else if the worker broke off. After End it does nothing.
func (a *Answer) Break(err error) {
	if err == nil {
		err = context.Canceled
	}
	err = unquoted(err)
	_, ended := a.take(nil, err)
	if ended && a.member != nil && !errors.Is(err, context.Canceled) {
		a.member.ReportFailure(err)
	}
}

// take looks at what came, and how the body ended if err is not nil. It returns what is
// to be forwarded, and whether this call has ended the answer.
func (a *Answer) take(p []byte, err error) (out []byte, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return p, false
	}
	if a.pending = a.pending[:0]; err != nil {
		a.pending = nil // whoever closes a body may still read what came before
	}
	switch a.kind {
	case eventAnswer:
		a.scan.Feed(p, a.event)
		if a.swallow && err == nil {
			a.hasten()
		}
		if err != nil {
			a.scan.Flush(a.event)
			a.finish(err)
		}
		if a.swallow {
			p = a.pending
		}
	case jsonAnswer:
		a.keep(p)
		if err != nil {
			a.conclude()
			a.finish(err)
		}
	case plainAnswer:
		if err != nil {
			a.finish(err)
		}
	}
	if !a.over && a.member != nil {
		a.sel.hold()
	}
	return p, a.over
}

func (a *Answer) keep(p []byte) {
	a.kept = append(a.kept, p...)
	if len(a.kept) > maxKept {
		a.large = true
	}
	if a.large && len(a.kept) > 2*maxTail {
		a.kept = append([]byte(nil), a.kept[len(a.kept)-maxTail:]...)
	}
}

// tail reads the usage at the end of an answer of which the beginning is gone: the last
// member of that name. Within a text its quotes would be escaped.
func (a *Answer) tail() {
	const name = `"usage":`
	at := bytes.LastIndex(a.kept, []byte(name))
	if at < 0 || at > 0 && a.kept[at-1] == '\\' {
		return
	}
	var value json.RawMessage
	if json.NewDecoder(bytes.NewReader(a.kept[at+len(name):])).Decode(&value) == nil {
		a.reader.Read(slices.Concat([]byte("{"), []byte(name), value, []byte("}")))
	}
}

// conclude reads what was kept. A decoder stops at the end of the value and never
// asks for the EOF after it: a whole value is a whole answer. a.mu is held.
func (a *Answer) conclude() {
	if a.large {
		a.tail()
		a.kept = nil
		return
	}
	if v, bad := jsonscan.ParseValue(a.kept, 0); bad == nil && v.Kind() == jsonscan.KindObject {
		a.complete = true
		a.failed = a.reader.Read(a.kept).Has(usage.Failed)
	}
	a.kept = nil
}

func (a *Answer) event(ev sse.Event) {
	drop := false
	if ev.HasData {
		if ev.Done() {
			a.complete = true
		}
		c := a.reader.Read(ev.Data)
		if c.Has(usage.Content) {
			a.sel.FirstToken()
		}
		a.failed = a.failed || c.Has(usage.Failed)
		drop = c.Has(usage.UsageOnly)
		switch string(ev.Name) {
		case "message_stop", "response.completed", "response.incomplete", "response.failed":
			a.complete = true
		default:
		}
	}
	if !a.swallow {
		return
	}
	done := min(a.ahead, len(ev.Raw))
	a.ahead -= done
	if !drop || done > 0 {
		a.pending = append(a.pending, ev.Raw[done:]...)
	}
}

// hasten forwards what there is of an event that can't be the usage chunk: whoever gives
// us the answer may have no way to send what is held back when the body ends.
func (a *Answer) hasten() {
	held := a.scan.Held()
	if a.ahead == 0 && mayBeUsage(held) {
		return
	}
	a.pending = append(a.pending, held[min(a.ahead, len(held)):]...)
	a.ahead = max(a.ahead, len(held))
}

// maxDoubt is within how many bytes a chunk with choices shows them. One that has not is
// held back until it is whole.
const maxDoubt = 8 << 10

// mayBeUsage reports whether an event that begins like that may turn out to be a chunk
// without choices.
func mayBeUsage(event []byte) bool {
	if len(event) > maxDoubt {
		return true // nor is it looked through anew for each part that comes
	}
	data, found := bytes.CutPrefix(event, []byte("data:"))
	for _, end := range []string{"\ndata:", "\rdata:"} {
		if !found {
			_, data, found = bytes.Cut(event, []byte(end))
		}
	}
	data = bytes.TrimLeft(data, " ")
	if !found || len(data) == 0 {
		return true
	}
	if data[0] != '{' {
		return false
	}
	for _, choices, found := bytes.Cut(data, []byte(`"choices":`)); found; _, choices, found = bytes.Cut(choices, []byte(`"choices":`)) {
		list, isList := bytes.CutPrefix(bytes.TrimLeft(choices, " "), []byte("["))
		if list = bytes.TrimLeft(list, " "); isList && len(list) > 0 && list[0] != ']' {
			return false
		}
	}
	return true
}

// finish ends the Selection, with the error that ended reading. What usage was reported
// until then counts in any case. a.mu is held.
func (a *Answer) finish(err error) {
	a.over = true
	if a.stranger {
		return
	}
	whole := errors.Is(err, io.EOF)
	switch {
	case a.failed:
		err = errInAnswer
	case whole || a.complete:
		err = a.cause
	case departure(err), errors.Is(err, errClientGone):
		a.sel.departs()
	default:
	}
	a.sel.streamed(a.reader.ContentChunks(), a.kind)
	if ids := a.reader.PromptIDs(); ids != nil {
		a.sel.reported(ids)
	}
	if id := a.reader.ResponseID(); id != "" {
		a.sel.answered(id)
	}
	a.sel.end(usageOf(&a.reader), err, false)
}

// usageOf is what was reported to r.
func usageOf(r *usage.Reader) Usage {
	u, known := r.Usage()
	return Usage{
		Uncached: u.Uncached, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Output: u.Output, Reasoning: u.Reasoning, Known: known, CachedKnown: u.CachedKnown,
	}
}
