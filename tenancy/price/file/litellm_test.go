package file_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/price/file"
)

func sample(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/litellm.json")
	require.NoError(t, err)
	return data
}

func TestLiteLLM(t *testing.T) {
	t.Parallel()
	p, report, err := file.LiteLLM(sample(t), false)
	require.NoError(t, err)
	require.Equal(t, "USD", p.Currency)
	large := func(name string) price.Entry {
		return price.Entry{
			Provider: "housemade", Model: name, MaxInput: 1_000_000, MaxOutput: 64_000,
			Supports: []string{"function_calling", "prompt_caching"}, Lacks: []string{"vision"},
			Prices: price.Prices{Input: 3_000_000, Output: 15_000_000, CacheRead: price.At(300_000), CacheWrite: price.At(3_750_000)},
			Tiers: []price.Tier{{Above: 200_000, Prices: price.Prices{
				Input: 6_000_000, Output: 22_500_000, CacheRead: price.At(600_000), CacheWrite: price.At(7_500_000),
			}}},
		}
	}
	require.Equal(t, []price.Entry{
		{Provider: "bedrock", Model: "publisher.speaker-v1:0", Prices: price.Prices{Input: 2_500_000, Output: 10_000_000}},
		{Provider: "cheap", Model: "almost-free", Prices: price.Prices{Input: 1, Output: 1_000_000}},
		{
			Provider: "cheap", Model: "tiny-1b", MaxInput: 131072,
			Prices: price.Prices{Input: 20_000, Output: 40_000, Reasoning: price.At(50_000)},
		},
		{Provider: "housemade", Model: "embedder", Prices: price.Prices{Input: 20_000}, Request: 2500},
		large("house-large"),
		large("house-latest"),
		{
			Provider: "ranges", Model: "stepped",
			Prices: price.Prices{Input: 2_000_000, Output: 3_000_000, CacheRead: price.At(100_000)},
			Tiers:  []price.Tier{{Above: 32_000, Prices: price.Prices{Input: 5_000_000, Output: 9_000_000, CacheRead: price.At(100_000)}}},
		},
		{Provider: "vertex_ai", Model: "garden-2", Prices: price.Prices{Input: 1_000_000, Output: 2_000_000}},
	}, p.Entries)
	require.Equal(t, &file.Report{
		Taken: 9, Refused: 8, Partial: 1, Rounded: 2,
		Problems: []file.Problem{
			{"painter", "it has no price of a token: input_cost_per_token"},
			{"forgotten-answers", "its answers have no price of a token: output_cost_per_token"},
			{"homeless", "it has no litellm_provider"},
			{"gift", "input_cost_per_token is negative"},
			{"words", "input_cost_per_token is not a decimal number"},
			{"per-million", "input_cost_per_token is too large"},
			{"house-lost", "it is an alias of a model that the list does not have"},
			{"text", "it is not an object"},
		},
	}, report)
	require.Equal(t, "9 models taken, 8 refused; 1 also charge for more than tokens; 2 prices were rounded; "+
		`the first refused is "painter": it has no price of a token: input_cost_per_token`, report.String())

	table, err := p.Table()
	require.NoError(t, err)
	cost, known := table.Cost("housemade", "housemade/house-large", &price.Tokens{Uncached: 1000, Output: 1000})
	require.True(t, known)
	require.EqualValues(t, 18_000, cost, "the name without its provider goes first")
}

// Cache that is kept for an hour costs what the list says of it, and never less than what
// is kept for minutes.
func TestHourCache(t *testing.T) {
	t.Parallel()
	p, _, err := file.LiteLLM(sample(t), true)
	require.NoError(t, err)
	table, err := p.Table()
	require.NoError(t, err)
	e := table.Find("housemade", "house-large")
	require.Equal(t, price.At(6_000_000), e.CacheWrite)
	require.Equal(t, price.At(7_500_000), e.Tiers[0].CacheWrite)
	require.Equal(t, price.Rate{}, table.Find("cheap", "tiny-1b").CacheWrite)
}

// A model's price says nothing of others': those that are wrong are counted, the rest is
// taken.
func TestLiteLLMOneModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, fields, refused string }{
		{"m", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6`, ""},
		{"p/", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6`, "it has no name"},
		{"", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6`, "it has no name"},
		{"gpt-*", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6`, "its name has an asterisk"},
		{"m", `"input_cost_per_token":true,"output_cost_per_token":1e-6`, "input_cost_per_token is not a decimal number"},
		{"m", `"input_cost_per_token":1e999,"output_cost_per_token":1e-6`, "input_cost_per_token is too large"},
		{"m", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6,"cache_read_input_token_cost":[]`, "cache_read_input_token_cost is not a decimal number"},
		{"m", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6,"input_cost_per_request":-1`, "input_cost_per_request is negative"},
		{"m", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6,"input_cost_per_token_above_128k_tokens":-1`, "input_cost_per_token_above_128k_tokens is negative"},
		{
			"m", `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6,"input_cost_per_token_above_1k_tokens":1,"input_cost_per_token_above_1000_tokens":1`,
			"it has two prices for prompts above 1000 tokens",
		},
		{"m", `"tiered_pricing":[{"range":[5,9],"input_cost_per_token":1e-6,"output_cost_per_token":1e-6}]`, "it has no price of a token: input_cost_per_token"},
		{"m", `"tiered_pricing":[{"range":[-1,9],"input_cost_per_token":1e-6,"output_cost_per_token":1e-6}]`, "a range of tiered_pricing is negative"},
		{"m", `"tiered_pricing":[{"max_results_range":[0,9],"input_cost_per_query":1}]`, "it has no price of a token: input_cost_per_token"},
		{"m", `"tiered_pricing":"?","input_cost_per_token":1e-6,"output_cost_per_token":1e-6,"max_input_tokens":"?","max_output_tokens":-4`, ""},
	} {
		p, report, err := file.LiteLLM([]byte(`{"`+c.name+`":{"litellm_provider":"p","mode":"chat",`+c.fields+`}, "fine":{"litellm_provider":"p","input_cost_per_token":0,"output_cost_per_token":0}}`), false)
		require.NoError(t, err)
		if c.refused == "" {
			require.Zero(t, report.Refused)
			require.Len(t, p.Entries, 2)
			continue
		}
		require.Equal(t, []file.Problem{{c.name, c.refused}}, report.Problems)
		require.Equal(t, 1, report.Refused)
		require.Len(t, p.Entries, 1)
	}
}

func TestLiteLLMNotAList(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"":                                       "price file: 1:1: not LiteLLM's list of prices: unexpected end of JSON input; is the file whole?",
		"[]":                                     "price file: 1:1: not LiteLLM's list of prices: it is not a JSON object of models",
		"null":                                   "it is not a JSON object of models",
		"{\n  \"a\": {\n  oops}":                 "price file: 3:3: not LiteLLM's list of prices: invalid character 'o'",
		"{\"a\":{}":                              "is the file whole?",
		"{} {}":                                  "invalid character '{' after top-level value",
		"<html>":                                 "price file: 1:1: not LiteLLM's list of prices: invalid character '<'",
		"{\"a\":" + strings.Repeat("[", 100_000): "exceeded max depth",
	} {
		_, _, err := file.LiteLLM([]byte(data), false)
		require.ErrorIs(t, err, file.ErrSyntax, data)
		require.ErrorContains(t, err, want)
	}
	p, report, err := file.LiteLLM([]byte("\xef\xbb\xbf{}"), false)
	require.NoError(t, err)
	require.Empty(t, p.Entries)
	require.Equal(t, "0 models taken, 0 refused; 0 also charge for more than tokens; 0 prices were rounded", report.String())
}

// However many are refused, the report is short.
func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("{")
	for i := range 5000 {
		fmt.Fprintf(&b, "%q: 1,", strings.Repeat("\n", 500)+fmt.Sprint(i))
	}
	_, report, err := file.LiteLLM([]byte(b.String()+`"last": 1}`), false)
	require.NoError(t, err)
	require.Equal(t, 5001, report.Refused)
	require.Len(t, report.Problems, 100)
	require.Less(t, len(report.String()), 400)
	require.NotContains(t, report.String(), "\n")
}

func FuzzLiteLLM(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte(`{"m":{"litellm_provider":"p","tiered_pricing":[{"range":[0,1],"input_cost_per_token":1}]}}`))
	f.Add([]byte(`{"p/p/m":{"litellm_provider":"p","input_cost_per_token":1e-6,"output_cost_per_token":1},` +
		`"p/m":{"litellm_provider":"p","input_cost_per_token":0,"output_cost_per_token":0}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, report, err := file.LiteLLM(data, len(data)%2 == 0)
		if err != nil {
			require.ErrorIs(t, err, file.ErrSyntax)
			require.Nil(t, p)
			return
		}
		require.GreaterOrEqual(t, report.Taken, len(p.Entries))
		table, err := p.Table()
		require.NoError(t, err, "what was taken makes a table")
		require.Equal(t, len(p.Entries), table.Len())
	})
}
