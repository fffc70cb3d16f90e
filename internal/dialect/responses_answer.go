package dialect

import (
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// The states of a response and of its items.
const (
	respInProgress = "in_progress"
	respCompleted  = "completed"
	respIncomplete = "incomplete"
	respFailed     = "failed"
)

// EncodeAnswer appends a response object.
func (responses) EncodeAnswer(dst []byte, a *Answer, o *AnswerOptions) []byte {
	s := newResponsesShape(a.ID, a.Model, a.Created, o)
	status, reason := responsesEnd(a.Stop, hasRefusal(a.Parts))
	var output responsesOutput
	for i := 0; i < len(a.Parts); {
		p := &a.Parts[i]
		n := 1
		if isSaid(p.Kind) { // neighbours are one message
			for i+n < len(a.Parts) && isSaid(a.Parts[i+n].Kind) {
				n++
			}
		}
		last := respCompleted
		if i+n == len(a.Parts) {
			last = status
		}
		id := s.itemID(p.Kind, output.count)
		switch p.Kind {
		case Text, Refusal:
			var content []byte
			for _, q := range a.Parts[i : i+n] {
				content = appendContent(content, q.Kind, q.Text)
			}
			output.add(appendMessageItem(nil, id, last, content))
		case ToolCall:
			output.add(appendCallItem(nil, id, last, sealedID(p.ID, p.Signature), p.Name, argumentsOf(p.Text)))
		case Reasoning:
			output.add(appendThoughtItem(nil, id, last, p.Text, sealed(p.Signature, p.Redacted)))
		case Image, Document, Audio, ToolResult: // no answer has such
		}
		i += n
	}
	return s.append(dst, &responsesState{status: status, reason: reason, output: output.json, usage: a.Usage})
}

// isSaid reports whether parts of a kind are content of a message.
func isSaid(k PartKind) bool { return k == Text || k == Refusal }

func hasRefusal(parts []Part) bool {
	for i := range parts {
		if parts[i].Kind == Refusal {
			return true
		}
	}
	return false
}

// responsesEnd is the state of a response that ended so, and why it is incomplete.
func responsesEnd(stop Stop, refused bool) (status, reason string) {
	switch stop {
	case StopLength:
		return respIncomplete, "max_output_tokens"
	case StopFilter:
		return respIncomplete, "content_filter"
	case StopRefusal:
		if refused { // it says so itself
			return respCompleted, ""
		}
		return respIncomplete, "content_filter"
	case StopUnknown, StopEnd, StopText, StopTools, StopPause:
		return respCompleted, ""
	default:
		return respCompleted, ""
	}
}

// sealed is what a client hands back unread.
func sealed(signature, redacted string) string {
	switch {
	case redacted != "":
		return markRedacted + redacted
	case signature != "":
		return markSignature + signature
	default:
		return ""
	}
}

// responsesOutput is the list of finished items.
type responsesOutput struct {
	json  []byte
	count int
}

func (o *responsesOutput) add(item []byte) {
	if o.count > 0 {
		o.json = append(o.json, ',')
	}
	o.json = append(o.json, item...)
	o.count++
}

func appendContent(dst []byte, kind PartKind, text string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	if kind == Refusal {
		dst = append(dst, `{"type":"refusal","refusal":`...)
		dst = jsonscan.AppendString(dst, text)
		return append(dst, '}')
	}
	dst = append(dst, `{"type":"output_text","text":`...)
	dst = jsonscan.AppendString(dst, text)
	return append(dst, `,"annotations":[],"logprobs":[]}`...)
}

func appendItemHead(dst []byte, kind, id, status string) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonscan.AppendString(dst, id)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","status":"`...)
	dst = append(dst, status...)
	return append(dst, '"')
}

func appendMessageItem(dst []byte, id, status string, content []byte) []byte {
	dst = appendItemHead(dst, "message", id, status)
	dst = append(dst, `,"role":"assistant","content":[`...)
	dst = append(dst, content...)
	return append(dst, `]}`...)
}

func appendCallItem(dst []byte, id, status, callID, name, arguments string) []byte {
	dst = appendItemHead(dst, "function_call", id, status)
	dst = append(dst, `,"call_id":`...)
	dst = jsonscan.AppendString(dst, callID)
	dst = append(dst, `,"name":`...)
	dst = jsonscan.AppendString(dst, name)
	dst = append(dst, `,"arguments":`...)
	dst = jsonscan.AppendString(dst, arguments)
	return append(dst, '}')
}

// argumentsOf are a finished call's: clients parse them, and nothing is not JSON.
func argumentsOf(text string) string {
	if strings.TrimSpace(text) == "" {
		return "{}"
	}
	return text
}

func appendThoughtItem(dst []byte, id, status, text, seal string) []byte {
	dst = appendItemHead(dst, "reasoning", id, status)
	dst = append(dst, `,"summary":[`...)
	if text != "" {
		dst = appendSummary(dst, text)
	}
	dst = append(dst, ']')
	if seal != "" {
		dst = append(dst, `,"encrypted_content":`...)
		dst = jsonscan.AppendString(dst, seal)
	}
	return append(dst, '}')
}

func appendSummary(dst []byte, text string) []byte {
	dst = append(dst, `{"type":"summary_text","text":`...)
	dst = jsonscan.AppendString(dst, text)
	return append(dst, '}')
}

// responsesShape is what all response objects of one exchange have in common.
type responsesShape struct {
	base, model string
	created     int64
	echo        []byte
}

// responsesEcho are the members that repeat the request, and what they are in its absence;
// those with "" are left out then.
func responsesEcho() [][2]string {
	return [][2]string{
		{"background", "false"},
		{"instructions", "null"},
		{"max_output_tokens", "null"},
		{"max_tool_calls", "null"},
		{"metadata", "{}"},
		{"parallel_tool_calls", "true"},
		{"previous_response_id", "null"},
		{"prompt_cache_key", ""},
		{"reasoning", `{"effort":null,"summary":null}`},
		{"safety_identifier", ""},
		{"store", "false"},
		{"temperature", "null"},
		{"text", `{"format":{"type":"text"}}`},
		{"tool_choice", `"auto"`},
		{"tools", "[]"},
		{"top_p", "null"},
		{"truncation", `"disabled"`},
		{"user", "null"},
	}
}

func newResponsesShape(id, model string, created int64, o *AnswerOptions) responsesShape {
	s := responsesShape{base: id, model: model, created: created}
	if o.Model != "" {
		s.model = o.Model
	}
	if s.created == 0 {
		s.created = o.Created
	}
	if s.base == "" {
		s.base = o.ID
	}
	for _, prefix := range []string{"resp_", "chatcmpl-", "msg_"} {
		s.base = strings.TrimPrefix(s.base, prefix)
	}
	// A body that can't be read has not come this far.
	body, _ := jsonscan.Parse(o.Body, 0)
	for _, e := range responsesEcho() {
		raw := e[1]
		// Truncation is refused or warned of, and never done.
		if v := body.Value(e[0]); v.Exists() && e[0] != "truncation" {
			raw = oneLine(v.Raw(), raw)
		}
		if raw != "" {
			s.echo = append(s.echo, `,"`+e[0]+`":`...)
			s.echo = append(s.echo, raw...)
		}
	}
	return s
}

// itemID is the id of the n-th item.
func (s *responsesShape) itemID(k PartKind, n int) string {
	prefix := "msg_"
	switch k {
	case ToolCall:
		prefix = "fc_"
	case Reasoning:
		prefix = "rs_"
	default:
	}
	return prefix + s.base + "_" + strconv.Itoa(n)
}

// responsesState is what differs between the response objects of one exchange.
type responsesState struct {
	status string
	// reason is why the response is incomplete; "" for null.
	reason string
	// code and message are those of an error; code "" is null.
	code, message string
	// output are the items, without the brackets.
	output []byte
	usage  Usage
}

// append appends the response object.
func (s *responsesShape) append(dst []byte, st *responsesState) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonscan.AppendString(dst, "resp_"+s.base)
	dst = append(dst, `,"object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, s.created, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, st.status...)
	dst = append(dst, `","error":`...)
	if st.code == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"code":`...)
		dst = jsonscan.AppendString(dst, st.code)
		dst = append(dst, `,"message":`...)
		dst = jsonscan.AppendString(dst, st.message)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"incomplete_details":`...)
	if st.reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, `{"reason":"`+st.reason+`"}`...)
	}
	dst = append(dst, `,"model":`...)
	dst = jsonscan.AppendString(dst, s.model)
	dst = append(dst, `,"output":[`...)
	dst = append(dst, st.output...)
	dst = append(dst, ']')
	dst = append(dst, s.echo...)
	dst = append(dst, `,"usage":`...)
	dst = appendResponsesUsage(dst, &st.usage)
	return append(dst, '}')
}

// appendResponsesUsage leaves details out that nobody told: absent is not zero.
func appendResponsesUsage(dst []byte, u *Usage) []byte {
	if !u.Known {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input, 10)
	if u.CachedKnown {
		dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, u.CacheRead, 10)
		dst = append(dst, `,"cache_write_tokens":`...)
		dst = strconv.AppendInt(dst, u.CacheWrite, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	if u.ReasoningKnown {
		dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, u.Reasoning, 10)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input+u.Output, 10)
	return append(dst, '}')
}
