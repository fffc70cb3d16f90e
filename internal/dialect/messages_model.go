package dialect

import "strings"

// claude is what a model's name says of the fields that it takes. They differ by version,
// and the service refuses a request with the wrong ones (400).
type claude struct {
	// other: the name is not of Anthropic's; somebody else serves the API.
	other bool
	// version is 10*major+minor, 0 for a name without one: an alias, so a current model.
	version int
	// sonnet and thinker (Fable, Mythos) are families with rules of their own.
	sonnet, thinker bool
}

// The versions from which on something changed, by Anthropic's migration guides.
const (
	claudeThinks     = 37 // thinking
	claudeStrict     = 41 // strict tools, output_config.format; temperature or top_p, not both
	claudeAdaptive   = 46 // thinking of type adaptive, with an effort; no turn of its own that was begun
	claudeNoSampling = 47 // no temperature, top_p, top_k; thinking of type adaptive only
	claudeOmits      = 47 // what is thought is shown only if display asks for it
	claudeThinking   = 50 // thinks unless it is told not to
	claudeUnforced   = 51 // of Fable and Mythos: no tool_choice any or tool
	claudeAlways     = 55 // can't be told not to; Sonnet: no tool_choice any or tool
)

// claudeOf reads a name: claude-opus-4-7, claude-3-7-sonnet-20250219, claude-sonnet-5,
// anthropic.claude-opus-4-6-v1, claude-opus-4@20250514, anthropic/claude-4.6-sonnet.
func claudeOf(model string) claude {
	_, name, ok := strings.Cut(strings.ToLower(model), "claude")
	if !ok {
		return claude{other: true}
	}
	words := strings.FieldsFunc(name, func(r rune) bool {
		return r < '0' || r > '9' && r < 'a' || r > 'z'
	})
	c := claude{
		sonnet:  strings.Contains(name, "sonnet"),
		thinker: strings.Contains(name, "fable") || strings.Contains(name, "mythos"),
	}
	for i, w := range words {
		major, ok := smallNumber(w)
		if !ok {
			continue
		}
		minor := 0
		if i+1 < len(words) {
			minor, _ = smallNumber(words[i+1])
		}
		c.version = 10*major + minor
		break
	}
	return c
}

// unforced reports whether the model refuses to be made to call a tool. A name without a
// version is left to the service: not all of these families' models do.
func (c claude) unforced() bool {
	return c.sonnet && c.version >= claudeAlways || c.thinker && c.version >= claudeUnforced
}

// stoppable reports whether the model thinks unless it is told not to, and can be told. A
// name without a version is left to the service.
func (c claude) stoppable() bool {
	return c.has(claudeThinking) && !c.has(claudeAlways) && !c.thinker
}

// smallNumber reads a number of one digit: those of versions have no more, dates do.
func smallNumber(w string) (n int, ok bool) {
	if len(w) != 1 || w[0] < '0' || w[0] > '9' {
		return 0, false
	}
	return int(w[0] - '0'), true
}

// has reports whether the model is of this version or a later one.
func (c claude) has(version int) bool {
	return !c.other && (c.version == 0 || c.version >= version)
}
