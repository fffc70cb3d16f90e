package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// Prices says what tokens cost, by model, or by backend and model.
type Prices struct {
	table map[string]price
}

// price is in US dollars a token.
type price struct {
	Input  *float64 `json:"input_cost_per_token"`
	Cached *float64 `json:"cache_read_input_token_cost"`
	Output *float64 `json:"output_cost_per_token"`
}

// maxPrices bounds the file: the widely used one has some 3 MB.
const maxPrices = 64 << 20

// ReadPrices reads prices in the format of model_prices_and_context_window.json, of
// which it takes three fields: a JSON object with one object for each model. A key
// may be a model's name, or NAME/MODEL for what a backend of that name charges.
// Models without a price for input are left out.
func ReadPrices(r io.Reader) (*Prices, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPrices+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxPrices {
		return nil, fmt.Errorf("more than %d bytes of prices", maxPrices)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("prices are a JSON object with an object for each model: %w", err)
	}
	p := &Prices{table: map[string]price{}}
	for name, entry := range raw {
		var one price
		if err := json.Unmarshal(entry, &one); err != nil {
			continue // the file's own specimen entry has words for numbers
		}
		if one.Input == nil {
			continue
		}
		for _, x := range []*float64{one.Input, one.Cached, one.Output} {
			if x != nil && (!(*x >= 0) || math.IsInf(*x, 0)) {
				return nil, fmt.Errorf("the price %v of %q is no amount", *x, name)
			}
		}
		p.table[name] = one
	}
	if len(p.table) == 0 {
		return nil, errors.New("no entry has an input_cost_per_token")
	}
	return p, nil
}

// of finds the price of a candidate.
func (p *Prices) of(c *policy.Candidate) (price, bool) {
	if one, ok := p.table[c.Name+"/"+c.Model]; ok {
		return one, true
	}
	one, ok := p.table[c.Model]
	return one, ok
}

// cost is what a prompt and an answer of so many tokens cost, cached ones among the
// prompt's.
func (x *price) cost(prompt, cached, output int) float64 {
	cached = min(max(cached, 0), prompt)
	read, out := *x.Input, 0.0
	if x.Cached != nil {
		read = *x.Cached
	}
	if x.Output != nil {
		out = *x.Output
	}
	return float64(prompt-cached)**x.Input + float64(cached)*read + float64(output)*out
}

// answerTokens is the length of an answer that policies are told the price of, where
// nobody has said another: what a predictor assumes that has seen none.
const answerTokens = 250

// fill tells policies the prices that were not recorded.
func (p *Prices) fill(candidates []policy.Candidate, d *kvsteer.Decision) {
	for i := range candidates {
		c := &candidates[i]
		one, ok := p.of(c)
		if c.PriceKnown || !ok {
			continue
		}
		output := answerTokens
		if i < len(d.Features) && d.Features[i].OutputTokens > 0 {
			output = d.Features[i].OutputTokens
		}
		c.Price, c.PriceKnown = one.cost(d.PromptTokens, c.CachedTokens, output), true
	}
}

// costs is what a request costs on a candidate, with an answer of so many tokens.
// The price that was recorded comes first: whoever set it knew.
func (j *judge) costs(d *kvsteer.Decision, i, output int) (float64, bool) {
	if i < 0 {
		return 0, true // nobody charges for what is rejected
	}
	c := &d.Candidates[i].Candidate
	if c.PriceKnown {
		return c.Price, true
	}
	if j.prices == nil {
		return 0, false
	}
	one, ok := j.prices.of(c)
	if !ok {
		return 0, false
	}
	return one.cost(d.PromptTokens, c.CachedTokens, output), true
}
