//go:build e2e

package jinja_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// BenchmarkRender50x20 renders a conversation of 50 messages with 20 tools by the
// templates whose licence keeps them out of the repository. The others are in the
// package's benchmark of this name.
func BenchmarkRender50x20(b *testing.B) {
	dir, err := os.UserCacheDir()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"NousResearch-Meta-Llama-3.1-8B-Instruct", "google-gemma-4-31B-it", "moonshotai-Kimi-K2"} {
		b.Run(name, func(b *testing.B) {
			paths, err := filepath.Glob(filepath.Join(dir, "kvsteer", "templates", "*--"+name+".jinja"))
			if err != nil || len(paths) == 0 {
				b.Skip("not in the cache: ", name)
			}
			source, err := os.ReadFile(paths[0])
			if err != nil {
				b.Fatal(err)
			}
			t, err := jinja.Compile(string(source), jinja.Options{})
			if err != nil {
				b.Fatal(err)
			}
			data, err := json.Marshal(conversation(50, 20))
			if err != nil {
				b.Fatal(err)
			}
			v, err := jinja.FromJSON(data)
			if err != nil {
				b.Fatal(err)
			}
			vars, ok := v.(*jinja.Dict)
			if !ok {
				b.Fatal("no dict")
			}
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

func conversation(messages, tools int) map[string]any {
	const text = "The quick brown fox jumps over the lazy dog, and then it rests a while in the shade of an old oak. "
	list := []any{map[string]any{"role": "system", "content": text}}
	for i := 1; i < messages; i++ {
		switch i % 4 {
		case 1:
			list = append(list, map[string]any{"role": "user", "content": text + text + text})
		case 2:
			list = append(list, map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
				"id": "call_12345678", "type": "function", "function": map[string]any{"name": "get_weather", "arguments": map[string]any{"city": "Paris", "days": 3}},
			}}})
		case 3:
			list = append(list, map[string]any{"role": "tool", "tool_call_id": "call_12345678", "name": "get_weather", "content": text})
		default:
			list = append(list, map[string]any{"role": "assistant", "content": text + text})
		}
	}
	var defs []any
	for range tools {
		props := map[string]any{}
		for _, name := range []string{"city", "days", "unit", "language"} {
			props[name] = map[string]any{"type": "string", "description": text[:60]}
		}
		defs = append(defs, map[string]any{"type": "function", "function": map[string]any{
			"name": "get_weather", "description": text,
			"parameters": map[string]any{"type": "object", "properties": props, "required": []string{"city"}},
		}})
	}
	return map[string]any{"messages": list, "tools": defs, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"}
}
