package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrTokenizerClass says that transformers builds the tokenizer of these files by
// a class that is not reproduced here, so that tokenizer.json alone does not say
// what it does. Let the engine's endpoints serve the model.
var ErrTokenizerClass = errors.New("local: tokenizer class is not reproduced")

// The tokenizer classes of transformers that matter.
const (
	classBackend       = "TokenizersBackend" // tokenizer.json as it is
	classMistralCommon = "MistralCommonBackend"
	classQwen2         = "Qwen2Tokenizer"
	classQwen35        = "Qwen3_5Tokenizer"
	classLlama         = "LlamaTokenizer"
	classGemma         = "GemmaTokenizer"
	classGPT2          = "GPT2Tokenizer"
	classGPTNeoX       = "GPTNeoXTokenizer"
	classCohere        = "CohereTokenizer"
)

// resolveClass finds the class as AutoTokenizer does: named is tokenizer_class of
// tokenizer_config.json.
func resolveClass(modelType, named string) (string, error) {
	if named == "" {
		return "", fmt.Errorf("%w: tokenizer_config.json names none", ErrTokenizerClass)
	}
	named = strings.TrimSuffix(named, "Fast")
	family := families[modelType]
	class := named
	if family.class != "" && family.class != named {
		switch {
		case family.class == classBackend, family.class == classMistralCommon:
			// vLLM asks for the tokenizers library, which leaves the file as it is.
			class = classBackend
		case family.overrides:
			class = family.class
		default:
		}
	}
	switch class {
	case classBackend, "PreTrainedTokenizer", "PythonBackend":
		return classBackend, nil
	case classQwen2, classQwen35, classLlama, classGemma, classGPT2:
		return class, nil
	default:
		return "", fmt.Errorf("%w: %s", ErrTokenizerClass, class)
	}
}

// The patterns of Qwen2Tokenizer and Qwen3_5Tokenizer: they are part of the model's
// definition, and identical to those in the models' own tokenizer.json.
const (
	contractions  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|`
	qwen2Pattern  = contractions + `[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern = contractions + `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// blueprint is what a class builds in place of the file's own components; only
// vocabulary, merges, added tokens and post-processor are taken from the file.
type blueprint struct {
	normalizer, preTokenizer any
	unk                      *string
	affix                    *string // continuing_subword_prefix and end_of_word_suffix
	fuseUnk, byteFallback    bool
	resets                   bool // see mergeAdded
	// defaults are the special tokens of the class, in order, nil for none.
	defaults []namedToken
}

type namedToken struct {
	name, text string
}

type object = map[string]any

func blueprintOf(class string, c *tokenizerConfig) *blueprint {
	empty := ""
	endOfText := "<|endoftext|>"
	split := func(pattern string) any {
		return object{"type": "Sequence", "pretokenizers": []any{
			object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false},
			byteLevel(c, false),
		}}
	}
	switch class {
	case classQwen2, classQwen35:
		pattern := qwen2Pattern
		if class == classQwen35 {
			pattern = qwen35Pattern
		}
		return &blueprint{
			normalizer: object{"type": "NFC"}, preTokenizer: split(pattern), affix: &empty, resets: class == classQwen2,
			defaults: []namedToken{{"eos_token", endOfText}, {"unk_token", endOfText}, {"pad_token", endOfText}},
		}
	case classLlama:
		scheme := "never"
		if c.prefixSpace(true) {
			scheme = "first"
			if c.Legacy {
				scheme = "always"
			}
		}
		return &blueprint{
			preTokenizer: object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false},
			fuseUnk:      true, byteFallback: true,
			defaults: []namedToken{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
		}
	case classGemma:
		unk := c.special("unk_token", "<unk>")
		return &blueprint{
			normalizer: object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"},
			preTokenizer: object{
				"type": "Split", "pattern": object{"String": " "}, "behavior": "MergedWithPrevious", "invert": false,
			},
			unk: &unk, fuseUnk: true, byteFallback: true,
			defaults: []namedToken{
				{"bos_token", "<bos>"},
				{"eos_token", "<eos>"},
				{"unk_token", "<unk>"},
				{"pad_token", "<pad>"},
				{"mask_token", "<mask>"},
			},
		}
	case classGPT2:
		return &blueprint{
			preTokenizer: byteLevel(c, true),
			affix:        &empty,
			defaults:     []namedToken{{"bos_token", endOfText}, {"eos_token", endOfText}, {"unk_token", endOfText}},
		}
	default:
		return nil
	}
}

func byteLevel(c *tokenizerConfig, useRegex bool) object {
	return object{
		"type": "ByteLevel", "add_prefix_space": c.prefixSpace(false), "trim_offsets": true, "use_regex": useRegex,
	}
}

// rebuild writes the tokenizer.json that describes what the engine runs: the file,
// with the components that the class puts in their place and with the added tokens
// that tokenizer_config.json contributes.
func rebuild(file []byte, b *blueprint, c *tokenizerConfig) ([]byte, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(file, &top); err != nil {
		return nil, errors.New("local: tokenizer.json is not a JSON object")
	}
	added, changed, err := mergeAdded(top, c, b)
	if err != nil {
		return nil, err
	}
	if b == nil && !changed {
		return file, nil
	}
	out := object{}
	for k, v := range top {
		out[k] = v
	}
	out["added_tokens"] = added
	if b != nil {
		var model map[string]json.RawMessage
		if err = json.Unmarshal(top["model"], &model); err != nil {
			return nil, errors.New("local: tokenizer.json has no model")
		}
		out["normalizer"], out["pre_tokenizer"] = b.normalizer, b.preTokenizer
		out["model"] = object{
			"type": "BPE", "dropout": nil, "unk_token": b.unk,
			"continuing_subword_prefix": b.affix, "end_of_word_suffix": b.affix,
			"fuse_unk": b.fuseUnk, "byte_fallback": b.byteFallback, "ignore_merges": false,
			"vocab": model["vocab"], "merges": model["merges"],
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("local: tokenizer.json: %w", err)
	}
	return text, nil
}
