package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// addedToken is one entry of tokenizer.json's added_tokens, and with the id as key
// of tokenizer_config.json's added_tokens_decoder.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Lstrip     bool   `json:"lstrip"`
	Rstrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// UnmarshalJSON leaves normalized at its default, which depends on special.
func (t *addedToken) UnmarshalJSON(data []byte) error {
	type plain addedToken
	var v struct {
		plain
		Normalized *bool `json:"normalized"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err //nolint:wrapcheck // its caller says where
	}
	*t = addedToken(v.plain)
	t.Normalized = !t.Special
	if v.Normalized != nil {
		t.Normalized = *v.Normalized
	}
	return nil
}

// mergeAdded makes the list of added tokens that transformers ends up with when it
// loads the files: those of tokenizer.json, those of added_tokens_decoder, whose
// flags win, and special tokens that are in neither. A class that builds its
// tokenizer anew forgets those of tokenizer.json where added_tokens_decoder exists.
func mergeAdded(top map[string]json.RawMessage, c *tokenizerConfig, b *blueprint) (merged []addedToken, changed bool, err error) {
	var added []addedToken
	if raw, found := top["added_tokens"]; found {
		if err = json.Unmarshal(raw, &added); err != nil {
			return nil, false, errors.New("local: tokenizer.json: added_tokens is malformed")
		}
	}
	if olderErr := c.checkOlderAdded(added); olderErr != nil {
		return nil, false, olderErr
	}
	vocab := &vocabulary{raw: top["model"], added: added}
	resets := b != nil && b.resets
	if b != nil {
		vocab.added, changed = nil, true
	}
	decoder, err := c.decoder()
	if err != nil {
		return nil, false, err
	}
	if b != nil && c.AddedTokens == nil {
		decoder = added
	}
	slices.SortFunc(decoder, func(a, b addedToken) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range decoder {
		more, addErr := vocab.add(t)
		if addErr != nil {
			return nil, false, addErr
		}
		changed = changed || more
	}
	names := map[string]addedToken{} // special tokens that are nowhere else, as they are given
	for _, t := range c.specials() {
		if t.Content == "" {
			continue
		}
		t.Special = true
		if i := vocab.indexOf(t.Content); i >= 0 {
			if of, again := names[t.Content]; again && of != t {
				return nil, false, fmt.Errorf("%w: two special tokens are the same but for their flags", ErrTokenizerClass)
			}
			if plain := plainSpecial(vocab.added[i]); resets && vocab.added[i] != plain {
				vocab.added[i], changed = plain, true
			}
			continue
		}
		names[t.Content] = t
		if resets {
			t = plainSpecial(t)
		}
		id, idErr := vocab.nextID(t.Content)
		if idErr != nil {
			return nil, false, idErr
		}
		t.ID = id
		vocab.added = append(vocab.added, t)
		changed = true
	}
	return vocab.added, changed, nil
}

// checkOlderAdded refuses tokens of added_tokens.json that tokenizer.json lacks:
// transformers adds them, with flags that depend on the class.
func (c *tokenizerConfig) checkOlderAdded(added []addedToken) error {
	for content, id := range c.olderAdded {
		if !slices.ContainsFunc(added, func(t addedToken) bool { return t.ID == id && t.Content == content }) {
			return fmt.Errorf("%w: added_tokens.json has a token %d that tokenizer.json has not", ErrTokenizerClass, id)
		}
	}
	return nil
}

// decoder are the tokens of added_tokens_decoder, in no order.
func (c *tokenizerConfig) decoder() ([]addedToken, error) {
	tokens := make([]addedToken, 0, len(c.AddedTokens))
	for id, t := range c.AddedTokens {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, errors.New("local: tokenizer_config.json: added_tokens_decoder has a key that is no id")
		}
		t.ID = uint32(n)
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// plainSpecial is a special token that is matched in the raw text and takes no
// space around it.
func plainSpecial(t addedToken) addedToken {
	return addedToken{ID: t.ID, Content: t.Content, Special: true}
}

// vocabulary finds ids for tokens that are added. The model's own vocabulary is
// read only if one is needed: it is large.
type vocabulary struct {
	raw   json.RawMessage
	added []addedToken
	ids   map[string]uint32
}

func (v *vocabulary) indexOf(content string) int {
	return slices.IndexFunc(v.added, func(t addedToken) bool { return t.Content == content })
}

// add adds or changes a token whose id is known and reports whether that changed
// anything.
func (v *vocabulary) add(t addedToken) (bool, error) {
	if i := v.indexOf(t.Content); i >= 0 {
		if v.added[i] == t {
			return false, nil
		}
		if v.added[i].ID != t.ID {
			return false, fmt.Errorf("local: tokenizer_config.json gives an added token the id %d, tokenizer.json %d", t.ID, v.added[i].ID)
		}
		v.added[i] = t
		return true, nil
	}
	id, err := v.nextID(t.Content)
	if err != nil {
		return false, err
	}
	if id != t.ID {
		return false, fmt.Errorf("local: tokenizer_config.json gives an added token the id %d, its library %d", t.ID, id)
	}
	v.added = append(v.added, t)
	return true, nil
}

// nextID is the id that the tokenizers library gives an added token.
func (v *vocabulary) nextID(content string) (uint32, error) {
	if v.ids == nil {
		var model struct {
			Vocab map[string]uint32 `json:"vocab"`
		}
		if err := json.Unmarshal(v.raw, &model); err != nil {
			if model.Vocab, err = listedVocabulary(v.raw); err != nil {
				return 0, err
			}
		}
		v.ids = model.Vocab
	}
	if id, found := v.ids[content]; found {
		return id, nil
	}
	next := uint32(len(v.ids))
	for _, t := range v.added {
		if t.ID >= next {
			next = t.ID + 1
		}
	}
	return next, nil
}

// listedVocabulary reads a vocabulary of the form that Unigram models have: pieces
// with their scores, in the order of ids.
func listedVocabulary(model []byte) (map[string]uint32, error) {
	malformed := errors.New("local: tokenizer.json: the vocabulary is malformed")
	var listed struct {
		Vocab [][]json.RawMessage `json:"vocab"`
	}
	if err := json.Unmarshal(model, &listed); err != nil {
		return nil, malformed
	}
	ids := make(map[string]uint32, len(listed.Vocab))
	for id, entry := range listed.Vocab {
		var piece string
		if len(entry) == 0 || json.Unmarshal(entry[0], &piece) != nil {
			return nil, malformed
		}
		ids[piece] = uint32(id)
	}
	return ids, nil
}
