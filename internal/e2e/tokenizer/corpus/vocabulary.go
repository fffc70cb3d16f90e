package corpus

import (
	"encoding/json"
	"slices"
	"strings"
)

// Vocabulary reads a tokenizer.json for the texts that its tokens stand for.
func Vocabulary(file []byte) (special, words []string, err error) {
	var t struct {
		Added []struct {
			Content string `json:"content"`
		} `json:"added_tokens"`
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(file, &t); err != nil {
		return nil, nil, err
	}
	for _, a := range t.Added {
		if a.Content != "" {
			special = append(special, a.Content)
		}
	}
	_, bytes := t.Model.Vocab["Ġ"]
	for token := range t.Model.Vocab {
		words = append(words, spell(token, bytes))
	}
	slices.Sort(special)
	slices.Sort(words)
	return special, slices.Compact(words), nil
}

// spell turns a token into text: in byte-level vocabularies characters stand for bytes, in
// the others one stands for the space.
func spell(token string, byteLevel bool) string {
	if !byteLevel {
		return strings.ReplaceAll(token, "▁", " ")
	}
	var b []byte
	for _, r := range token {
		switch {
		case r < 0x100:
			b = append(b, byte(r))
		case r <= 0x120: // 0x00 to 0x20
			b = append(b, byte(r-0x100))
		case r <= 0x142: // 0x7F to 0xA0
			b = append(b, byte(r-0x121+0x7F))
		case r == 0x143:
			b = append(b, 0xAD)
		}
	}
	return string(b)
}
