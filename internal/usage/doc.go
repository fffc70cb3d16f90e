// Package usage reads what a response says about itself: how many tokens it took
// and gave, when its first token came, and which ids its prompt had.
//
// Engines and providers report usage in at least five shapes: OpenAI chat and
// completions (cached tokens inside prompt_tokens), OpenAI responses (nested in an
// event), Anthropic messages (cached tokens beside input_tokens, spread over two
// events), SGLang's meta_info, and all of these on the last chunk, on every chunk
// or never. [Reader] takes them by shape, not by endpoint, and gives one normal
// form, [Usage]. What was not reported is not zero: see Usage.CachedKnown.
package usage
