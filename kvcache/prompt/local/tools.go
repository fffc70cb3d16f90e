package local

import (
	"errors"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// callOrder is the order in which an API's tool calls have the keys of a function.
type callOrder bool

const (
	argumentsFirst callOrder = true // chat, whose models declare them so
	nameFirst      callOrder = false
)

// toolCall is a function call for templates: arguments, a JSON text, are what they
// mean if they are an object, else an empty one.
func toolCall(id, name string, arguments jinja.Value, order callOrder) (call, function *jinja.Dict) {
	const fields = 3
	call, function = jinja.NewDict(fields), jinja.NewDict(fields-1)
	call.Set("id", jinja.String(id))
	call.Set("function", function)
	call.Set("type", jinja.String("function"))
	if order == argumentsFirst {
		function.Set("arguments", arguments)
		function.Set("name", jinja.String(name))
	} else {
		function.Set("name", jinja.String(name))
		function.Set("arguments", arguments)
	}
	return call, function
}

// parseArguments reads the arguments of a call as Python would.
func parseArguments(text []byte) (jinja.Value, error) {
	if len(text) == 0 {
		return jinja.NewDict(0), nil
	}
	v, err := jinja.FromJSON(text)
	if err != nil {
		if isLimit(err) { // Python may take what we don't
			return nil, errForm
		}
		return jinja.NewDict(0), nil
	}
	if d, ok := v.(*jinja.Dict); ok {
		return d, nil
	}
	return jinja.NewDict(0), nil
}

// chatToolCalls reads tool_calls of a chat message. Fields that the engine's models
// don't declare come after those that they do.
func chatToolCalls(v jsonscan.Value) ([]jinja.Value, error) {
	var calls []jinja.Value
	for it := v.Iter(); it.Next(); {
		call, err := chatToolCall(it.Value())
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

func chatToolCall(v jsonscan.Value) (*jinja.Dict, error) {
	var id, fn jsonscan.Value
	isFunction := false
	var more []extraField
	if v.Kind() != jsonscan.KindObject {
		return nil, errForm
	}
	for it := v.Iter(); it.Next(); {
		switch key := string(it.Key()); key {
		case "id":
			id = it.Value()
		case "type":
			isFunction = it.Value().Is("function")
		case "function":
			fn = it.Value()
		default:
			more = append(more, extraField{key, it.Value()})
		}
	}
	callID, ok := id.Str()
	if !ok || !isFunction || fn.Kind() != jsonscan.KindObject {
		return nil, errForm
	}
	var nameValue, args jsonscan.Value
	var inside []extraField
	for it := fn.Iter(); it.Next(); {
		switch key := string(it.Key()); key {
		case "name":
			nameValue = it.Value()
		case "arguments":
			args = it.Value()
		default:
			inside = append(inside, extraField{key, it.Value()})
		}
	}
	name, named := nameValue.Str()
	text, given := args.Text()
	if !named || !given {
		return nil, errForm
	}
	arguments, err := parseArguments(text)
	if err != nil {
		return nil, err
	}
	call, function := toolCall(callID, name, arguments, argumentsFirst)
	if err := setAll(function, inside); err != nil {
		return nil, err
	}
	if err := setAll(call, more); err != nil {
		return nil, err
	}
	return call, nil
}

func setAll(d *jinja.Dict, fields []extraField) error {
	for _, x := range fields {
		v, err := jinja.FromJSON(x.value.Raw())
		if err != nil {
			return errForm
		}
		d.Set(x.key, v)
	}
	return nil
}

// definition is what is kept of a tool's definition.
type definition struct {
	name, description, parameters jsonscan.Value
	strict, deferred, outer       jsonscan.Value
	typed                         bool // parameters get a type when they have none
}

// dict is the tool as the engine dumps its model of it: fields in its order, null
// for what is missing but for the last ones.
func (t definition) dict() (*jinja.Dict, error) {
	const fields = 3
	fn := jinja.NewDict(fields)
	name, ok := t.name.Str()
	if !ok {
		return nil, errTools
	}
	fn.Set("name", jinja.String(name))
	switch t.description.Kind() {
	case jsonscan.KindString:
		text, _ := t.description.Str()
		fn.Set("description", jinja.String(text))
	case jsonscan.KindNone, jsonscan.KindNull:
		fn.Set("description", jinja.None{})
	default:
		return nil, errTools
	}
	parameters, err := t.schema()
	if err != nil {
		return nil, err
	}
	fn.Set("parameters", parameters)
	if err := setBool(fn, "strict", t.strict); err != nil {
		return nil, err
	}
	if !t.deferred.Exists() {
		t.deferred = t.outer
	}
	if err := setBool(fn, "defer_loading", t.deferred); err != nil {
		return nil, err
	}
	tool := jinja.NewDict(fields)
	tool.Set("type", jinja.String("function"))
	tool.Set("function", fn)
	if err := setBool(tool, "defer_loading", t.outer); err != nil {
		return nil, err
	}
	return tool, nil
}

func (t definition) schema() (jinja.Value, error) {
	switch t.parameters.Kind() {
	case jsonscan.KindObject:
	case jsonscan.KindNone, jsonscan.KindNull:
		return jinja.None{}, nil
	default:
		return nil, errTools
	}
	v, err := jinja.FromJSON(t.parameters.Raw())
	if err != nil {
		return nil, errTools
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, errTools
	}
	if t.typed {
		if _, found := d.Get("type"); !found {
			d.Set("type", jinja.String("object"))
		}
	}
	return d, nil
}

func setBool(d *jinja.Dict, key string, v jsonscan.Value) error {
	if !v.Exists() {
		return nil
	}
	b, ok := v.Bool()
	if !ok {
		return errTools
	}
	d.Set(key, jinja.Bool(b))
	return nil
}

// chatTools reads tools of a chat request; nil when there are none.
func chatTools(v jsonscan.Value) (*jinja.List, error) {
	return readTools(v, func(tool jsonscan.Value) (definition, error) {
		kind, fn := tool.Get("type"), tool.Get("function")
		if kind.Kind() != jsonscan.KindNone && !kind.Is("function") || fn.Kind() != jsonscan.KindObject {
			return definition{}, errTools
		}
		d := flatDefinition(fn)
		d.outer = tool.Get("defer_loading")
		return d, nil
	})
}

// flatDefinition reads a definition whose fields are the object's own.
func flatDefinition(v jsonscan.Value) definition {
	return definition{
		name: v.Get("name"), description: v.Get("description"), parameters: v.Get("parameters"),
		strict: v.Get("strict"), deferred: v.Get("defer_loading"),
	}
}

// errNoTool says that a tool is none that templates see.
var errNoTool = errors.New("local: not a function")

func readTools(v jsonscan.Value, read func(jsonscan.Value) (definition, error)) (*jinja.List, error) {
	switch v.Kind() {
	case jsonscan.KindNone, jsonscan.KindNull:
		return nil, nil //nolint:nilnil // no tools is not an empty list of tools
	case jsonscan.KindArray:
	default:
		return nil, errTools
	}
	list := jinja.NewList()
	for it := v.Iter(); it.Next(); {
		if it.Value().Kind() != jsonscan.KindObject {
			return nil, errTools
		}
		d, err := read(it.Value())
		if errors.Is(err, errNoTool) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tool, err := d.dict()
		if err != nil {
			return nil, err
		}
		list.Append(tool)
	}
	return list, nil
}
