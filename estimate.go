package kvsteer

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// wish is what a request says of the length of its answers.
type wish struct {
	// limit and least bound each answer, in tokens; 0 if nothing is said.
	limit, least int64
	// answers are how many it wants, for all of its prompts.
	answers int64
}

// maxAnswers bounds what is taken for a number of answers: vLLM refuses more.
const maxAnswers = 1 << 14

// wishOf reads the fields that the request's API has. What only others have, engines ignore.
func wishOf(p *parsed) wish {
	w := wish{answers: 1}
	limits := map[API][]string{
		ChatCompletions: {"max_completion_tokens", "max_tokens"}, // engines differ in which goes first
		Completions:     {"max_tokens"},
		Messages:        {"max_tokens"},
		Responses:       {"max_output_tokens"},
	}[p.api]
	for _, key := range limits {
		w.limit = max(w.limit, number(p.object.Value(key)))
	}
	w.least = number(p.object.Value("min_tokens"))
	if p.api == ChatCompletions || p.api == Completions {
		for _, key := range []string{"n", "best_of"} {
			w.answers = max(w.answers, min(number(p.object.Value(key)), maxAnswers))
		}
	}
	if p.api == Completions {
		w.answers = min(w.answers*promptsIn(p.object.Value("prompt")), maxAnswers)
	}
	return w
}

// promptsIn counts the prompts of a completions request: a list of texts, or of lists of ids,
// has several.
func promptsIn(v jsonscan.Value) int64 {
	if v.Kind() != jsonscan.KindArray {
		return 1
	}
	it := v.Iter()
	if !it.Next() {
		return 1
	}
	if k := it.Value().Kind(); k == jsonscan.KindString || k == jsonscan.KindArray {
		return int64(v.Len())
	}
	return 1
}

// number is a positive whole number, also one written as a string, which engines take for
// one; else 0.
func number(v jsonscan.Value) int64 {
	if !v.Exists() {
		return 0
	}
	if text, ok := v.Str(); ok {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
	if n, ok := v.Int(); ok {
		return max(n, 0)
	}
	if f, ok := v.Float(); ok && f >= 1 {
		return int64(min(f, math.MaxInt32))
	}
	return 0
}

// expected is how many tokens to reserve for the answers.
func (w *wish) expected(api API, o *quota.Outputs, tenant, model string) int64 {
	if api == prompt.Embeddings {
		return 0
	}
	each := max(o.Estimate(tenant, model, w.limit, 1), w.least)
	if hi, lo := bits.Mul64(uint64(each), uint64(w.answers)); hi == 0 && lo < math.MaxInt64 {
		return int64(lo)
	}
	return math.MaxInt64
}
