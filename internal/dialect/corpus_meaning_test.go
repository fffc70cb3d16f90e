package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// TestCorpusMeaning reads what clients get back with their API's other half: it must say what
// the service said, whatever the goldens are.
func TestCorpusMeaning(t *testing.T) {
	counted := map[string]int{}
	for _, c := range readCorpus(t) {
		x, err := c.exchange()
		if err != nil {
			continue
		}
		client, service := c.codecs()
		same := func(want, got *assembled) {
			require.Equal(t, want.said(), got.said(), c.name)
			if !want.whole {
				return
			}
			require.Equal(t, want.end(client.Name()), got.end(client.Name()), c.name)
			if !x.stream || x.answer.IncludeUsage {
				require.Equal(t, want.spent(client.Name()), got.spent(client.Name()), c.name)
				if u := want.Usage; u.CacheRead > 0 && u.Reasoning > 0 {
					counted[client.Name()]++
				}
			}
		}
		if in, ok := c.get("service stream"); ok {
			text := c.stream(in)
			out, err := translate(x, text, c.cut(in), nil)
			want, got := assemble(service, text), readStream(client, out)
			require.NoError(t, want.bad, c.name)
			require.NoError(t, got.bad, c.name)
			require.Equal(t, want.whole && err == nil, got.whole, c.name)
			require.Empty(t, brokenLine(out), c.name)
			if client.Name() != responsesName || got.whole { // items that were not finished are in no list
				same(want, got)
			}
		}
		if in, ok := c.get("service answer"); ok {
			a, err := service.DecodeAnswer([]byte(in))
			require.NoError(t, err)
			out, err := x.Answer([]byte(in))
			require.NoError(t, err)
			got := readAnswer(client, out)
			require.NoError(t, got.bad, c.name)
			same(&assembled{Answer: *a, whole: true}, got)
		}
	}
	for _, client := range []string{chatName, messagesName, responsesName} {
		require.GreaterOrEqual(t, counted[client], 2, "cases of %s with all of a usage", client)
	}
}

// end is why the answer ended, as far as the client's API tells it.
func (a *assembled) end(client string) string {
	stop, calls, refused := a.Stop, false, false
	for i := range a.Parts {
		calls = calls || a.Parts[i].Kind == ToolCall
		refused = refused || a.Parts[i].Kind == Refusal
	}
	if stop == StopEnd || stop == StopUnknown || stop == StopTools {
		switch {
		case client == responsesName:
			stop = StopEnd
		case calls:
			stop = StopTools
		case refused:
			stop = StopRefusal
		default:
			stop = StopEnd
		}
	}
	switch {
	case stop == StopFilter, stop == StopRefusal && !(client == responsesName && refused):
		return "refused"
	case stop == StopLength, stop == StopPause && client == chatName:
		return "too long"
	case stop == StopText && client == messagesName:
		return "at " + a.StopText
	case stop == StopTools && client != responsesName:
		return "calls"
	case stop == StopPause && client == messagesName:
		return "pause"
	default:
		return "done"
	}
}

// spent is the usage as far as the client's API tells it: messages have two figures always.
func (a *assembled) spent(client string) Usage {
	u := a.Usage
	if client == messagesName {
		u.Known = true
	}
	return u
}

// readStream reads what a client gets, and readAnswer the same of a whole answer.
func readStream(client Client, out string) *assembled {
	if back, ok := client.(Service); ok {
		return assemble(back, []byte(out))
	}
	a := &assembled{}
	_, last, ok := strings.Cut(out[strings.LastIndex(out, "event: ")+1:], "data: ")
	v, err := jsonscan.ParseValue([]byte(strings.TrimSpace(last)), 0)
	switch {
	case out == "":
	case !ok || err != nil:
		a.bad = errors.New("a stream that ends with no event")
	case v.Get("type").Is("error"):
		a.failed = true
	case v.Get("response").Exists():
		a = readResponse(v.Get("response"))
		a.failed = v.Get("type").Is("response.failed")
		a.whole = v.Get("type").Is("response.completed") || v.Get("type").Is("response.incomplete")
	default: // broken off
	}
	return a
}

func readAnswer(client Client, out []byte) *assembled {
	if back, ok := client.(Service); ok {
		b, err := back.DecodeAnswer(out)
		if err != nil {
			return &assembled{bad: err}
		}
		return &assembled{Answer: *b, whole: true}
	}
	v, err := jsonscan.ParseValue(out, 0)
	a := readResponse(v)
	a.whole, a.bad = true, err
	return a
}

// readResponse reads a response object: no codec does.
func readResponse(v jsonscan.Value) *assembled {
	a := &assembled{}
	for it := v.Get("output").Iter(); it.Next(); {
		item := it.Value()
		text := func(v jsonscan.Value) string {
			s, _ := v.Str()
			return s
		}
		switch kind, _ := item.Get("type").Str(); kind {
		case "message":
			for it := item.Get("content").Iter(); it.Next(); {
				p := Part{Text: text(it.Value().Get("text"))}
				if it.Value().Get("type").Is("refusal") {
					p = Part{Kind: Refusal, Text: text(it.Value().Get("refusal"))}
				}
				a.Parts = append(a.Parts, p)
			}
		case "function_call":
			a.Parts = append(a.Parts, Part{
				Kind: ToolCall, ID: text(item.Get("call_id")), Name: text(item.Get("name")), Text: text(item.Get("arguments")),
			})
		case "reasoning":
			p := Part{Kind: Reasoning}
			for it := item.Get("summary").Iter(); it.Next(); {
				p.Text += text(it.Value().Get("text"))
			}
			seal := text(item.Get("encrypted_content"))
			p.Signature, _ = strings.CutPrefix(seal, markSignature)
			if hidden, ok := strings.CutPrefix(seal, markRedacted); ok {
				p.Signature, p.Redacted = "", hidden
			}
			a.Parts = append(a.Parts, p)
		}
	}
	a.Stop = StopEnd
	switch why := v.Get("incomplete_details").Get("reason"); {
	case why.Is("max_output_tokens"):
		a.Stop = StopLength
	case why.Is("content_filter"):
		a.Stop = StopFilter
	}
	u := v.Get("usage")
	a.Usage.Input, a.Usage.Known = count(u.Get("input_tokens"))
	a.Usage.Output, _ = count(u.Get("output_tokens"))
	a.Usage.CacheRead, a.Usage.CachedKnown = count(u.Get("input_tokens_details").Get("cached_tokens"))
	a.Usage.CacheWrite, _ = count(u.Get("input_tokens_details").Get("cache_write_tokens"))
	a.Usage.Reasoning, a.Usage.ReasoningKnown = count(u.Get("output_tokens_details").Get("reasoning_tokens"))
	return a
}

// assembled is an answer put together from a stream.
type assembled struct {
	Answer

	whole, failed bool
	// bad is what the order of events broke of the contract.
	bad error
}

// said is what can't differ between two APIs: the texts of each kind, and the calls.
func (a *assembled) said() map[string]string {
	m := map[string]string{}
	say := func(kind, text string) {
		if text != "" {
			m[kind] += text
		}
	}
	calls := 0
	for i := range a.Parts {
		switch p := &a.Parts[i]; p.Kind {
		case Text, Refusal: // messages have refusals as text
			say("text", p.Text)
		case Reasoning:
			say("reasoning", p.Text)
			say("signature", p.Signature)
			say("redacted", p.Redacted)
		case ToolCall:
			args := p.Text
			if strings.TrimSpace(args) == "" {
				args = "{}"
			}
			var b bytes.Buffer
			if json.Compact(&b, []byte(args)) == nil {
				args = b.String()
			} else if quoted, err := json.Marshal(args); err == nil { // what Messages makes of it
				args = `{"invalid_arguments":` + string(quoted) + `}`
			}
			calls++
			id, signature := unsealedID(p.ID)
			m["call "+strconv.Itoa(calls)] = id + " " + p.Name + " " + args
			say("signature of call "+strconv.Itoa(calls), signature+p.Signature)
		default:
		}
	}
	if a.failed {
		m["failed"] = "yes"
	}
	return m
}

// assemble decodes a stream and checks the order of its events.
func assemble(s Service, in []byte) *assembled {
	a := &assembled{}
	d := s.NewStreamDecoder()
	begun, open, finished := false, false, false
	wrong := func(cond bool, what string) {
		if cond && a.bad == nil {
			a.bad = errors.New(what)
		}
	}
	emit := func(ev *Event) {
		wrong(a.whole || a.failed, "an event after the last")
		switch ev.Kind {
		case Begin:
			wrong(begun, "two beginnings")
			begun = true
		case PartBegin:
			wrong(open || !begun || finished, "a part at the wrong place")
			open = true
			p := ev.Part
			p.Text = ""
			a.Parts = append(a.Parts, p)
		case Delta:
			wrong(!open, "a delta without a part")
			if open {
				a.Parts[len(a.Parts)-1].Text += ev.Text
				a.Parts[len(a.Parts)-1].Signature += ev.Signature
			}
		case PartEnd:
			wrong(!open, "an end without a part")
			open = false
		case Finish:
			wrong(open || finished || !begun, "a finish at the wrong place")
			finished = true
			a.Stop, a.StopText = ev.Stop, ev.StopText
			a.Usage = ev.Usage
		case Tally:
			a.Usage = ev.Usage
		case End:
			wrong(!finished, "an end without a finish")
			a.whole = true
		case Fail:
			a.failed = true
		case Keep:
		}
	}
	f := newSSEFraming(0)
	each := func(name string, data []byte) error {
		if data == nil {
			return nil
		}
		return d.Decode(name, data, emit)
	}
	err := f.Feed(in, each)
	if err == nil {
		err = f.End(each)
	}
	if e, ok := d.(BodyEnder); ok && err == nil && !a.whole && !a.failed {
		e.BodyEnd(emit)
	}
	return a
}
