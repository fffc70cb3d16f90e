package dialect

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// chatLoss says what it means to leave out a member of a chat completion's body.
func chatLoss(m *Member) (loss Loss, reason string) {
	v, err := jsonscan.ParseValue(m.Raw, 0)
	if err != nil || v.Empty() {
		return LossNone, ""
	}
	switch m.Name {
	case "n":
		return lossUnless(isNumber(v, 1), "it gives one answer to a request")
	case "logprobs":
		return lossUnless(isFalse(v), "it gives no log probabilities")
	case "top_logprobs":
		return lossUnless(isNumber(v, 0), "it gives no log probabilities")
	case "logit_bias":
		return LossRefuse, "it can't bias tokens"
	case "modalities":
		return lossUnless(v.Len() == 1 && onlyText(v), "it answers in text only")
	case "audio":
		return LossRefuse, "it answers in text only"
	case "web_search_options":
		return LossRefuse, "it doesn't search the web by this"
	case "store":
		return lossUnless(isFalse(v), "it stores no completions")
	case "moderation":
		return LossRefuse, "it has no such check of its answers"
	case "prediction", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
		"service_tier", "metadata", "stream_options.include_obfuscation":
		return LossNote, "only OpenAI uses it"
	case "frequency_penalty", "presence_penalty":
		if isNumber(v, 0) {
			return LossNone, ""
		}
		return LossNote, "it has no penalties for repetition"
	case "seed":
		return LossNote, "it has no seed: answers are not repeatable"
	case "verbosity":
		return LossNote, "it has no measure of verbosity"
	default:
		return chatEngineLoss(m.Name, v)
	}
}

// chatEngineLoss is for what engines added to the API.
func chatEngineLoss(name string, v jsonscan.Value) (loss Loss, reason string) {
	switch name {
	case "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
		"regex", "ebnf", "structural_tag":
		return LossRefuse, "it can't be held to a form by this"
	case "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "use_beam_search", "best_of":
		return lossUnless(isFalse(v) || isNumber(v, 1), "it has no such output")
	case "echo", "add_generation_prompt", "continue_final_message":
		return lossUnless(isFalse(v) != (name == "add_generation_prompt"), "it has no such treatment of the prompt")
	case "chat_template", "documents", "mm_processor_kwargs":
		return LossRefuse, "its prompt can't be built by this"
	case "min_p", "repetition_penalty", "length_penalty", "min_tokens", "ignore_eos", "stop_token_ids",
		"include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens",
		"truncate_prompt_tokens", "top_a", "mirostat", "priority", "cache_salt", "chat_template_kwargs":
		return LossNote, "only engines that serve models themselves use it"
	default:
		return LossNote, reasonUnknown
	}
}

func lossUnless(harmless bool, reason string) (loss Loss, why string) {
	if harmless {
		return LossNone, ""
	}
	return LossRefuse, reason
}

func isFalse(v jsonscan.Value) bool {
	b, ok := v.Bool()
	return ok && !b
}

func isNumber(v jsonscan.Value, want float64) bool {
	f, ok := v.Float()
	return ok && f == want
}

func onlyText(list jsonscan.Value) bool {
	for it := list.Iter(); it.Next(); {
		if !it.Value().Is("text") {
			return false
		}
	}
	return true
}
