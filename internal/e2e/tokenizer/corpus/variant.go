package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// Variant is a small tokenizer: a trained base with some parts replaced.
type Variant struct {
	Name string
	File []byte // its tokenizer.json

	Pattern string // if it is one of Patterns
}

// Variants makes the tokenizers that variants.json of a folder describes: each names a
// base, and gives the parts of the file that replace those of the base; of the model, the
// fields.
func Variants(dir string) ([]Variant, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "variants.json")) //nolint:gosec // a tool of tests reads what it is told to
	if err != nil {
		return nil, err
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	out := make([]Variant, 0, len(list))
	for _, patch := range list {
		v, err := variant(dir, patch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", patch["name"], err)
		}
		out = append(out, v)
	}
	return out, nil
}

func variant(dir string, patch map[string]json.RawMessage) (Variant, error) {
	var v Variant
	var base string
	var file, model, fields map[string]json.RawMessage
	raw := func() ([]byte, error) {
		if err := errors.Join(json.Unmarshal(patch["name"], &v.Name), json.Unmarshal(patch["base"], &base)); err != nil {
			return nil, err
		}
		return os.ReadFile(filepath.Join(dir, base+".json")) //nolint:gosec // as above
	}
	data, err := raw()
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		return v, err
	}
	for name, part := range patch {
		switch name {
		case "name", "base":
		case "model":
			err = errors.Join(json.Unmarshal(file["model"], &model), json.Unmarshal(part, &fields))
			if err != nil {
				return v, err
			}
			maps.Copy(model, fields)
			if file["model"], err = json.Marshal(model); err != nil {
				return v, err
			}
		default:
			file[name] = part
		}
	}
	v.File, err = json.Marshal(file)
	return v, err
}

// Patterns makes n tokenizers that split by random patterns.
func (s *Source) Patterns(dir string, n int) ([]Variant, error) {
	out := make([]Variant, 0, n)
	for i := range n {
		pattern := s.Pattern()
		pre, err := json.Marshal(map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{
				"type": "Split", "pattern": map[string]string{"Regex": pattern}, "invert": s.one(2),
				"behavior": s.pick([]string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}),
			},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		}})
		if err != nil {
			return nil, err
		}
		v, err := variant(dir, map[string]json.RawMessage{
			"name": fmt.Appendf(nil, "%q", fmt.Sprintf("pattern-%d", i)), "base": json.RawMessage(`"letters"`), "pre_tokenizer": pre,
		})
		if err != nil {
			return nil, err
		}
		v.Pattern = pattern
		out = append(out, v)
	}
	return out, nil
}
