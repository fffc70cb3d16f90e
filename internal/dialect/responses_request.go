package dialect

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// DecodeRequest reads the body of a POST to /v1/responses.
func (responses) DecodeRequest(body []byte) (*Request, error) {
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, &BodyError{Reason: "is not a JSON object that can be read: " + err.Error()}
	}
	d := responsesDecoder{}
	for i := range o.Len() {
		key, v := o.Field(i)
		name := string(key)
		// Of duplicates the last counts, as everywhere; null is as if it were absent.
		if last := o.Value(name); last.Offset() != v.Offset() || !v.Exists() {
			continue
		}
		if err := d.member(name, v); err != nil {
			return nil, err
		}
	}
	if d.r.Model == "" {
		return nil, &BodyError{Field: "model", Reason: "must be there: a string with the model's name"}
	}
	if !o.Value("input").Exists() {
		return nil, &BodyError{Field: "input", Reason: "must be there: a string or a list of items"}
	}
	if d.instructions != "" { // they come before the input, wherever they are in the body
		d.r.System = append([]Part{{Kind: Text, Text: d.instructions}}, d.r.System...)
	}
	return &d.r, nil
}

// responsesDecoder collects a Request from the members of a body.
type responsesDecoder struct {
	r            Request
	instructions string
	// grows: the last message takes further parts of its role.
	grows bool
}

func (d *responsesDecoder) warn(field, reason string) {
	d.r.Warnings = append(d.r.Warnings, Warning{Field: field, Reason: reason})
}

// others warns of the members of an object that have no place, unless they ask for nothing.
func (d *responsesDecoder) others(field string, v jsonscan.Value, known ...string) {
	for it := v.Iter(); it.Next(); {
		isOff := string(it.Value().Raw()) == "false"
		if !it.Value().Empty() && !isOff && !slices.Contains(known, string(it.Key())) {
			d.warn(field, "has members that are not carried over")
			return
		}
	}
}

func responsesUnsupported(field, reason string) error {
	return &UnsupportedError{Field: field, Reason: reason}
}

// responsesLoss says what it means to leave a member out.
func responsesLoss(m *Member) (loss Loss, reason string) {
	switch m.Name {
	case "metadata", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "image", "access_programs":
		return LossNote, "only OpenAI uses it"
	case "service_tier":
		if word := string(m.Raw); word == `"auto"` || word == `"default"` {
			return LossNone, ""
		}
		return LossNote, "the service has its own tiers"
	case "verbosity":
		if string(m.Raw) == `"medium"` { // what it is anyhow
			return LossNone, ""
		}
		return LossNote, "the service has nothing like it"
	default:
		return LossNote, reasonUnknown
	}
}

// member takes one member of the body.
func (d *responsesDecoder) member(name string, v jsonscan.Value) (err error) {
	r := &d.r
	switch name {
	case "model":
		r.Model, err = textOf(name, v)
	case "instructions":
		d.instructions, err = textOf(name, v)
	case "input":
		err = d.input(v)
	case "tools":
		err = d.tools(v)
	case "tool_choice":
		err = d.choice(v)
	case "parallel_tool_calls":
		r.Parallel, err = flagOf(name, v)
	case "max_output_tokens":
		r.MaxTokens, err = limitOf(name, v)
	case "temperature":
		r.Temperature, err = numberOf(name, v)
	case "top_p":
		r.TopP, err = numberOf(name, v)
	case "stream":
		err = d.stream(v)
	case "reasoning":
		err = d.reasoning(v)
	case "text":
		err = d.text(v)
	case "user", "safety_identifier": // the second has taken the place of the first
		if name == "safety_identifier" || r.User == "" {
			r.User, err = textOf(name, v)
		}
	default:
		err = d.state(name, v)
	}
	return err
}

// state takes the members that concern what OpenAI keeps or runs, and those without a
// place in the middle form.
func (d *responsesDecoder) state(name string, v jsonscan.Value) error {
	isTrue, _ := v.Bool()
	switch name {
	case "previous_response_id", "conversation", "prompt":
		return responsesUnsupported(name, "what it refers to is kept by one service; send the whole input")
	case "background":
		if isTrue {
			return responsesUnsupported(name, "no response can be fetched later; leave it out or stream")
		}
	case "store":
		if isTrue {
			return responsesUnsupported(name, "no response is kept; send false")
		}
	case "context_management", "moderation":
		return responsesUnsupported(name, "only OpenAI does this")
	case "top_logprobs":
		if n, _ := v.Int(); n != 0 {
			return responsesUnsupported(name, "log probabilities are not carried over")
		}
	case "include":
		for it := v.Iter(); it.Next(); {
			if it.Value().Is("message.output_text.logprobs") {
				return responsesUnsupported(name, "log probabilities are not carried over")
			}
		}
	case "truncation":
		if !v.Is("disabled") {
			d.warn(name, "a prompt beyond the context window is refused, not shortened")
		}
	case "stream_options":
		if padded, _ := v.Get("include_obfuscation").Bool(); padded {
			d.warn("stream_options.include_obfuscation", "events are not padded")
		}
	case "max_tool_calls": // bounds what OpenAI runs itself, and no such tool gets here
	default:
		d.r.Rest = append(d.r.Rest, Member{Name: name, From: responsesName, Raw: v.Raw()})
	}
	return nil
}

func (d *responsesDecoder) stream(v jsonscan.Value) error {
	stream, err := flagOf("stream", v)
	if err != nil {
		return err
	}
	// Every stream of this API ends with usage.
	d.r.Stream, d.r.IncludeUsage = *stream, *stream
	return nil
}

func (d *responsesDecoder) reasoning(v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindObject {
		return &BodyError{Field: "reasoning", Reason: "must be an object"}
	}
	d.others("reasoning", v, "effort", "summary", "generate_summary")
	effort := v.Get("effort")
	if !effort.Exists() { // a summary comes anyway, where there is one
		return nil
	}
	word, err := textOf("reasoning.effort", effort)
	if err != nil {
		return err
	}
	if word == "none" {
		d.r.Thinking = &Thinking{Off: true}
		return nil
	}
	d.r.Thinking = &Thinking{Effort: word}
	return nil
}

func (d *responsesDecoder) text(v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindObject {
		return &BodyError{Field: "text", Reason: "must be an object"}
	}
	d.others("text", v, "verbosity", "format")
	if verbosity := v.Get("verbosity"); verbosity.Exists() {
		d.r.Rest = append(d.r.Rest, Member{Name: "verbosity", From: responsesName, Raw: verbosity.Raw()})
	}
	format := v.Get("format")
	kind := format.Get("type")
	switch {
	case !format.Exists(), kind.Is("text"):
	case kind.Is("json_object"):
		d.r.Format = &Format{}
	case kind.Is("json_schema"):
		return d.schema(format)
	default:
		return responsesUnsupported("text.format.type", "there are text, json_object and json_schema")
	}
	return nil
}

func (d *responsesDecoder) schema(format jsonscan.Value) (err error) {
	f := &Format{}
	d.others("text.format", format, "type", "name", "schema", "strict", "description")
	if f.Name, err = textOf("text.format.name", format.Get("name")); err != nil {
		return err
	}
	schema := format.Get("schema")
	if schema.Kind() != jsonscan.KindObject {
		return &BodyError{Field: "text.format.schema", Reason: "must be an object: the JSON schema"}
	}
	f.Schema = json.RawMessage(schema.Raw())
	if strict := format.Get("strict"); strict.Exists() {
		if f.Strict, err = flagOf("text.format.strict", strict); err != nil {
			return err
		}
	}
	if format.Get("description").Exists() {
		d.warn("text.format.description", "the schema is carried over without it")
	}
	d.r.Format = f
	return nil
}

func (d *responsesDecoder) tools(v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindArray {
		return &BodyError{Field: "tools", Reason: "must be a list"}
	}
	i := 0
	for it := v.Iter(); it.Next(); i++ {
		if err := d.tool("tools["+strconv.Itoa(i)+"]", it.Value()); err != nil {
			return err
		}
	}
	return nil
}

func (d *responsesDecoder) tool(field string, v jsonscan.Value) (err error) {
	if !v.Get("type").Is("function") {
		return responsesUnsupported(field, "only tools of type function are: nobody else runs OpenAI's own")
	}
	var t Tool
	if t.Name, err = textOf(field+".name", v.Get("name")); err != nil {
		return err
	}
	if s := v.Get("description"); s.Exists() {
		if t.Description, err = textOf(field+".description", s); err != nil {
			return err
		}
	}
	if s := v.Get("parameters"); s.Exists() {
		if s.Kind() != jsonscan.KindObject {
			return &BodyError{Field: field + ".parameters", Reason: "must be an object: the JSON schema of the arguments"}
		}
		t.Schema = json.RawMessage(s.Raw())
	}
	if s := v.Get("strict"); s.Exists() {
		if t.Strict, err = flagOf(field+".strict", s); err != nil {
			return err
		}
	}
	for _, extra := range []string{"async", "defer_loading"} {
		if on, _ := v.Get(extra).Bool(); on {
			return responsesUnsupported(field+"."+extra, "only OpenAI does this")
		}
	}
	d.others(field, v, "type", "name", "description", "parameters", "strict")
	d.r.Tools = append(d.r.Tools, t)
	return nil
}

func (d *responsesDecoder) choice(v jsonscan.Value) error {
	word := v
	if v.Kind() == jsonscan.KindObject {
		word = v.Get("type")
	}
	switch {
	case v.Is("auto"):
		d.r.Choice = &ToolChoice{Kind: ChoiceAuto}
	case v.Is("none"):
		d.r.Choice = &ToolChoice{Kind: ChoiceNone}
	case v.Is("required"):
		d.r.Choice = &ToolChoice{Kind: ChoiceAny}
	case word.Is("function"):
		name, err := textOf("tool_choice.name", v.Get("name"))
		if err != nil {
			return err
		}
		d.r.Choice = &ToolChoice{Kind: ChoiceTool, Name: name}
	default:
		return responsesUnsupported("tool_choice", "there are auto, none, required and one function")
	}
	return nil
}
