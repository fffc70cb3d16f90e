package price_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/price"
)

func table(t testing.TB, entries ...price.Entry) *price.Table {
	t.Helper()
	tab, err := price.New(entries, nil)
	require.NoError(t, err)
	return tab
}

// exact is the cost by numbers of any size.
func exact(e *price.Entry, t *price.Tokens) int64 {
	pos := func(n int64) *big.Int { return big.NewInt(min(max(n, 0), 1<<62)) }
	prompt := new(big.Int).Add(pos(t.Uncached), pos(t.CacheRead))
	prompt.Add(prompt, pos(t.CacheWrite))
	p := e.Prices
	for _, tier := range e.Tiers {
		if prompt.Cmp(big.NewInt(tier.Above)) > 0 {
			p = tier.Prices
		}
	}
	rate := func(r price.Rate, other int64) int64 {
		if n, ok := r.Amount(); ok {
			return n
		}
		return other
	}
	total := new(big.Int)
	add := func(n *big.Int, each int64) { total.Add(total, new(big.Int).Mul(n, big.NewInt(each))) }
	out := pos(t.Output)
	reasoning := pos(t.Reasoning)
	if reasoning.Cmp(out) > 0 {
		reasoning = out
	}
	add(pos(t.Uncached), p.Input)
	add(pos(t.CacheRead), rate(p.CacheRead, p.Input))
	add(pos(t.CacheWrite), rate(p.CacheWrite, p.Input))
	add(new(big.Int).Sub(out, reasoning), p.Output)
	add(reasoning, rate(p.Reasoning, p.Output))
	total.Add(total, big.NewInt(999_999))
	total.Div(total, big.NewInt(1_000_000))
	total.Add(total, big.NewInt(e.Request))
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// Whatever the prices and counts, the cost is that of exact arithmetic, or the largest
// number there is.
func TestCostIsExact(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 11))
	amount := func() int64 {
		switch rng.IntN(5) {
		case 0:
			return 0
		case 1:
			return price.Max - rng.Int64N(3)
		default:
			return rng.Int64N(1 << (1 + rng.IntN(49)))
		}
	}
	rate := func() price.Rate {
		if rng.IntN(3) == 0 {
			return price.Rate{}
		}
		return price.At(amount())
	}
	prices := func() price.Prices {
		return price.Prices{Input: amount(), Output: amount(), CacheRead: rate(), CacheWrite: rate(), Reasoning: rate()}
	}
	count := func() int64 {
		switch rng.IntN(8) {
		case 0:
			return 0
		case 1:
			return math.MaxInt64 - rng.Int64N(2)
		case 2:
			return math.MinInt64 + rng.Int64N(2)
		default:
			return rng.Int64N(1 << (1 + rng.IntN(60)))
		}
	}
	saturated := 0
	for range 100_000 {
		e := price.Entry{Model: "m", Prices: prices(), Request: amount()}
		for above := int64(1); rng.IntN(2) == 0; {
			above += 1 + rng.Int64N(1<<(1+rng.IntN(40)))
			e.Tiers = append(e.Tiers, price.Tier{Above: above, Prices: prices()})
		}
		u := &price.Tokens{Uncached: count(), CacheRead: count(), CacheWrite: count(), Output: count(), Reasoning: count()}
		want := exact(&e, u)
		got, known := table(t, e).Cost(price.Fleet, "m", u)
		require.True(t, known)
		require.Equal(t, want, got, "%+v %+v", e, u)
		if got == math.MaxInt64 {
			saturated++
		}
	}
	require.Greater(t, saturated, 1000, "the bound was tried")
}

func TestCost(t *testing.T) {
	t.Parallel()
	const million = 1_000_000
	e := price.Entry{
		Prices: price.Prices{
			Input: 3 * million, Output: 15 * million,
			CacheRead: price.At(300_000), CacheWrite: price.At(3_750_000), Reasoning: price.At(20 * million),
		},
		Tiers:   []price.Tier{{Above: 1000, Prices: price.Prices{Input: 6 * million, Output: 22_500_000}}},
		Request: 7,
	}
	for _, c := range []struct {
		name   string
		tokens price.Tokens
		want   int64
	}{
		{"nothing but the request", price.Tokens{}, 7},
		{"each class at its price", price.Tokens{Uncached: 100, CacheRead: 100, CacheWrite: 100, Output: 100, Reasoning: 40}, 300 + 30 + 375 + 900 + 800 + 7},
		{"a part of a millionth is a whole one", price.Tokens{CacheRead: 1}, 1 + 7},
		{"rounded once, not for each class", price.Tokens{CacheRead: 1, CacheWrite: 1}, 5 + 7},
		{"a prompt at the bound", price.Tokens{Uncached: 500, CacheRead: 500}, 1500 + 150 + 7},
		{"one above it: all of it costs more", price.Tokens{Uncached: 501, CacheRead: 500, Output: 2}, 6*1001 + 45 + 7},
		{"an answer makes no prompt longer", price.Tokens{Uncached: 1, Output: 5000}, 3 + 75000 + 7},
		{"more reasoning than answer", price.Tokens{Output: 10, Reasoning: 50}, 200 + 7},
		{"nonsense", price.Tokens{Uncached: -5, CacheRead: -5, Output: -1, Reasoning: -9}, 7},
	} {
		require.Equal(t, c.want, e.Cost(&c.tokens), c.name)
	}
	free := price.Entry{Prices: price.Prices{Input: million, CacheRead: price.At(0)}}
	require.Zero(t, free.Cost(&price.Tokens{CacheRead: 1 << 40}))
	likeInput := price.Entry{Prices: price.Prices{Input: million}}
	require.EqualValues(t, 5, likeInput.Cost(&price.Tokens{CacheRead: 5}))
}

func TestFind(t *testing.T) {
	t.Parallel()
	entry := func(provider, model string, request int64) price.Entry {
		return price.Entry{Provider: provider, Model: model, Request: request}
	}
	tab, err := price.New([]price.Entry{
		entry(price.Fleet, "qwen3", 1),
		entry(price.Fleet, "qwen3*", 2),
		entry("openai", "gpt-4o", 3),
		entry("openai", "gpt-4*", 4),
		entry("openai", "gpt-4-turbo*", 5),
		entry("openai", "o1", 99),
		entry("openai", "o1", 6), // the later one
		entry("openai", "openai/o3", 7),
		entry("openai-eu", "gpt-4o", 8),
		entry(price.Any, "llama*", 9),
		entry(price.Any, "*", 10),
		entry("router", "openai/gpt-4o", 11),
	}, map[string]string{"openai-eu": "openai"})
	require.NoError(t, err)
	require.Equal(t, 11, tab.Len())
	for _, c := range []struct {
		provider, model string
		want            int64 // 0: none
	}{
		{price.Fleet, "qwen3", 1},
		{price.Fleet, "qwen3-lora", 2},
		{price.Fleet, "qwen", 0}, // what others ask for is not what the fleet costs
		{price.Fleet, "openai/gpt-4o", 0},
		{"openai", "gpt-4o", 3},
		{"openai", "openai/gpt-4o", 3},
		{"openai", "gpt-4o-mini", 4},
		{"openai", "gpt-4-turbo-2024", 5},
		{"openai", "o1", 6},
		{"openai", "o3", 7},
		{"openai-eu", "gpt-4o", 8},
		{"openai-eu", "o1", 6},
		{"openai-eu", "openai/o1", 6},
		{"openai-eu", "openai-eu/o1", 6},
		{"openai-eu", "llama3", 9},
		{"someone", "llama3", 9},
		{"someone", "else", 10},
		{"someone", "", 10},
		{"router", "openai/gpt-4o", 11},
		{"router", "router/openai/gpt-4o", 11},
		{"router", "router/router/openai/gpt-4o", 11},
		{"router", "gpt-4o", 10},
	} {
		var got int64
		if e := tab.Find(c.provider, c.model); e != nil {
			got = e.Request
		}
		require.Equal(t, c.want, got, "%q %q", c.provider, c.model)
	}
	_, known := table(t).Cost("openai", "gpt-4o", &price.Tokens{Output: 1})
	require.False(t, known)
}

func TestWrongEntries(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]price.Entry{
		`it has no Model; "*" stands for all`: {},
		"must be the last character":          {Model: "gpt-*-mini"},
		"the price -1 must be from 0":         {Model: "m", Prices: price.Prices{CacheWrite: price.At(-1)}},
		"the price 1000000000000001 must be":  {Model: "m", Prices: price.Prices{Output: price.Max + 1}},
		"the price of a request":              {Model: "m", Request: -1},
		"tier 0 is for prompts above 0":       {Model: "m", Tiers: []price.Tier{{}}},
		"tier 1 is not above the one before":  {Model: "m", Tiers: []price.Tier{{Above: 5}, {Above: 5}}},
		"tier 0: the price -2 must be":        {Model: "m", Tiers: []price.Tier{{Above: 5, Prices: price.Prices{Input: -2}}}},
	} {
		_, err := price.New([]price.Entry{{Model: "fine"}, e}, nil)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "price: entry 1 ")
	}
	for name, of := range map[string]string{"": "a", "a": "", "*": "a", "b": "*", "c": "c"} {
		_, err := price.New(nil, map[string]string{name: of})
		require.ErrorContains(t, err, "price: alias")
	}
}

// What a caller does with its list afterwards changes no price.
func TestTableIsACopy(t *testing.T) {
	t.Parallel()
	in := []price.Entry{{Model: "m", Tiers: []price.Tier{{Above: 1, Prices: price.Prices{Input: 1_000_000}}}}}
	tab := table(t, in...)
	in[0].Tiers[0].Input = 9_000_000
	in[0].Request = 9
	cost, _ := tab.Cost(price.Fleet, "m", &price.Tokens{Uncached: 2})
	require.EqualValues(t, 2, cost)
}

func TestGPU(t *testing.T) {
	t.Parallel()
	// 8 GPUs at 2.50 an hour: 20 an hour, by 3,600 s and 20,000 tokens/s, is 0.2777... a
	// million tokens.
	p, err := price.GPU{Hour: 2_500_000, Count: 8, Input: 20_000, Output: 2_000}.Prices()
	require.NoError(t, err)
	require.Equal(t, price.Prices{Input: 277_778, Output: 2_777_778, CacheRead: price.At(0)}, p)
	one, err := price.GPU{Hour: 3600, Input: 1, Output: 1 << 60}.Prices()
	require.NoError(t, err)
	require.Equal(t, price.Prices{Input: 1_000_000, Output: 1, CacheRead: price.At(0)}, one)
	for want, g := range map[string]price.GPU{
		"must be at least 1":             {Hour: 1},
		"-1, must be from 0":             {Hour: -1, Input: 1, Output: 1},
		"1000000000001, must be from 0":  {Hour: 1_000_000_000_001, Input: 1, Output: 1},
		"with -1 GPUs":                   {Hour: 1, Count: -1, Input: 1, Output: 1},
		"with 1048577 GPUs":              {Hour: 1, Count: 1<<20 + 1, Input: 1, Output: 1},
		"is the price of an hour right?": {Hour: 1_000_000_000_000, Count: 1 << 20, Input: 1, Output: 1},
	} {
		_, err := g.Prices()
		require.ErrorContains(t, err, want)
	}
}

func TestAllocations(t *testing.T) {
	tab := table(t,
		price.Entry{Provider: "openai", Model: "gpt-4*", Prices: price.Prices{Input: 5, Output: 5}},
		price.Entry{Model: "qwen3", Prices: price.Prices{Input: 5, Output: 5}})
	u := &price.Tokens{Uncached: 100, Output: 100}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, known := tab.Cost("openai", "openai/gpt-4o", u); !known {
			t.Error("no price")
		}
		if _, known := tab.Cost(price.Fleet, "qwen3", u); !known {
			t.Error("no price")
		}
	}))
}

func BenchmarkCost(b *testing.B) {
	entries := make([]price.Entry, 0, 3001)
	for i := range 3000 {
		entries = append(entries, price.Entry{Provider: "p", Model: fmt.Sprintf("model-%d", i), Prices: price.Prices{Input: 5, Output: 5}})
	}
	tab := table(b, append(entries, price.Entry{Provider: "p", Model: "other-*"})...)
	u := &price.Tokens{Uncached: 1000, CacheRead: 5000, Output: 300}
	b.ReportAllocs()
	for b.Loop() {
		tab.Cost("p", "model-1234", u)
	}
}

func ExampleTable() {
	gpu, err := price.GPU{Hour: 2_500_000, Count: 8, Input: 20_000, Output: 2_000}.Prices()
	if err != nil {
		fmt.Println(err)
		return
	}
	prices, err := price.New([]price.Entry{
		{Provider: price.Fleet, Model: "*", Prices: gpu},
		{Provider: "openai", Model: "gpt-4o*", Prices: price.Prices{Input: 2_500_000, Output: 10_000_000, CacheRead: price.At(1_250_000)}},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	used := &price.Tokens{Uncached: 1000, CacheRead: 3000, Output: 200}
	own, _ := prices.Cost(price.Fleet, "qwen3", used)
	external, _ := prices.Cost("openai", "gpt-4o-mini", used)
	_, known := prices.Cost("openai", "o1", used)
	fmt.Println(own, external, known)
	// Output: 834 8250 false
}
