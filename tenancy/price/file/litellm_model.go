package file

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/tenancy/price"
)

// model is one of LiteLLM's models.
type model struct {
	fields    map[string]any
	hourCache bool
	rounded   int
	partial   bool
}

// The fields that are read, prices of a token but for one.
const (
	inputField     = "input_cost_per_token"
	outputField    = "output_cost_per_token"
	readField      = "cache_read_input_token_cost"
	writeField     = "cache_creation_input_token_cost"
	hourWriteField = "cache_creation_input_token_cost_above_1hr"
	reasoningField = "output_cost_per_reasoning_token"
	requestField   = "input_cost_per_request" // of a whole request
)

// tokenScale makes dollars per token millionths of them per million tokens.
const tokenScale = 12

func (m *model) entry(name string) (*price.Entry, error) {
	provider, _ := m.fields["litellm_provider"].(string)
	provider = canonical(provider)
	switch {
	case name == "":
		return nil, errors.New("it has no name")
	case strings.Contains(name, "*"):
		return nil, errors.New("its name has an asterisk")
	case provider == price.Fleet || provider == price.Any:
		return nil, errors.New("it has no litellm_provider")
	default:
	}
	e := &price.Entry{Provider: provider, Model: name}
	for strings.HasPrefix(e.Model, provider+"/") {
		e.Model = e.Model[len(provider)+1:]
	}
	if e.Model == "" {
		return nil, errors.New("it has no name")
	}
	base, err := m.rates(m.fields, "", rates{})
	if err != nil {
		return nil, err
	}
	tiers, err := m.tiers(base)
	if err != nil {
		return nil, err
	}
	if len(tiers) > 0 && tiers[0].above == 0 {
		base, tiers = tiers[0].rates, tiers[1:]
	}
	if e.Prices, err = base.prices(m.silent()); err != nil {
		return nil, err
	}
	for _, t := range tiers {
		t.orElse(base)
		e.Tiers = append(e.Tiers, price.Tier{Above: t.above, Prices: t.plain()})
	}
	if e.Request, err = m.request(); err != nil {
		return nil, err
	}
	m.rest(e)
	return e, nil
}

// canonical is the name of the provider that a part of it belongs to.
func canonical(provider string) string {
	switch {
	case strings.HasPrefix(provider, "vertex_ai-"):
		return "vertex_ai"
	case provider == "bedrock_converse":
		return "bedrock"
	case provider == "text-completion-openai":
		return "openai"
	case provider == "cohere_chat":
		return "cohere"
	default:
		return provider
	}
}

// silent reports whether a model's answers are no tokens that cost.
func (m *model) silent() bool {
	switch m.fields["mode"] {
	case "embedding", "rerank", "moderation":
		return true
	default:
		return false
	}
}

func (r *rates) prices(silent bool) (price.Prices, error) {
	_, hasInput := r.input.Amount()
	_, hasOutput := r.output.Amount()
	switch {
	case !hasInput:
		return price.Prices{}, errors.New("it has no price of a token: " + inputField)
	case !hasOutput && !silent:
		return price.Prices{}, errors.New("its answers have no price of a token: " + outputField)
	default:
		return r.plain(), nil
	}
}

// rates reads the fields that end in suffix; what isn't there is as in base.
func (m *model) rates(fields map[string]any, suffix string, base rates) (r rates, err error) {
	for _, f := range []struct {
		field string
		into  *price.Rate
	}{
		{inputField, &r.input}, {outputField, &r.output}, {readField, &r.read}, {writeField, &r.write}, {reasoningField, &r.reasoning},
	} {
		if *f.into, err = m.rate(fields, f.field+suffix); err != nil {
			return rates{}, err
		}
	}
	if m.hourCache {
		hour, err := m.rate(fields, hourWriteField+suffix)
		if err != nil {
			return rates{}, err
		}
		r.write = dearer(hour, dearer(r.write, base.write))
	}
	r.orElse(base)
	return r, nil
}

// dearer is the higher of two prices: what is kept for longer never costs less, also
// where a list leaves that out for long prompts.
func dearer(a, b price.Rate) price.Rate {
	x, hasA := a.Amount()
	y, hasB := b.Amount()
	if hasA && (!hasB || x >= y) {
		return a
	}
	return b
}

func (m *model) rate(fields map[string]any, field string) (price.Rate, error) {
	n, ok, err := m.number(fields[field], tokenScale)
	switch {
	case err != nil:
		return price.Rate{}, fmt.Errorf("%s %w", field, err)
	case !ok:
		return price.Rate{}, nil
	case n > price.Max:
		return price.Rate{}, fmt.Errorf("%s %w", field, errTooLarge)
	default:
		return price.At(n), nil
	}
}

// number takes one as JSON has it, or in quotes; null is none.
func (m *model) number(v any, scale int) (n int64, ok bool, err error) {
	var text string
	switch v := v.(type) {
	case nil:
		return 0, false, nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return 0, false, errNumber
	}
	n, exact, err := decimal(text, scale)
	if err != nil {
		return 0, false, err
	}
	if !exact {
		m.rounded++
	}
	return n, true, nil
}

type tier struct {
	rates

	above int64
}

// tiers are those of the fields' names, _above_200k_tokens, and of tiered_pricing, in
// order.
func (m *model) tiers(base rates) ([]tier, error) {
	suffixes := map[string]int64{}
	for field := range m.fields {
		if at, suffix, ok := above(field); ok {
			suffixes[suffix] = at
		}
	}
	var out []tier
	for suffix, at := range suffixes {
		r, err := m.rates(m.fields, suffix, base)
		if err != nil {
			return nil, err
		}
		out = append(out, tier{r, at})
	}
	ranges, _ := m.fields["tiered_pricing"].([]any)
	for _, v := range ranges {
		t, ok, err := m.ranged(v, base)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b tier) int { return cmp.Compare(a.above, b.above) })
	for i := 1; i < len(out); i++ {
		if out[i].above == out[i-1].above {
			return nil, fmt.Errorf("it has two prices for prompts above %d tokens", out[i].above)
		}
	}
	return out, nil
}

// above reads the threshold of a field such as input_cost_per_token_above_200k_tokens.
func above(field string) (at int64, suffix string, ok bool) {
	i := strings.LastIndex(field, "_above_")
	if i < 0 {
		return 0, "", false
	}
	switch field[:i] {
	case inputField, outputField, readField, writeField, reasoningField:
	default:
		return 0, "", false
	}
	number, isTokens := strings.CutSuffix(field[i+len("_above_"):], "_tokens")
	number, thousands := strings.CutSuffix(number, "k")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || !isTokens {
		return 0, "", false
	}
	if thousands {
		n *= 1000
	}
	return n, field[i:], true
}

// ranged reads an element of tiered_pricing. Those for numbers of results are no prices
// of tokens.
func (m *model) ranged(v any, base rates) (t tier, ok bool, err error) {
	fields, _ := v.(map[string]any)
	span, _ := fields["range"].([]any)
	if len(span) == 0 {
		m.partial = true
		return tier{}, false, nil
	}
	from, _, err := new(model).number(span[0], 0)
	if err != nil {
		return tier{}, false, fmt.Errorf("a range of tiered_pricing %w", err)
	}
	t.above = from
	t.rates, err = m.rates(fields, "", base)
	return t, err == nil, err
}

// requestScale makes dollars millionths.
const requestScale = 6

func (m *model) request() (int64, error) {
	n, _, err := m.number(m.fields[requestField], requestScale)
	if err == nil && n > price.Max {
		err = errTooLarge
	}
	if err != nil {
		return 0, fmt.Errorf("%s %w", requestField, err)
	}
	return n, nil
}

// rest reads what is no price of tokens.
func (m *model) rest(e *price.Entry) {
	var size model // whose rounding is nobody's business
	e.MaxInput, _, _ = size.number(m.fields["max_input_tokens"], 0)
	e.MaxOutput, _, _ = size.number(m.fields["max_output_tokens"], 0)
	for field, v := range m.fields {
		if feature, ok := strings.CutPrefix(field, "supports_"); ok {
			switch v {
			case true:
				e.Supports = append(e.Supports, feature)
			case false:
				e.Lacks = append(e.Lacks, feature)
			default:
			}
		}
		if strings.Contains(field, "cost") && !ofText(field) && costs(v) {
			m.partial = true
		}
	}
	slices.Sort(e.Supports)
	slices.Sort(e.Lacks)
}

// ofText reports whether a field is a price of tokens of text: those that are used, and
// the same for other classes of service.
func ofText(field string) bool {
	return strings.HasPrefix(field, inputField) || strings.HasPrefix(field, outputField) ||
		strings.HasPrefix(field, readField) || strings.HasPrefix(field, writeField) ||
		strings.HasPrefix(field, reasoningField) || field == requestField
}

// costs reports whether the price is not nothing.
func costs(v any) bool {
	switch v := v.(type) {
	case json.Number:
		n, _, err := decimal(v.String(), tokenScale)
		return err != nil || n > 0
	case map[string]any:
		for _, inner := range v {
			if costs(inner) {
				return true
			}
		}
	default:
	}
	return false
}
