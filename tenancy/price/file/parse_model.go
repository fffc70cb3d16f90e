package file

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// priceKeys are those of a model and of what is above.
func priceKeys() []string { return []string{"input", "output", "cacheRead", "cacheWrite", "reasoning"} }

func modelKeys() []string {
	return append(priceKeys(), "provider", "model", "request", "above", "gpu", "maxInput", "maxOutput", "supports", "lacks")
}

// entry is a model as it is read.
type entry struct {
	price.Entry
	rates

	above, gpu *yaml.Node
}

func (p *parser) model(n *yaml.Node) (price.Entry, bool) {
	before := len(p.errs)
	var e entry
	p.Mapping(n, "a price", modelKeys(), func(k, v *yaml.Node) {
		switch key := k.Value; key {
		case "provider":
			p.Text(v, key, &e.Provider)
		case "model":
			p.Text(v, key, &e.Model)
		case "request":
			p.amount(v, key, &e.Request)
		case "above":
			e.above = v
		case "gpu":
			e.gpu = v
		case "maxInput":
			p.tokens(v, key, &e.MaxInput)
		case "maxOutput":
			p.tokens(v, key, &e.MaxOutput)
		case "supports":
			e.Supports = p.texts(v, key)
		case "lacks":
			e.Lacks = p.texts(v, key)
		default:
			p.price(v, key, &e.rates)
		}
	})
	if e.gpu != nil {
		p.ofGPU(e.gpu, &e.rates)
	}
	if len(p.errs) > before {
		return price.Entry{}, false
	}
	p.complete(n, &e)
	if e.above != nil {
		p.tiers(e.above, &e)
	}
	if len(p.errs) > before {
		return price.Entry{}, false
	}
	if _, err := price.New([]price.Entry{e.Entry}, nil); err != nil { // what is said there of one that is alone
		p.failf(n, "%s", reason(err))
		return price.Entry{}, false
	}
	return e.Entry, true
}

// reason is the innermost error, what is wrong without where: a place says that.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			inner = joined.Unwrap()[0]
		}
		if inner == nil {
			return strings.TrimPrefix(err.Error(), "price: ")
		}
		err = inner
	}
}

// complete sees to it that nothing is free because somebody forgot it.
func (p *parser) complete(n *yaml.Node, e *entry) {
	_, hasInput := e.input.Amount()
	_, hasOutput := e.output.Amount()
	switch {
	case e.Model == "":
		p.failf(n, `the key "model" is missing; write "*" for all that have no price of their own`)
	case !hasInput:
		p.failf(n, `the key "input" is missing; write 0 if prompts cost nothing, or gpu for a worker of one's own`)
	case !hasOutput:
		p.failf(n, `the key "output" is missing; write 0 if answers cost nothing`)
	default:
		e.Prices = e.plain()
	}
}

func (p *parser) price(v *yaml.Node, key string, into *rates) {
	var n int64
	if !p.amount(v, key, &n) {
		return
	}
	switch key {
	case "input":
		into.input = price.At(n)
	case "output":
		into.output = price.At(n)
	case "cacheRead":
		into.read = price.At(n)
	case "cacheWrite":
		into.write = price.At(n)
	default:
		into.reasoning = price.At(n)
	}
}

// amount reads an amount of the currency.
func (p *parser) amount(v *yaml.Node, key string, into *int64) bool {
	const want, scale = "an amount of the currency, 2.50 for one", 6
	s, ok := p.Scalar(v, key, want)
	if !ok {
		return false
	}
	n, exact, err := decimal(s.Value, scale)
	switch {
	case err == nil && n > price.Max:
		err = errTooLarge
	case err == nil && !exact:
		p.failf(s, "%s has more than 6 decimals; round it", key)
		return false
	default:
	}
	if err != nil {
		p.failf(s, "%s must be %s, and %s %s", key, want, yamlnode.Quote(s.Value), err)
		return false
	}
	*into = n
	return true
}

// tokens reads a number of tokens.
func (p *parser) tokens(v *yaml.Node, key string, into *int64) {
	const want = "a number of tokens"
	s, ok := p.Scalar(v, key, want)
	if !ok {
		return
	}
	n, exact, err := decimal(s.Value, 0)
	if err != nil || !exact || n < 1 {
		p.failf(s, "%s must be %s, at least 1, found %s", key, want, yamlnode.Quote(s.Value))
		return
	}
	*into = n
}

func (p *parser) texts(n *yaml.Node, key string) []string {
	list, ok := p.Resolve(n)
	if !ok {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		p.failf(list, "%s must be a list, found %s", key, yamlnode.KindOf(list))
		return nil
	}
	var out []string
	for _, item := range list.Content {
		var text string
		if !p.Text(item, key, &text) {
			break
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tiers reads the prices of long prompts. What they don't say is as without.
func (p *parser) tiers(n *yaml.Node, e *entry) {
	list, ok := p.Resolve(n)
	if !ok {
		return
	}
	if list.Kind != yaml.SequenceNode {
		p.failf(list, "above must be a list, found %s; write [{tokens: 200000, input: 5}]", yamlnode.KindOf(list))
		return
	}
	for _, item := range list.Content {
		var (
			above int64
			r     rates
		)
		p.Mapping(item, "an entry of above", append(priceKeys(), "tokens"), func(k, v *yaml.Node) {
			if k.Value == "tokens" {
				p.tokens(v, k.Value, &above)
				return
			}
			p.price(v, k.Value, &r)
		})
		if len(p.errs) >= maxErrors || p.Exhausted() {
			return
		}
		if above == 0 {
			p.failf(item, `the key "tokens" is missing: the length of the prompt above which these prices hold`)
			continue
		}
		r.orElse(e.rates)
		e.Tiers = append(e.Tiers, price.Tier{Above: above, Prices: r.plain()})
	}
}

// ofGPU fills in what the time of a worker costs.
func (p *parser) ofGPU(n *yaml.Node, into *rates) {
	var (
		g      price.GPU
		count  int
		priced bool
	)
	before := len(p.errs)
	p.Mapping(n, "gpu", []string{"hour", "count", "input", "output"}, func(k, v *yaml.Node) {
		switch key := k.Value; key {
		case "hour":
			priced = p.amount(v, key, &g.Hour)
		case "count":
			if p.Whole(v, key, &count) && count < 1 {
				p.failf(v, "count must be at least 1")
			}
		case "input":
			p.tokens(v, key, &g.Input)
		default:
			p.tokens(v, key, &g.Output)
		}
	})
	_, hasInput := into.input.Amount()
	_, hasOutput := into.output.Amount()
	if hasInput || hasOutput {
		p.failf(n, "gpu says what input and output cost; remove them, or gpu")
	}
	if !priced && len(p.errs) == before {
		p.failf(n, `the key "hour" is missing: the price of an hour of one GPU`)
	}
	if len(p.errs) > before {
		return
	}
	g.Count = count
	prices, err := g.Prices()
	if err != nil {
		p.failf(n, "gpu: %s", reason(err))
		return
	}
	into.input, into.output = price.At(prices.Input), price.At(prices.Output)
	if _, ok := into.read.Amount(); !ok {
		into.read = prices.CacheRead
	}
}
