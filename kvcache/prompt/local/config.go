package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// modelConfig is what matters of config.json.
type modelConfig struct {
	ModelType      string   `json:"model_type"`
	Architectures  []string `json:"architectures"`
	TokenizerClass string   `json:"tokenizer_class"`
	// The id of an image's placeholder, by its older and its newer name.
	ImageTokenIndex *uint32 `json:"image_token_index"`
	ImageTokenID    *uint32 `json:"image_token_id"`
}

// tokenizerConfig is what matters of tokenizer_config.json, with what
// special_tokens_map.json adds to it.
type tokenizerConfig struct {
	Class        string                     `json:"tokenizer_class"`
	PrefixSpace  *bool                      `json:"add_prefix_space"`
	Legacy       bool                       `json:"legacy"`
	Split        bool                       `json:"split_special_tokens"`
	MistralFix   bool                       `json:"fix_mistral_regex"`
	ChatTemplate json.RawMessage            `json:"chat_template"`
	AutoMap      json.RawMessage            `json:"auto_map"`
	AddedTokens  map[string]addedToken      `json:"added_tokens_decoder"`
	Extra        json.RawMessage            `json:"extra_special_tokens"`
	Additional   json.RawMessage            `json:"additional_special_tokens"`
	FastFiles    json.RawMessage            `json:"fast_tokenizer_files"`
	all          map[string]json.RawMessage // all fields
	named        []namedSpecial
	extra        []addedToken
	// olderAdded are the ids of added_tokens.json, if it counts.
	olderAdded map[string]uint32
}

// namedSpecial is a special token that templates see under its name.
type namedSpecial struct {
	name  string
	token addedToken
}

// standardTokens are transformers' own names, in its order.
//
//nolint:gochecknoglobals // a table
var standardTokens = [...]string{
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
}

func isStandard(name string) bool { return slices.Contains(standardTokens[:], name) }

var errMalformedConfig = errors.New("local: tokenizer_config.json is malformed")

// parseTokenizerConfig reads the two files; specialMap may be empty.
func parseTokenizerConfig(text, specialMap []byte) (*tokenizerConfig, error) {
	c := &tokenizerConfig{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, errMalformedConfig
	}
	if err := json.Unmarshal(text, &c.all); err != nil {
		return nil, errMalformedConfig
	}
	if c.AddedTokens == nil && len(specialMap) > 0 {
		// Only without added_tokens_decoder does transformers read the older file.
		var older map[string]json.RawMessage
		if err := json.Unmarshal(specialMap, &older); err != nil {
			return nil, errors.New("local: special_tokens_map.json is malformed")
		}
		if err := c.agrees(older); err != nil {
			return nil, err
		}
		maps.Copy(c.all, older)
		c.Extra, c.Additional = c.all["extra_special_tokens"], c.all["additional_special_tokens"]
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// agrees refuses further special tokens of special_tokens_map.json that are others than
// those of tokenizer_config.json: which of them count depends on the names they come by.
func (c *tokenizerConfig) agrees(older map[string]json.RawMessage) error {
	const extra, additional = "extra_special_tokens", "additional_special_tokens"
	_, hasExtra := c.all[extra]
	_, hasAdditional := c.all[additional]
	if !hasExtra && !hasAdditional {
		return nil
	}
	for _, name := range [...]string{extra, additional} {
		var a, b bytes.Buffer
		if _, found := older[name]; !found {
			continue
		}
		errA, errB := json.Compact(&a, older[name]), json.Compact(&b, c.all[name])
		if errA != nil || errB != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			return fmt.Errorf("%w: special_tokens_map.json and tokenizer_config.json differ in %s", ErrTokenizerClass, name)
		}
	}
	return nil
}

// readOlderAdded reads added_tokens.json; text may be empty. As special_tokens_map.json
// it counts only without added_tokens_decoder.
func (c *tokenizerConfig) readOlderAdded(text []byte) error {
	if c.AddedTokens != nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, &c.olderAdded); err != nil {
		return errors.New("local: added_tokens.json is malformed")
	}
	return nil
}

// check refuses what changes tokenization in ways that are not reproduced.
func (c *tokenizerConfig) check() error {
	switch {
	case c.Split:
		return fmt.Errorf("%w: split_special_tokens is set", ErrTokenizerClass)
	case c.MistralFix:
		return fmt.Errorf("%w: fix_mistral_regex is set", ErrTokenizerClass)
	case isSet(c.FastFiles):
		return fmt.Errorf("%w: fast_tokenizer_files is set", ErrTokenizerClass)
	default:
	}
	if isSet(c.AutoMap) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(c.AutoMap, &m); err != nil || isSet(m["AutoTokenizer"]) {
			return fmt.Errorf("%w: the tokenizer is code in the model's repository", ErrTokenizerClass)
		}
	}
	return nil
}

func isSet(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && string(raw) != "null"
}

// prefixSpace is add_prefix_space, or the class's default.
func (c *tokenizerConfig) prefixSpace(byDefault bool) bool {
	if c.PrefixSpace == nil {
		return byDefault
	}
	return *c.PrefixSpace
}

// special is the text of a named special token, or the default when there is none.
func (c *tokenizerConfig) special(name, byDefault string) string {
	raw, found := c.all[name]
	if !found {
		return byDefault
	}
	if t, ok := tokenOf(raw); ok {
		return t.Content
	}
	return byDefault
}

// tokenOf reads a token given as a string or as an object with flags.
func tokenOf(raw json.RawMessage) (addedToken, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil && isSet(raw) {
		return addedToken{Content: text, Special: true}, true
	}
	var t addedToken
	if json.Unmarshal(raw, &t) == nil && t.Content != "" {
		return t, true
	}
	return addedToken{}, false
}

// finish collects the special tokens, with the class's defaults for those that the
// files don't mention; a null takes the default away.
func (c *tokenizerConfig) finish(defaults []namedToken) {
	for _, name := range standardTokens {
		raw, mentioned := c.all[name]
		if mentioned {
			if t, ok := tokenOf(raw); ok {
				c.named = append(c.named, namedSpecial{name, t})
			}
			continue
		}
		for _, d := range defaults {
			if d.name == name {
				c.named = append(c.named, namedSpecial{name, addedToken{Content: d.text, Special: true}})
			}
		}
	}
	var own []string
	for name := range c.all {
		if strings.HasSuffix(name, "_token") && !isStandard(name) {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	for _, name := range own {
		if t, ok := tokenOf(c.all[name]); ok {
			c.named = append(c.named, namedSpecial{name, t})
		}
	}
	c.collectExtra()
}

// collectExtra reads the further special tokens. The list of the older name counts where
// the newer one has none: where that names tokens instead, there are both.
func (c *tokenizerConfig) collectExtra() {
	extra := bytes.TrimSpace(c.Extra)
	empty := !isSet(extra) || string(extra) == "[]" || string(extra) == "{}"
	if !empty || !isSet(c.Additional) {
		c.addExtra(extra)
	}
	if empty || extra[0] == '{' {
		c.addExtra(c.Additional)
	}
}

// addExtra reads further special tokens: a list, or an object by name.
func (c *tokenizerConfig) addExtra(raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, item := range list {
			if t, ok := tokenOf(item); ok {
				c.extra = append(c.extra, t)
			}
		}
		return
	}
	var byName map[string]json.RawMessage
	if json.Unmarshal(raw, &byName) != nil {
		return
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if t, ok := tokenOf(byName[name]); ok {
			c.named = append(c.named, namedSpecial{name, t})
		}
	}
}

// specials are all special tokens, in the order in which they are added.
func (c *tokenizerConfig) specials() []addedToken {
	out := make([]addedToken, 0, len(c.named)+len(c.extra))
	for _, n := range c.named {
		out = append(out, n.token)
	}
	return append(out, c.extra...)
}
