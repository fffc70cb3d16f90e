package tokenizer

import (
	"strconv"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
)

// loadPost reads a post-processor: the ids that it puts around a text when special tokens
// are asked for.
func (l *loader) loadPost(path string, v *jsontree.Value) error {
	c := l.component(path, v)
	if c.err != nil {
		return c.err
	}
	switch c.kind {
	case "Sequence":
		c.items("processors", l.loadPost)
	case "ByteLevel": // concerns offsets only
		c.flag("add_prefix_space")
		c.flag("trim_offsets")
		c.optionalFlag("use_regex", true)
	case "RobertaProcessing", "BertProcessing":
		l.around(c, c.token("cls"), c.token("sep"))
		if c.kind == "RobertaProcessing" {
			c.flag("trim_offsets")
			c.flag("add_prefix_space")
		}
	case "TemplateProcessing":
		l.loadTemplate(c)
	default:
		c.refusef("post-processor")
	}
	return c.done()
}

// around sets what comes before and after the text. Two components that do so would have
// the Rust code take the result of the first for a pair of texts.
func (l *loader) around(c *component, before, after []uint32) {
	if l.framed {
		c.refusef("a second post-processor that adds tokens")
	}
	l.framed, l.before, l.after = true, before, after
}

// token reads ["token", id].
func (c *component) token(name string) []uint32 {
	v := c.need(name, jsontree.Array)
	const pair = 2
	if len(v.Items) != pair || v.Items[0].Kind != jsontree.String {
		c.fail(malformedf(c.path, "field %q is no token", name))
		return nil
	}
	return []uint32{c.id(&v.Items[1])}
}

func (c *component) id(v *jsontree.Value) uint32 {
	const bits = 32
	n, err := strconv.ParseUint(v.Text, 10, bits)
	if v.Kind != jsontree.Number || err != nil {
		c.fail(malformedf(c.path, "expected a token id"))
	}
	return uint32(n)
}

func (l *loader) loadTemplate(c *component) {
	c.need("pair", jsontree.Array) // for pairs of texts, which prompts never are
	special := map[string][]uint32{}
	for _, m := range c.need("special_tokens", jsontree.Object).Members {
		ids := m.Value.Get("ids")
		if ids == nil || ids.Kind != jsontree.Array {
			c.fail(malformedf(c.path, "special token %q has no ids", m.Key))
			return
		}
		special[m.Key] = nil
		for i := range ids.Items {
			special[m.Key] = append(special[m.Key], c.id(&ids.Items[i]))
		}
	}
	var before, after []uint32
	texts := 0
	for _, item := range c.need("single", jsontree.Array).Items {
		if len(item.Members) != 1 {
			c.fail(malformedf(c.path, "a piece of the template isn't one"))
			return
		}
		piece := &item.Members[0]
		id := piece.Value.Get("id")
		switch {
		case id == nil || id.Kind != jsontree.String:
			c.fail(malformedf(c.path, "a piece of the template has no id"))
			return
		case piece.Key == "Sequence" && id.Text == "A":
			texts++
		case piece.Key == "SpecialToken":
			ids, ok := special[id.Text]
			if !ok {
				c.fail(malformedf(c.path, "the template uses an unknown special token"))
				return
			}
			if texts == 0 {
				before = append(before, ids...)
			} else {
				after = append(after, ids...)
			}
		default:
			c.refusef("a template with other pieces than the text and special tokens")
			return
		}
	}
	if texts != 1 {
		c.refusef("a template that doesn't hold the text exactly once")
	}
	l.around(c, before, after)
}
