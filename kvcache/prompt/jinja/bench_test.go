package jinja

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// conversation makes a chat of n messages, calls of tools among them, and tools.
func conversation(messages, tools int) *Dict {
	obj := func(kv ...any) *Dict {
		d := NewDict(len(kv) / 2)
		for i := 0; i < len(kv); i += 2 {
			d.Set(kv[i].(string), kv[i+1].(Value))
		}
		return d
	}
	text := String("The quick brown fox jumps over the lazy dog, and then it rests a while in the shade of an old oak. ")
	list := NewList(obj("role", String("system"), "content", text))
	for i := 1; i < messages; i++ {
		switch i % 4 {
		case 1:
			list.Append(obj("role", String("user"), "content", text+text+text))
		case 2:
			list.Append(obj("role", String("assistant"), "content", String(""), "tool_calls", NewList(obj(
				"id", String("call_"+strconv.Itoa(i)), "type", String("function"),
				"function", obj("name", String("get_weather"), "arguments", obj("city", String("Paris"), "days", Int(3)))))))
		case 3:
			list.Append(obj("role", String("tool"), "tool_call_id", String("call_"+strconv.Itoa(i-1)), "content", text))
		default:
			list.Append(obj("role", String("assistant"), "content", text+text))
		}
	}
	defs := NewList()
	for i := range tools {
		props := NewDict(4)
		for _, name := range []string{"city", "days", "unit", "language"} {
			props.Set(name, obj("type", String("string"), "description", text[:60]))
		}
		defs.Append(obj("type", String("function"), "function", obj(
			"name", String("tool_"+strconv.Itoa(i)), "description", text,
			"parameters", obj("type", String("object"), "properties", props, "required", NewList(String("city"))))))
	}
	return obj("messages", list, "tools", defs, "add_generation_prompt", Bool(true),
		"bos_token", String("<|begin_of_text|>"), "eos_token", String("<|eot_id|>"))
}

func BenchmarkRender50x20(b *testing.B) {
	for _, name := range []string{"qwen3", "deepseek-v3.1", "gpt-oss", "granite-4.0"} {
		b.Run(name, func(b *testing.B) {
			source, err := os.ReadFile(filepath.Join("testdata", "templates", name+".jinja"))
			if err != nil {
				b.Fatal(err)
			}
			t, err := Compile(string(source), Options{})
			if err != nil {
				b.Fatal(err)
			}
			vars := conversation(50, 20)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				if out, err = t.Render(context.Background(), out[:0], vars); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

// TestAllocations keeps the garbage of a long conversation within a budget. What
// is left are the results of filters, loops and frames, not pieces of text.
func TestAllocations(t *testing.T) {
	for name, budget := range map[string]float64{"qwen3": 130, "deepseek-v3.1": 90} {
		source, err := os.ReadFile(filepath.Join("testdata", "templates", name+".jinja"))
		require.NoError(t, err)
		tmpl, err := Compile(string(source), Options{})
		require.NoError(t, err)
		vars := conversation(50, 20)
		out, err := tmpl.Render(context.Background(), nil, vars)
		require.NoError(t, err)
		require.Greater(t, len(out), 10_000)
		got := testing.AllocsPerRun(20, func() {
			if out, err = tmpl.Render(context.Background(), out[:0], vars); err != nil {
				t.Fatal(err)
			}
		})
		require.LessOrEqual(t, got, budget, name)
	}
}
