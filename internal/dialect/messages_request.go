package dialect

import (
	"encoding/json"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// DecodeRequest implements Client.
func (messages) DecodeRequest(body []byte) (*Request, error) {
	return decodeMessages(body, true)
}

// CountTokens reads the body of POST /v1/messages/count_tokens: a request without the
// fields that say how to answer. It fails as DecodeRequest does.
func CountTokens(body []byte) (*Request, error) {
	return decodeMessages(body, false)
}

func decodeMessages(body []byte, answered bool) (*Request, error) {
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, &BodyError{Reason: "is not a JSON object"}
	}
	d := &messagesReader{}
	r := &Request{}
	d.top(o, r)
	if answered && r.MaxTokens == 0 {
		if v := o.Value("max_tokens"); v.Exists() {
			d.refuse("max_tokens", "0 only warms a cache")
		} else {
			d.bad("max_tokens", reasonRequired)
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	// Usage is part of every stream of this API.
	r.IncludeUsage = true
	r.Warnings = d.warnings
	return r, nil
}

// The reasons of most errors.
const (
	reasonRequired = "is required"
	reasonString   = "must be a string"
	reasonInt      = "must be a whole number"
	reasonNumber   = "must be a number"
	reasonBool     = "must be true or false"
	reasonArray    = "must be an array"
	reasonObject   = "must be an object"
	reasonKind     = "has a type that this API doesn't have"
	reasonRan      = "the service ran this tool itself"
	reasonFile     = "files are in the service's account"
	reasonHint     = "a hint that other services don't take"
)

// messagesReader reads a request. The first thing that is wrong with it sticks.
type messagesReader struct {
	err      error
	warnings []Warning
}

func (d *messagesReader) bad(field, reason string) {
	if d.err == nil {
		d.err = &BodyError{Field: field, Reason: reason}
	}
}

func (d *messagesReader) refuse(field, reason string) {
	if d.err == nil {
		d.err = &UnsupportedError{Field: field, Reason: reason}
	}
}

func (d *messagesReader) warn(field, reason string) {
	if len(d.warnings) < maxWarnings {
		d.warnings = append(d.warnings, Warning{Field: field, Reason: reason})
	}
}

// top reads the body's members.
func (d *messagesReader) top(o jsonscan.Object, r *Request) {
	for i := range o.Len() {
		key, v := o.Field(i)
		if !v.Exists() {
			continue
		}
		d.member(r, string(key), v)
		if d.err != nil {
			return
		}
	}
	if r.Model == "" {
		d.bad("model", reasonRequired)
	}
	if !o.Value("messages").Exists() {
		d.bad("messages", reasonRequired)
	}
}

// member reads one member of the body. Of duplicates the last counts, as it does for the
// service.
func (d *messagesReader) member(r *Request, key string, v jsonscan.Value) {
	switch key {
	case "model":
		r.Model = d.str(key, v)
	case "max_tokens":
		r.MaxTokens = d.int(key, v)
	case "system":
		r.System = d.system(v)
	case "messages":
		r.Messages = d.turns(v)
	case "tools":
		r.Tools = d.tools(v)
	case "tool_choice":
		d.choice(r, v)
	case "thinking":
		d.thinking(r, v)
	case "output_config":
		d.output(r, v)
	case "output_format":
		d.format(r, key, v)
	case "temperature":
		r.Temperature = d.number(key, v)
	case "top_p":
		r.TopP = d.number(key, v)
	case "top_k":
		r.TopK = d.number(key, v)
	case "stop_sequences":
		r.Stop = d.strs(key, v)
	case "stream":
		r.Stream = d.bool(key, v)
	case "metadata":
		d.metadata(r, v)
	case "container":
		d.refuse(key, "containers are the service's")
	case "mcp_servers":
		if !v.Empty() {
			d.refuse(key, "the service connects to these servers itself")
		}
	case "compaction":
		d.refuse(key, "the answer would be a summary in the service's own form")
	default:
		r.Rest = append(r.Rest, Member{Name: key, From: messagesName, Raw: json.RawMessage(v.Raw())})
	}
}

func (d *messagesReader) str(field string, v jsonscan.Value) string {
	s, ok := v.Str()
	if !ok {
		d.bad(field, reasonString)
	}
	return s
}

func (d *messagesReader) int(field string, v jsonscan.Value) int64 {
	n, ok := v.Int()
	if !ok || n < 0 {
		d.bad(field, reasonInt)
	}
	return n
}

func (d *messagesReader) number(field string, v jsonscan.Value) json.Number {
	if v.Kind() != jsonscan.KindNumber {
		d.bad(field, reasonNumber)
	}
	return json.Number(v.Raw())
}

func (d *messagesReader) bool(field string, v jsonscan.Value) bool {
	b, ok := v.Bool()
	if !ok {
		d.bad(field, reasonBool)
	}
	return b
}

// array reports whether v is one, which it has to be.
func (d *messagesReader) array(field string, v jsonscan.Value) bool {
	if v.Kind() != jsonscan.KindArray {
		d.bad(field, reasonArray)
		return false
	}
	return true
}

// object reports whether v is one, which it has to be.
func (d *messagesReader) object(field string, v jsonscan.Value) bool {
	if v.Kind() != jsonscan.KindObject {
		d.bad(field, reasonObject)
		return false
	}
	return true
}

func (d *messagesReader) strs(field string, v jsonscan.Value) []string {
	if !d.array(field, v) {
		return nil
	}
	var list []string
	for it := v.Iter(); it.Next(); {
		list = append(list, d.str(field, it.Value()))
	}
	return list
}

func (d *messagesReader) metadata(r *Request, v jsonscan.Value) {
	if !d.object("metadata", v) {
		return
	}
	for it := v.Iter(); it.Next(); {
		switch field := "metadata." + string(it.Key()); {
		case !it.Value().Exists():
		case string(it.Key()) == "user_id":
			r.User = d.str(field, it.Value())
		default:
			d.warn("metadata", "only user_id can be carried over")
		}
	}
}

// messagesPath is where a block stands: in which turn, in its content, in that of a tool's
// result; -1 for none.
type messagesPath struct {
	turn, block, inner int
	// in is where there are no turns: "system".
	in string
}

// dot is the path of a member of the block.
func (p messagesPath) dot(member string) string {
	s := p.String()
	if member == "" {
		return s
	}
	return s + "." + member
}

func (p messagesPath) String() string {
	s := p.in
	if s == "" {
		s = "messages" + index(p.turn)
		if p.block >= 0 {
			s += ".content"
		}
	}
	if p.block >= 0 {
		s += index(p.block)
	}
	if p.inner >= 0 {
		s += ".content" + index(p.inner)
	}
	return s
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }
