package bedrock

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// EncodeRequest writes the body of Converse or ConverseStream: which one is in the path.
func (c converse) EncodeRequest(r *dialect.Request, o *dialect.RequestOptions, note func(dialect.Warning)) ([]byte, error) {
	w := &writer{r: r, note: note, family: familyOf(r.Model, c.family), s3: c.s3}
	w.conversation()
	w.tools()
	w.format()
	w.sampling(o)
	w.rest()
	if w.err != nil {
		return nil, w.err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&w.out); err != nil {
		// Raw values were read before, so this is a number or a schema that is none.
		return nil, &dialect.BodyError{Reason: "has a value that is no JSON"}
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// writer makes a request. The first thing that can't be carried over sticks.
type writer struct {
	r      *dialect.Request
	note   func(dialect.Warning)
	family family
	s3     []string // prefixes that clients may name objects below
	out    wireRequest
	err    error
	noted  map[string]bool
	// names are those of documents: the service wants each once.
	names map[string]bool
	// called: there are calls of tools, or results, in the conversation.
	called bool
}

func (w *writer) refuse(field, reason string) {
	if w.err == nil {
		w.err = &dialect.UnsupportedError{Field: field, Service: converseName, Reason: reason}
	}
}

// warn notes a thing that may be there often, once.
func (w *writer) warn(field, reason string) {
	if w.noted[field+reason] {
		return
	}
	if w.noted == nil {
		w.noted = map[string]bool{}
	}
	w.noted[field+reason] = true
	w.note(dialect.Warning{Field: field, Reason: reason})
}

// extra sets a member of the model's own API.
func (w *writer) extra(name string, raw json.RawMessage) {
	if w.out.Additional == nil {
		w.out.Additional = map[string]json.RawMessage{}
	}
	w.out.Additional[name] = raw
}

func (w *writer) tools() {
	r := w.r
	none := r.Choice != nil && r.Choice.Kind == dialect.ChoiceNone
	switch {
	case w.called && len(r.Tools) == 0:
		w.refuse("tools", "the conversation has calls of tools, and the service wants their definitions")
		return
	case w.called && none:
		w.refuse("tool_choice", "the service can't be kept from calling tools in a conversation that has calls of them")
		return
	case len(r.Tools) == 0:
		return
	case none: // what isn't told of can't be called
		return
	}
	t := &wireToolConfig{}
	for i := range r.Tools {
		t.Tools = append(t.Tools, wireBlock{ToolSpec: w.tool(i)})
		if mark := w.cachePoint("tools", r.Tools[i].Cache); mark != nil {
			t.Tools = append(t.Tools, wireBlock{CachePoint: mark})
		}
	}
	w.out.ToolConfig = t
	oneByOne := r.Parallel != nil && !*r.Parallel
	switch {
	case oneByOne && w.family != anthropic:
		w.refuse("parallel_tool_calls", "the service can't be kept from several calls at once, but for Claude")
	case oneByOne:
		w.extra("tool_choice", claudeChoice(r.Choice))
	default:
		t.ToolChoice = choice(r.Choice)
	}
}

func (w *writer) tool(i int) *wireToolSpec {
	t := &w.r.Tools[i]
	schema := t.Schema
	if schema == nil { // the service wants one
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	strict := t.Strict
	if strict != nil && !*strict { // what it is anyhow
		strict = nil
	}
	return &wireToolSpec{Name: t.Name, Description: t.Description, InputSchema: wireSchema{JSON: schema}, Strict: strict}
}

func choice(c *dialect.ToolChoice) *wireChoice {
	if c == nil {
		return nil
	}
	switch c.Kind {
	case dialect.ChoiceAuto:
		return &wireChoice{Auto: &struct{}{}}
	case dialect.ChoiceAny:
		return &wireChoice{Any: &struct{}{}}
	case dialect.ChoiceTool:
		return &wireChoice{Tool: &wireToolName{Name: c.Name}}
	case dialect.ChoiceNone:
		return nil
	default:
		return nil
	}
}

// claudeChoice is a choice as Claude's own API has it, for what Converse has nothing for.
func claudeChoice(c *dialect.ToolChoice) json.RawMessage {
	v := struct {
		Type     string `json:"type"`
		Name     string `json:"name,omitempty"`
		OneByOne bool   `json:"disable_parallel_tool_use"`
	}{Type: "auto", OneByOne: true}
	if c != nil {
		switch c.Kind {
		case dialect.ChoiceAny:
			v.Type = "any"
		case dialect.ChoiceTool:
			v.Type, v.Name = "tool", c.Name
		case dialect.ChoiceAuto, dialect.ChoiceNone:
		}
	}
	raw, _ := json.Marshal(v)
	return raw
}

func (w *writer) format() {
	f := w.r.Format
	if f == nil {
		return
	}
	if f.Schema == nil {
		w.refuse("response_format", "the service needs a schema to answer in JSON")
		return
	}
	w.output().TextFormat = &wireFormat{
		Type: "json_schema",
		Structure: wireStructure{
			JSONSchema: wireJSONSchema{Schema: string(f.Schema), Name: f.Name},
		},
	}
}

func (w *writer) output() *wireOutput {
	if w.out.OutputConfig == nil {
		w.out.OutputConfig = &wireOutput{}
	}
	return w.out.OutputConfig
}

// rest decides on members of the client's API that have no place in the middle form.
func (w *writer) rest() {
	if w.r.User != "" {
		w.warn("user", "the service isn't told of end users")
	}
	err := dialect.Leftover(w.r.Rest, converseName, func(m *dialect.Member) bool {
		if m.Name != "service_tier" {
			return false
		}
		switch tier, _ := strconv.Unquote(string(m.Raw)); tier {
		case "priority", "flex":
			w.out.ServiceTier = &wireTier{Type: tier}
			return true
		case "auto", "default":
			return true
		default:
			return false
		}
	}, w.note)
	if err != nil && w.err == nil {
		w.err = err
	}
}

// cachePoint is the mark of a prefix's end, if the family's models keep prefixes.
func (w *writer) cachePoint(field string, control json.RawMessage) *wireCachePoint {
	if control == nil {
		return nil
	}
	if !w.family.caches(field) {
		w.warn(field+"[].cache_control", "the model keeps no prefix that is marked")
		return nil
	}
	var c struct {
		TTL string `json:"ttl"`
	}
	_ = json.Unmarshal(control, &c)
	mark := &wireCachePoint{Type: "default"}
	if ttl := strings.TrimSpace(c.TTL); ttl == "1h" || ttl == "5m" {
		mark.TTL = ttl
	}
	return mark
}
