package file_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/price/file"
)

const own = `
currency: USD
aliases: {openai-eu: openai}
models:
  - provider: openai
    model: gpt-4o*
    input: 2.50
    output: 10
    cacheRead: 1.25
    reasoning: 0.000001
    request: 0.0001
    above:
      - {tokens: 200000, input: 5}
      - {tokens: 1e6, output: 20, cacheRead: 0}
    maxInput: 128000
    supports: [vision, function_calling, vision]
    lacks: [audio_input]
  - model: qwen3*
    gpu: {hour: 2.50, count: 8, input: 20000, output: 2000}
  - model: "*"
    gpu: {hour: 2.50, input: 20000, output: 2000}
    cacheRead: 0.01
  - {provider: "*", model: free, input: 0, output: 0}
`

func TestParse(t *testing.T) {
	t.Parallel()
	p, err := file.Parse([]byte(own))
	require.NoError(t, err)
	const million = 1_000_000
	require.Equal(t, &file.Prices{
		Currency: "USD", Aliases: map[string]string{"openai-eu": "openai"},
		Entries: []price.Entry{
			{
				Provider: "openai", Model: "gpt-4o*", Request: 100,
				Prices: price.Prices{Input: 2_500_000, Output: 10 * million, CacheRead: price.At(1_250_000), Reasoning: price.At(1)},
				Tiers: []price.Tier{
					{Above: 200_000, Prices: price.Prices{Input: 5 * million, Output: 10 * million, CacheRead: price.At(1_250_000), Reasoning: price.At(1)}},
					{Above: 1_000_000, Prices: price.Prices{Input: 2_500_000, Output: 20 * million, CacheRead: price.At(0), Reasoning: price.At(1)}},
				},
				MaxInput: 128_000, Supports: []string{"function_calling", "vision"}, Lacks: []string{"audio_input"},
			},
			{Model: "qwen3*", Prices: price.Prices{Input: 277_778, Output: 2_777_778, CacheRead: price.At(0)}},
			{Model: "*", Prices: price.Prices{Input: 34_723, Output: 347_223, CacheRead: price.At(10_000)}},
			{Provider: "*", Model: "free"},
		},
	}, p)
	table, err := p.Table()
	require.NoError(t, err)
	require.Equal(t, 4, table.Len())
	list, err := file.Parse([]byte(`[{"model":"m","input":"1","output":1.0e-1}]`))
	require.NoError(t, err)
	require.Equal(t, []price.Entry{{Model: "m", Prices: price.Prices{Input: million, Output: 100_000}}}, list.Entries)
}

// What is wrong is said with its place, and all of it.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", `the file is empty; write "models: []"`},
		{"comment", "# nothing\n", `the file is empty`},
		{"null", "~", `1:1: the file is empty`},
		{"no models", "currency: EUR", `1:1: the key "models" is missing`},
		{"no list", "models: {a: b}", `1:9: models must be a list, found a mapping`},
		{"scalar", "hello", "1:1: the file must be a mapping"},
		{"not YAML", "models: [", "not YAML"},
		{"two documents", "models: []\n---\nmodels: []", "a second document"},
		{"unknown key", "models:\n - {model: m, inptu: 1, output: 1}", `2:15: a price has no key "inptu"; did you mean "input"?`},
		{"twice", "models:\n - {model: m, input: 1, input: 1, output: 1}", `2:25: the key "input" is given twice`},
		{"no model", "models:\n - {input: 1, output: 1}", `2:4: the key "model" is missing`},
		{"no input", "models:\n - {model: m, output: 1}", `2:4: the key "input" is missing; write 0`},
		{"no output", "models:\n - {model: m, input: 1}", `2:4: the key "output" is missing; write 0`},
		{"null price", "models:\n - {model: m, input: , output: 1}", `input must be an amount of the currency, 2.50 for one, found nothing`},
		{"word", "models:\n - {model: m, input: much, output: 1}", `2:22: input must be an amount of the currency, 2.50 for one, and "much" is not a decimal number`},
		{"dollars", "models:\n - {model: m, input: $3, output: 1}", `"$3" is not a decimal number`},
		{"negative", "models:\n - {model: m, input: -3, output: 1}", `"-3" is negative`},
		{"too fine", "models:\n - {model: m, input: 0.0000001, output: 1}", `2:22: input has more than 6 decimals; round it`},
		{"too much", "models:\n - {model: m, input: 1000000001, output: 1}", `"1000000001" is too large`},
		{"asterisk within", "models:\n - {model: g*t, input: 1, output: 1}", `2:4: an asterisk in the Model must be the last character`},
		{"two of a model", "models:\n - {model: m, input: 1, output: 1}\n - {model: m, input: 2, output: 1}", `3:4: there is another price for this model of this provider in line 2`},
		{"above a word", "models:\n - {model: m, input: 1, output: 1, above: 5}", `above must be a list, found "5"; write [{tokens: 200000, input: 5}]`},
		{"above nothing", "models:\n - {model: m, input: 1, output: 1, above: [{input: 5}]}", `2:44: the key "tokens" is missing`},
		{"above half a token", "models:\n - {model: m, input: 1, output: 1, above: [{tokens: 1.5}]}", `tokens must be a number of tokens, at least 1, found "1.5"`},
		{"above out of order", "models:\n - {model: m, input: 1, output: 1, above: [{tokens: 5}, {tokens: 4}]}", `2:4: tier 1 is not above the one before it`},
		{"gpu and input", "models:\n - {model: m, input: 1, gpu: {hour: 1, input: 1, output: 1}}", `2:30: gpu says what input and output cost; remove them, or gpu`},
		{"gpu without hour", "models:\n - {model: m, gpu: {input: 1, output: 1}}", `2:20: the key "hour" is missing`},
		{"gpu without output", "models:\n - {model: m, gpu: {hour: 1, input: 1}}", `2:20: gpu: Input and Output, the tokens a second of a worker, must be at least 1`},
		{"gpu of none", "models:\n - {model: m, gpu: {hour: 1, count: 0, input: 1, output: 1}}", `count must be at least 1`},
		{"alias of itself", "aliases: {a: a}\nmodels: []", `1:14: "a" and "a" must be names of two providers`},
		{"alias of any", "aliases: {a: \"*\"}\nmodels: []", `must be names of two providers`},
	} {
		_, err := file.Parse([]byte(c.in))
		require.ErrorIs(t, err, file.ErrSyntax, c.name)
		require.ErrorContains(t, err, c.want, c.name)
	}
	_, err := file.Parse([]byte("models:\n - {model: a, input: x, output: y}\n - {model: b, input: z, output: 1}"))
	require.Equal(t, 3, strings.Count(err.Error(), "price file: "))
	_, err = file.Parse([]byte("models:\n" + strings.Repeat(" - {}\n", 1000)))
	require.Equal(t, 20, strings.Count(err.Error(), "price file: "))
}

// A small file that describes a huge one ends soon.
func TestAliasBomb(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("models:\n")
	m := " - &m {model: m, input: 1, output: 1, above: &a [" + strings.Repeat("{tokens: 1},", 1000) + "]}\n"
	b.WriteString(m + strings.Repeat(" - {model: x, input: 1, output: 1, above: *a}\n", 1000))
	_, err := file.Parse([]byte(b.String()))
	require.ErrorIs(t, err, file.ErrSyntax)
}

func TestAdd(t *testing.T) {
	t.Parallel()
	public, _, err := file.LiteLLM(sample(t), false)
	require.NoError(t, err)
	mine, err := file.Parse([]byte("aliases: {house-eu: housemade}\nmodels:\n - {provider: housemade, model: house-large, input: 1, output: 1}"))
	require.NoError(t, err)
	require.NoError(t, public.Add(mine))
	require.Equal(t, "USD", public.Currency)
	table, err := public.Table()
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000, table.Find("house-eu", "house-large").Input, "one's own price goes before the list's")
	euros := &file.Prices{Currency: "EUR"}
	require.ErrorIs(t, public.Add(euros), file.ErrCurrency)
	require.NoError(t, new(file.Prices).Add(euros))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(own))
	f.Add([]byte("models: [{model: m, input: 1, output: 1, above: [{tokens: 5}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := file.Parse(data)
		if err != nil {
			require.ErrorIs(t, err, file.ErrSyntax)
			require.Nil(t, p)
			return
		}
		_, err = p.Table()
		require.NoError(t, err, "what was read makes a table")
	})
}

func ExampleParse() {
	p, err := file.Parse([]byte(`
models:
  - {provider: openai, model: gpt-4o*, input: 2.50, cacheRead: 1.25, output: 10}
  - model: "*"
    gpu: {hour: 2.50, count: 8, input: 20000, output: 2000}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	table, err := p.Table()
	if err != nil {
		fmt.Println(err)
		return
	}
	cost, known := table.Cost("openai", "gpt-4o-mini", &price.Tokens{Uncached: 1000, CacheRead: 3000, Output: 200})
	fmt.Println(cost, known)
	// Output: 8250 true
}

func ExampleLiteLLM() {
	list := []byte(`{"gpt-x": {"litellm_provider": "openai", "mode": "chat",
		"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-06}}`)
	p, report, err := file.LiteLLM(list, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report)
	fmt.Println(p.Entries[0].Input, p.Entries[0].Output)
	// Output:
	// 1 models taken, 0 refused; 0 also charge for more than tokens; 0 prices were rounded
	// 2500000 10000000
}
