package local

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// completionTexts reads the prompts of a completions request. Prompts of ids are
// served before they get here.
func completionTexts(o jsonscan.Object) (texts [][]byte, special bool, c cut, err error) {
	switch {
	case o.Value("prompt_embeds").Exists():
		return nil, false, c, errEmbeds
	case o.Value("suffix").Exists():
		return nil, false, c, errSuffix
	default:
	}
	special = true
	if v, present := o.Get("add_special_tokens"); present {
		var ok bool
		if special, ok = v.Bool(); !ok {
			return nil, false, c, errField
		}
	}
	if c, err = cutOf(o); err != nil {
		return nil, false, c, err
	}
	if c.any && c.to < 0 {
		const byDefault = 16 // max_tokens of the completions API
		c.output = byDefault
		c.reserve(o, "max_tokens")
	}
	prompt := o.Value("prompt")
	if text, ok := prompt.Text(); ok {
		return [][]byte{text}, special, c, nil
	}
	if prompt.Kind() != jsonscan.KindArray {
		return nil, false, c, errField
	}
	for it := prompt.Iter(); it.Next(); {
		text, ok := it.Value().Text()
		if !ok {
			return nil, false, c, errField
		}
		texts = append(texts, text)
	}
	return texts, special, c, nil
}
