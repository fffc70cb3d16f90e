// Package modelfiles changes a model's tokenizer files at random, in the ways in which
// real ones differ: flags of the configuration, special tokens by all the names that
// there are for them, files that earlier versions wrote. Equal seeds give equal files.
package modelfiles

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Generator makes model directories. Not safe for concurrent use.
type Generator struct{ *rand.Rand }

// New returns a Generator for a seed.
func New(seed uint64) *Generator {
	const stream = 11
	return &Generator{rand.New(rand.NewPCG(seed, stream))} //nolint:gosec // tests want the same each time
}

type object = map[string]any

// Write puts a changed copy of a model's directory into another, which must not exist,
// and returns what was changed.
func (g *Generator) Write(from, to string) ([]string, error) {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return nil, fmt.Errorf("modelfiles: %w", err)
	}
	d := &directory{Generator: g, path: to}
	if err := d.read(); err != nil {
		return nil, err
	}
	for range 1 + g.IntN(3) {
		change := changes[g.IntN(len(changes))]
		d.done = append(d.done, change.name)
		change.apply(d)
	}
	return d.done, d.write()
}

// directory is a model's files under change.
type directory struct {
	*Generator

	path   string
	config object // tokenizer_config.json
	files  map[string]object
	next   int // the first id that no token has
	done   []string
}

func (d *directory) read() error {
	var tokenizer struct {
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
		Added []struct {
			ID int `json:"id"`
		} `json:"added_tokens"`
	}
	for name, to := range map[string]any{"tokenizer_config.json": &d.config, "tokenizer.json": &tokenizer} {
		text, err := os.ReadFile(filepath.Join(d.path, name)) //nolint:gosec // a file that Write has just put there
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			return fmt.Errorf("modelfiles: %s: %w", name, err)
		}
	}
	for _, id := range tokenizer.Model.Vocab {
		d.next = max(d.next, id+1)
	}
	for _, t := range tokenizer.Added {
		d.next = max(d.next, t.ID+1)
	}
	d.files = map[string]object{"tokenizer_config.json": d.config}
	return nil
}

func (d *directory) write() error {
	for name, content := range d.files {
		text, err := json.Marshal(content)
		if err == nil {
			err = os.WriteFile(filepath.Join(d.path, name), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("modelfiles: %w", err)
		}
	}
	return nil
}

// words are tokens that are added: new ones, and some that are in texts anyway.
var words = [...]string{"<x>", "<y>", "foo", " two", "wor", "<s>", "é"}

func (d *directory) word() string { return words[d.IntN(len(words))] }

func pick[T any](d *directory, from ...T) T { return from[d.IntN(len(from))] }

func (d *directory) likely(percent int) bool {
	const whole = 100
	return d.IntN(whole) < percent
}

// token is an added token with flags at random.
func (d *directory) token(content string) object {
	return object{
		"content": content, "lstrip": d.likely(30), "rstrip": d.likely(30), "normalized": d.likely(40),
		"single_word": d.likely(20), "special": d.likely(60),
	}
}

// namedToken is a token as a configuration names it: its text, with flags, or nothing.
func (d *directory) namedToken() any {
	switch d.IntN(4) {
	case 0:
		return nil
	case 1:
		t := d.token(d.word())
		t["__type"] = "AddedToken"
		return t
	default:
		return d.word()
	}
}

func (d *directory) decoder() object {
	old, _ := d.config["added_tokens_decoder"].(object)
	next := object{}
	maps.Copy(next, old)
	d.config["added_tokens_decoder"] = next
	return next
}

// classes are names of tokenizer classes: those that are reproduced, and others.
var classes = [...]string{
	"PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend", "PythonBackend", "LlamaTokenizer", "LlamaTokenizerFast",
	"Qwen2Tokenizer", "Qwen2TokenizerFast", "GPT2Tokenizer", "GemmaTokenizer", "GemmaTokenizerFast", "CodeLlamaTokenizer", "CohereTokenizer",
}

// flags are switches of configurations.
var flags = [...]string{
	"add_bos_token", "add_eos_token", "add_prefix_space", "legacy", "use_fast", "do_lower_case", "clean_up_tokenization_spaces",
	"use_default_system_prompt", "fix_mistral_regex", "split_special_tokens", "from_slow", "trim_offsets", "keep_accents",
	"tokenize_chinese_chars",
}

// specials are special tokens that have a name.
var specials = [...]string{
	"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token", "image_token",
}

// changes are the ways to change a directory.
var changes = [...]struct {
	name  string
	apply func(d *directory)
}{
	{"a flag", func(d *directory) {
		flag := pick(d, flags[:]...)
		d.done = append(d.done, flag)
		d.config[flag] = pick[any](d, true, false, nil)
	}},
	{"a class", func(d *directory) { d.config["tokenizer_class"] = pick(d, classes[:]...) }},
	{"a special token", func(d *directory) {
		d.config[pick(d, specials[:]...)] = d.namedToken()
	}},
	{"additional special tokens", func(d *directory) {
		d.config["additional_special_tokens"] = pick[any](d, []any{"foo"}, []any{"<x>", "<y>"}, []any{d.token("<x>")}, []any{}, nil)
	}},
	{"extra special tokens", func(d *directory) {
		d.config["extra_special_tokens"] = pick[any](d, object{"image_token": "<x>"}, []any{"<x>", "foo"}, object{}, []any{d.token("<y>")})
	}},
	{"a token more", func(d *directory) { d.decoder()[strconv.Itoa(d.next+d.IntN(3))] = d.token(d.word()) }},
	{"other flags of a token", func(d *directory) {
		tokens := d.decoder()
		if len(tokens) == 0 {
			return
		}
		ids := make([]string, 0, len(tokens))
		for id := range tokens {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		id := pick(d, ids...)
		if t, ok := tokens[id].(object); ok {
			content, _ := t["content"].(string)
			tokens[id] = d.token(content)
		}
	}},
	{"special_tokens_map.json", func(d *directory) {
		file := object{"eos_token": d.token(d.word())}
		if d.likely(50) {
			file["additional_special_tokens"] = []any{d.word()}
		}
		if d.likely(30) {
			file["bos_token"] = d.word()
		}
		d.files["special_tokens_map.json"] = file
	}},
	{"added_tokens.json", func(d *directory) {
		d.files["added_tokens.json"] = object{d.word(): d.next, "<z>": d.next + 1}
	}},
	{"no decoder", func(d *directory) { delete(d.config, "added_tokens_decoder") }},
	{"lengths and sides", func(d *directory) {
		d.config["model_max_length"], d.config["truncation_side"], d.config["padding_side"] = 5, "right", pick(d, "left", "right")
	}},
	{"errors", func(d *directory) { d.config["errors"] = pick(d, "replace", "ignore", "strict") }},
	{"processor and map", func(d *directory) {
		d.config["processor_class"] = "SomeProcessor"
		d.config["auto_map"] = pick[any](d, nil, object{}, object{"AutoTokenizer": []any{"tokenization_x.X", nil}})
	}},
}
