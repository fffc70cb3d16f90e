package file

import "github.com/kvsteer/kvsteer/tenancy/price"

// rates are prices, some of which may not be given.
type rates struct{ input, output, read, write, reasoning price.Rate }

func (r *rates) orElse(o rates) {
	for _, p := range []struct{ to, from *price.Rate }{
		{&r.input, &o.input}, {&r.output, &o.output}, {&r.read, &o.read}, {&r.write, &o.write}, {&r.reasoning, &o.reasoning},
	} {
		if _, ok := p.to.Amount(); !ok {
			*p.to = *p.from
		}
	}
}

// plain are the rates with those that must be there, nothing if they aren't.
func (r *rates) plain() price.Prices {
	in, _ := r.input.Amount()
	out, _ := r.output.Amount()
	return price.Prices{Input: in, Output: out, CacheRead: r.read, CacheWrite: r.write, Reasoning: r.reasoning}
}
