package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

func isLimit(err error) bool { return errors.Is(err, jinja.ErrLimit) }

// text appends to dst the text that the query's conversation is rendered to.
func (q *query) text(ctx context.Context, a *assets, dst []byte) ([]byte, error) {
	if !q.withTools(a) {
		q.tools = nil
	}
	t := a.template(q.tools != nil)
	if t == nil {
		return nil, errNoTemplate
	}
	list, err := conversation(q.messages, t)
	if err != nil {
		return nil, err
	}
	var final string
	if q.resume {
		if q.generate {
			return nil, errContinue // the engine refuses the two together
		}
		if final, err = markFinal(list, t); err != nil {
			return nil, err
		}
	}
	vars, err := q.variables(a, t, list)
	if err != nil {
		return nil, err
	}
	text, err := t.Render(ctx, dst, vars)
	if err != nil {
		return nil, renderError(ctx, err)
	}
	if q.resume {
		return cutFinal(text, final)
	}
	return text, nil
}

// withTools reports whether the template gets to see tools.
func (q *query) withTools(a *assets) bool {
	return q.tools != nil && !(q.toolsOff && a.model.ExcludeToolsWhenNone)
}

// rendered returns the ids of the query's conversation.
func (a *assets) rendered(ctx context.Context, q *query) ([]uint32, error) {
	buffer := a.buffers.get()
	text, err := q.text(ctx, a, (*buffer)[:0])
	if err != nil {
		return nil, err
	}
	ids, err := a.ids(q.scope, text, q.special, q.cut)
	a.buffers.put(buffer, text)
	return ids, err
}

// maxKept bounds the memory that a pooled buffer may hold on to, in bytes.
const maxKept = 1 << 20

// buffers hold rendered texts, which live only until they are tokenized: without
// them each request would grow one from nothing.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[]byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return p
	}
	return new([]byte)
}

func (b *buffers) put(p *[]byte, text []byte) {
	if cap(text) > maxKept {
		return
	}
	*p = text[:0]
	b.pool.Put(p)
}

// renderError says in a fixed phrase why rendering failed. Where the template
// refused the request, so will the engine.
func renderError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err() //nolint:wrapcheck // the Encoder knows it
	case errors.Is(err, jinja.ErrRaised):
		return errRaised
	case isLimit(err):
		return errLimit
	default:
		return errRender
	}
}

// finalTag marks where a final message is to be continued. transformers uses the
// same, and its length matters where a template trims.
const finalTag = "CONTINUE_FINAL_MESSAGE_TAG "

// markFinal puts the tag after the last message's text, which it returns.
func markFinal(list *jinja.List, t *chatTemplate) (string, error) {
	last, ok := list.At(list.Len() - 1).(*jinja.Dict)
	if !ok || !strings.Contains(t.source, "content") {
		return "", errContinue
	}
	content, _ := last.Get("content")
	switch c := content.(type) {
	case jinja.String:
		last.Set("content", c+finalTag)
		return string(c), nil
	case *jinja.List:
		for i := c.Len() - 1; i >= 0; i-- {
			p, isDict := c.At(i).(*jinja.Dict)
			if !isDict {
				continue
			}
			v, found := p.Get("text")
			if text, isText := v.(jinja.String); found && isText {
				p.Set("text", text+finalTag)
				return string(text), nil
			}
		}
	default:
	}
	return "", errContinue
}

// cutFinal ends the text where the final message ends.
func cutFinal(text []byte, final string) ([]byte, error) {
	s := string(text)
	tag := strings.TrimRight(finalTag, " ")
	at := strings.LastIndex(s, tag)
	if at < 0 || !strings.Contains(s, strings.TrimFunc(final, isPythonSpace)) {
		return nil, errContinue
	}
	if strings.HasPrefix(s[at:], finalTag) {
		return text[:at], nil
	}
	return text[:len(strings.TrimRightFunc(s[:at], isPythonSpace))], nil
}

// isPythonSpace is str.isspace of one character.
func isPythonSpace(r rune) bool {
	const firstSeparator, lastSeparator = 0x1c, 0x1f
	return unicode.IsSpace(r) || r >= firstSeparator && r <= lastSeparator
}

// ids tokenizes a text, within the scope of a cache salt, and cuts it as the request wants.
func (a *assets) ids(scope string, text []byte, special bool, c cut) ([]uint32, error) {
	if !utf8.Valid(text) {
		return nil, errText
	}
	const bytesPerToken = 4 // a guess: few texts have less to a token
	s := string(text)
	dst := make([]uint32, 0, len(s)/bytesPerToken+1)
	var ids []uint32
	var err error
	if t, ok := a.tokenizer.(scoped); ok {
		ids, err = t.EncodeWithin(scope, dst, s, special)
	} else {
		ids, err = a.tokenizer.Encode(dst, s, special)
	}
	if err != nil {
		return nil, errTokenize
	}
	if len(ids) == 0 {
		return nil, errEmpty
	}
	if !c.any {
		return ids, nil
	}
	return (&c).apply(a, ids, s, special)
}

// cut is a request's wish to shorten its prompt.
type cut struct {
	any bool
	// to is the number of tokens kept; negative: what the model has room for.
	to int
	// side is "left" or "right", the end that is cut off; "" for the engine's default,
	// left, at which the tokenizer cuts before it adds special tokens.
	side string
	// output is the number of tokens asked for, 0 if that isn't said.
	output int
}

func cutOf(o jsonscan.Object) (cut, error) {
	v := o.Value("truncate_prompt_tokens")
	if !v.Exists() {
		return cut{}, nil
	}
	const most = 1 << 30
	n, ok := v.Int()
	if !ok || n < -1 || n == 0 || n > most {
		return cut{}, errField
	}
	c := cut{any: true, to: int(n)}
	side := o.Value("truncation_side")
	if !side.Exists() {
		return c, nil
	}
	c.side, _ = side.Str()
	if c.side != "left" && c.side != "right" {
		return cut{}, errField
	}
	return c, nil
}

// reserve notes how much output is asked for, by the first field that says so.
func (c *cut) reserve(o jsonscan.Object, fields ...string) {
	for _, f := range fields {
		if n, ok := o.Value(f).Int(); ok {
			c.output = int(min(max(n, 0), 1<<30))
			return
		}
	}
}

// longText: beyond it the engine cuts characters before it cuts tokens, by a bound
// that depends on its model length.
const longText = 64 << 10

func (c *cut) apply(a *assets, ids []uint32, text string, special bool) ([]uint32, error) {
	to := c.to
	if to < 0 {
		if a.model.MaxModelLen <= 0 {
			return nil, errTruncation
		}
		to = a.model.MaxModelLen - 1 // holds one back for output
		if c.output == 0 && len(ids) > to {
			return nil, errTruncation
		}
	}
	if len(ids) <= to {
		return ids, nil
	}
	if c.side != "" && len(text) > longText {
		return nil, errTruncation
	}
	if c.side == "" && special {
		return a.cutWithin(ids, text, to)
	}
	if c.side == "right" {
		return ids[:to], nil
	}
	return ids[len(ids)-to:], nil
}

// cutWithin cuts as the tokenizer does: the text's ids, leaving room for the special
// tokens that it then puts around them.
func (a *assets) cutWithin(ids []uint32, text string, to int) ([]uint32, error) {
	bare, err := a.tokenizer.Encode(nil, text, false)
	added := len(ids) - len(bare)
	if err != nil || added < 0 || to <= added {
		return nil, errTruncation
	}
	for before := range added + 1 {
		if !slices.Equal(ids[before:before+len(bare)], bare) {
			continue
		}
		out := slices.Clone(ids[:before])
		out = append(out, bare[len(bare)-(to-added):]...)
		return append(out, ids[before+len(bare):]...), nil
	}
	return nil, errTruncation
}
