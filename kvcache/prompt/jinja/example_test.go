package jinja_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

const source = `{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content | trim + '<|im_end|>\n' }}
{%- if message.role not in ['user', 'assistant'] %}{{ raise_exception('unknown role') }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func ExampleCompile() {
	template, err := jinja.Compile(source, jinja.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	vars, err := jinja.FromJSON([]byte(`{"messages": [{"role": "user", "content": " Hello! "}], "add_generation_prompt": true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := template.Render(context.Background(), nil, vars.(*jinja.Dict))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", out)
	fmt.Println(template.Variables(), template.ContentFormat(), template.UsesClock())
	// Output:
	// <|im_start|>user
	// Hello!<|im_end|>
	// <|im_start|>assistant
	//
	// [add_generation_prompt messages raise_exception] string false
}

func ExampleError() {
	template, err := jinja.Compile(source, jinja.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	message := jinja.NewDict(2)
	message.Set("role", jinja.String("tool"))
	message.Set("content", jinja.String("42"))
	vars := jinja.NewDict(1)
	vars.Set("messages", jinja.NewList(message))
	_, err = template.Render(context.Background(), nil, vars)
	fmt.Println(err)
	if refused := (*jinja.Error)(nil); errors.As(err, &refused) && refused.Kind == jinja.Raised {
		fmt.Println("for the client:", refused.Message)
	}
	// Output:
	// jinja: the template refused the request, line 3
	// for the client: unknown role
}

func ExampleFromJSON() {
	v, err := jinja.FromJSON([]byte(`{"z": 1.0, "a": 12345678901234567890, "z": [true, null]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := jinja.AppendJSON(nil, v)
	fmt.Println(string(out), err)
	// Output: {"z": [true, null], "a": 12345678901234567890} <nil>
}

func ExampleNewDict() {
	d := jinja.NewDict(2)
	d.Set("name", jinja.String("Ada"))
	d.Set("id", jinja.BigInt(new(big.Int).Lsh(big.NewInt(1), 70)))
	d.Set("tags", jinja.NewList(jinja.Int(1), jinja.NewTuple(jinja.Bool(true), jinja.None{}), jinja.Float(2)))
	template, err := jinja.Compile("{{ d }}", jinja.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	vars := jinja.NewDict(1)
	vars.Set("d", d)
	out, err := template.Render(context.Background(), nil, vars)
	fmt.Println(string(out), err)
	// Output: {'name': 'Ada', 'id': 1180591620717411303424, 'tags': [1, (True, None), 2.0]} <nil>
}
