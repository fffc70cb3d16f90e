package dialect

import (
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

func (chatCodec) DecodeRequest(body []byte) (*Request, error) {
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, &BodyError{Reason: "is not a JSON object: " + err.Error()}
	}
	d := chatReader{r: &Request{}}
	for i := range o.Len() {
		key, v := o.Field(i)
		if !v.Exists() { // null says no more than an absent member
			continue
		}
		if err := d.member(string(key), v); err != nil {
			return nil, err
		}
	}
	if !d.hasMessages {
		return nil, &BodyError{Field: "messages", Reason: "is missing"}
	}
	if d.longer > 0 {
		d.r.MaxTokens = d.longer
	}
	if d.r.User == "" {
		d.r.User = d.safety
	}
	return d.r, nil
}

// chatReader reads one body.
type chatReader struct {
	r           *Request
	hasMessages bool
	// turns have begun: system messages are no longer the first.
	turns bool
	// longer is max_completion_tokens, which goes before max_tokens.
	longer int64
	// safety is safety_identifier, which took the place of user.
	safety string
	// calls counts legacy function calls, which have no ids.
	calls int
}

func (d *chatReader) warn(field, reason string) {
	if len(d.r.Warnings) < maxWarnings {
		d.r.Warnings = append(d.r.Warnings, Warning{Field: field, Reason: reason})
	}
}

// unknown warns of a member that no codec knows, unless it says nothing.
func (d *chatReader) unknown(field string, v jsonscan.Value) {
	if !v.Empty() {
		d.warn(field, reasonUnknown)
	}
}

func (d *chatReader) rest(name string, v jsonscan.Value) {
	d.r.Rest = append(d.r.Rest, Member{Name: name, From: chatName, Raw: v.Raw()})
}

func (d *chatReader) member(key string, v jsonscan.Value) (err error) {
	r := d.r
	switch key {
	case "model":
		r.Model, err = textOf(key, v)
	case "messages":
		err = d.messages(v)
	case "tools", "functions":
		err = d.tools(key, v)
	case "tool_choice", "function_call":
		r.Choice, err = d.choice(key, v)
	case "parallel_tool_calls":
		r.Parallel, err = flagOf(key, v)
	case "max_tokens":
		r.MaxTokens, err = limitOf(key, v)
	case "max_completion_tokens":
		d.longer, err = limitOf(key, v)
	case "temperature":
		r.Temperature, err = numberOf(key, v)
	case "top_p":
		r.TopP, err = numberOf(key, v)
	case "top_k": // not OpenAI's, but most engines'
		r.TopK, err = numberOf(key, v)
	case "stop":
		r.Stop, err = chatStop(v)
	case "user":
		r.User, err = textOf(key, v)
	case "safety_identifier":
		d.safety, err = textOf(key, v)
	default:
		return d.shape(key, v)
	}
	return err
}

// shape reads the members that shape the answer.
func (d *chatReader) shape(key string, v jsonscan.Value) (err error) {
	switch key {
	case "stream":
		var on *bool
		if on, err = flagOf(key, v); err == nil {
			d.r.Stream = *on
		}
	case "stream_options":
		err = d.streamOptions(v)
	case "reasoning_effort":
		var effort string
		if effort, err = textOf(key, v); err == nil {
			d.r.Thinking = &Thinking{Off: effort == "none", Effort: effort}
			if effort == "none" {
				d.r.Thinking.Effort = ""
			}
		}
	case "response_format":
		d.r.Format, err = d.format(v)
	default:
		d.rest(key, v)
	}
	return err
}

func (d *chatReader) streamOptions(v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindObject {
		return &BodyError{Field: "stream_options", Reason: "must be an object"}
	}
	for it := v.Iter(); it.Next(); {
		key, v := string(it.Key()), it.Value()
		if key != "include_usage" {
			d.rest("stream_options."+key, v)
			continue
		}
		if v.Exists() {
			on, err := flagOf("stream_options.include_usage", v)
			if err != nil {
				return err
			}
			d.r.IncludeUsage = *on
		}
	}
	return nil
}

func chatStop(v jsonscan.Value) ([]string, error) {
	if v.Kind() != jsonscan.KindArray {
		s, err := textOf("stop", v)
		return []string{s}, err
	}
	var list []string
	for it := v.Iter(); it.Next(); {
		s, err := textOf(at("stop", len(list)), it.Value())
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// at is the path of an element.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (d *chatReader) format(v jsonscan.Value) (*Format, error) {
	kind, err := textOf("response_format.type", v.Get("type"))
	if err != nil {
		return nil, err
	}
	switch kind {
	case "text":
		return nil, nil //nolint:nilnil // no format is what the client asks for
	case "json_object":
		return &Format{}, nil
	case "json_schema":
	default:
		return nil, &UnsupportedError{Field: "response_format.type", Reason: "only text, json_object and json_schema are known elsewhere"}
	}
	const field = "response_format.json_schema"
	s, f := v.Get("json_schema"), &Format{}
	if s.Kind() != jsonscan.KindObject {
		return nil, &BodyError{Field: field, Reason: "must be an object"}
	}
	for it := s.Iter(); it.Next(); {
		key, v := string(it.Key()), it.Value()
		switch {
		case !v.Exists():
		case key == "name":
			f.Name, err = textOf(field+".name", v)
		case key == "strict":
			f.Strict, err = flagOf(field+".strict", v)
		case key == "schema":
			f.Schema = v.Raw()
		default:
			d.unknown(field+"."+key, v)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(f.Schema) == 0 {
		f.Schema = []byte("{}") // any value: not the same as any object
	}
	return f, nil
}

// tools reads tools, or the functions that were their forerunners.
func (d *chatReader) tools(field string, v jsonscan.Value) error {
	if v.Kind() != jsonscan.KindArray {
		return &BodyError{Field: field, Reason: "must be an array"}
	}
	var list []Tool
	for it := v.Iter(); it.Next(); {
		path, v := at(field, len(list)), it.Value()
		var t Tool
		fn, inner := v, path
		if field == "tools" {
			kind, err := textOf(path+".type", v.Get("type"))
			if err != nil {
				return err
			}
			if kind != "function" {
				return &UnsupportedError{Field: path + ".type", Reason: "only tools of type function are known elsewhere"}
			}
			fn, inner = v.Get("function"), path+".function"
			if c := v.Get("cache_control"); c.Exists() {
				t.Cache = c.Raw()
			}
		}
		if err := d.function(&t, inner, fn); err != nil {
			return err
		}
		list = append(list, t)
	}
	d.r.Tools = list
	return nil
}

func (d *chatReader) function(t *Tool, field string, fn jsonscan.Value) (err error) {
	if t.Name, err = textOf(field+".name", fn.Get("name")); err != nil {
		return err
	}
	for it := fn.Iter(); it.Next() && err == nil; {
		key, v := string(it.Key()), it.Value()
		switch {
		case !v.Exists() || key == "name":
		case key == "description":
			t.Description, err = textOf(field+".description", v)
		case key == "parameters":
			if v.Kind() != jsonscan.KindObject {
				return &BodyError{Field: field + ".parameters", Reason: "must be an object"}
			}
			t.Schema = v.Raw()
		case key == "strict":
			t.Strict, err = flagOf(field+".strict", v)
		default:
			d.unknown(field+"."+key, v)
		}
	}
	return err
}

func (d *chatReader) choice(field string, v jsonscan.Value) (*ToolChoice, error) {
	if word, ok := v.Str(); ok {
		switch word {
		case "auto":
			return &ToolChoice{Kind: ChoiceAuto}, nil
		case "none":
			return &ToolChoice{Kind: ChoiceNone}, nil
		case "required":
			return &ToolChoice{Kind: ChoiceAny}, nil
		default:
			return nil, &BodyError{Field: field, Reason: "must be auto, none, required or an object"}
		}
	}
	fn := v // function_call is {"name": ...}
	if field == "tool_choice" {
		if !v.Get("type").Is("function") {
			return nil, &UnsupportedError{Field: field + ".type", Reason: "only the choice of one function is known elsewhere"}
		}
		fn = v.Get("function")
		field += ".function"
	}
	name, err := textOf(field+".name", fn.Get("name"))
	return &ToolChoice{Kind: ChoiceTool, Name: name}, err
}
