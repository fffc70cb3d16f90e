package prompt

import (
	"crypto/sha256"
	"encoding/binary"
)

// cacheKey identifies a prompt. It is cryptographic because a client that could
// make two prompts collide could make another's look cached.
type cacheKey [sha256.Size]byte

// keyOf hashes everything that may change the ids: the model, the API and every
// field of the body but those known to be irrelevant. A field that we don't know
// costs a miss, never a wrong answer.
func keyOf(r *Request) cacheKey {
	h := sha256.New()
	var n [1 + binary.MaxVarintLen64]byte
	n[0] = byte(r.API)
	put := func(prefix int, b []byte) {
		k := binary.PutUvarint(n[1:], uint64(len(b)))
		_, _ = h.Write(n[prefix : 1+k]) // a hash never fails
		_, _ = h.Write(b)
	}
	put(0, []byte(r.Model))
	for i := range r.Object.Len() {
		key, v := r.Object.Field(i)
		if irrelevant(string(key)) {
			continue
		}
		put(1, key)
		put(1, v.Raw())
	}
	var key cacheKey
	h.Sum(key[:0])
	return key
}

// irrelevant names fields that sample, limit, address or account, and have no
// part in the prompt. A cache salt has none either, but who sends one wants that nobody
// can tell what was sent with another one, not even from how long it takes here. The model is in the key by the worker's name for it.
func irrelevant(field string) bool {
	switch field {
	case "model", "stream", "stream_options", "n", "best_of", "seed", "user", "metadata", "store",
		"temperature", "top_p", "top_k", "min_p", "typical_p", "frequency_penalty", "presence_penalty",
		"repetition_penalty", "length_penalty", "logit_bias", "logprobs", "top_logprobs", "prompt_logprobs",
		"max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "stop", "stop_sequences",
		"stop_token_ids", "include_stop_str_in_output", "ignore_eos", "skip_special_tokens",
		"spaces_between_special_tokens", "service_tier", "priority", "request_id", "session_id",
		"return_token_ids", "return_tokens_as_token_ids", "ec_transfer_params",
		"safety_identifier", "prompt_cache_key", "encoding_format", "dimensions", "background":
		return true
	default:
		return false
	}
}
