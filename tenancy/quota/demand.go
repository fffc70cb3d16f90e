package quota

// Demand is what a request asks for.
type Demand struct {
	// Org, Team, Tenant and Key are whose request it is, as the gateway has
	// established; empty is a name like any other.
	Org, Team, Tenant, Key string
	// Model and Class are what it is for.
	Model, Class string
	// Input is the prompt's tokens, of which Cached are expected to be found in a cache.
	Input, Cached int64
	// Output is how long the answer is expected to be, in tokens: see [Outputs].
	Output int64
	// Cost is what that is expected to cost, in millionths of the currency.
	//
	// Cached, Output and Cost are guesses. No limit refuses a request for good because of
	// them: it takes no more than the limit, and the rest, if it is used, is debt.
	Cost int64
}

// Used is what a request really took, in tokens. Cost is in millionths of the
// currency.
type Used struct {
	// Uncached, CacheRead and CacheWrite are the prompt's tokens, each counted in one of
	// them; Output includes Reasoning.
	Uncached, CacheRead, CacheWrite, Output, Reasoning int64
	Cost                                               int64
}

// takes are amounts by meter, and of budgets.
type takes struct {
	rates [numRates]int64
	of    amount
	// least is, of a Demand, what the prompt counts as, whatever is cached and however long
	// the answer gets.
	least int64
}

func (w *Weights) demanded(d *Demand) takes {
	cached := clamp(min(d.Cached, d.Input))
	t := w.takes(clamp(d.Input)-cached, cached, 0, clamp(d.Output), 0, clamp(d.Cost))
	t.least = wholes(clamp(d.Input) * min(whole, w.Cached.value(), w.CacheWrite.value()))
	return t
}

// known is how much of a meter the request takes for certain.
func (t *takes) known(m Meter) int64 {
	switch m {
	case Tokens, Input:
		return t.least
	default: // of requests one, which is within any limit
		return 0
	}
}

func (w *Weights) used(u *Used) takes {
	out := clamp(u.Output)
	return w.takes(clamp(u.Uncached), clamp(u.CacheRead), clamp(u.CacheWrite), out, min(clamp(u.Reasoning), out), clamp(u.Cost))
}

func (w *Weights) takes(uncached, cached, written, output, reasoning, cost int64) takes {
	in := uncached*whole + cached*w.Cached.value() + written*w.CacheWrite.value()
	out := (output-reasoning)*whole + reasoning*w.Reasoning.value()
	var t takes
	t.rates = [numRates]int64{Requests: 1, Tokens: wholes(in + out), Input: wholes(in), Output: wholes(out)}
	t.of = amount{money: cost, tokens: t.rates[Tokens]}
	return t
}

// wholes rounds hundredths up.
func wholes(hundredths int64) int64 {
	return min((hundredths+whole-1)/whole, maxTake)
}

// clamp keeps what others say within what sums can hold: some of them, in hundredths
// and by the largest Weight, fit into 64 bits.
func clamp(n int64) int64 { return min(max(n, 0), maxTake) }
