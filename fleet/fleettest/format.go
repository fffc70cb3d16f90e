package fleettest

import (
	"encoding/json"
	"strconv"
	"strings"
)

// format is how one API words an answer.
type format interface {
	// prefix begins the answer's id.
	prefix() string
	// streams reports whether the API can stream, and so generates text at all.
	streams() bool
	// first appends what precedes a choice's first token.
	first(b []byte, g *generation, choice int) []byte
	// token appends the choice's token i; finish is "" but for the last.
	token(b []byte, g *generation, choice, i int, finish string) []byte
	// last appends what follows the last token of all.
	last(b []byte, g *generation) []byte
	// whole returns the answer to a request that doesn't stream.
	whole(g *generation) any
}

// object is a JSON object.
type object = map[string]any

const (
	dataStart = "data: "
	dataEnd   = "\n\n"
	dataDone  = "data: [DONE]\n\n"
	// fingerprint is the system_fingerprint of answers, in JSON.
	fingerprint = `"fleettest"`
)

// appendQuoted appends a JSON string.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] >= 0x7f {
			quoted, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendIDs appends a JSON list of token ids.
func appendIDs(b []byte, ids []uint32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, ']')
}

// appendFinish appends a finish reason or null.
func appendFinish(b []byte, finish string) []byte {
	if finish == "" {
		return append(b, "null"...)
	}
	return appendQuoted(b, finish)
}

// text returns a choice's whole text.
func (g *generation) text(choice int) string { return strings.Join(g.jobs[choice].pieces, "") }

// output returns a choice's token ids.
func (g *generation) output(choice int) []uint32 {
	j := g.jobs[choice]
	return j.req.Tokens[j.req.Prompt:]
}

// promptIDs returns a choice's prompt as token ids.
func (g *generation) promptIDs(choice int) []uint32 {
	j := g.jobs[choice]
	return j.req.Tokens[:j.req.Prompt]
}

// nullIDs returns ids if they were asked for.
func (g *generation) nullIDs(ids []uint32) any {
	if g.body.ReturnTokenIDs {
		return ids
	}
	return nil
}

// usageShape is which of an OpenAI usage object's optional parts are there.
type usageShape uint8

const (
	usageWhole usageShape = iota // an answer that isn't streamed
	usageFinal                   // the last chunk of a stream
	usageSoFar                   // every other chunk
)

// appendUsage appends the usage object of chat and text completions in the shape
// of vLLM 0.32: details only when they are switched on, in more or less detail
// depending on the place; text is set for /v1/completions. SGLang leaves them out when nothing was cached.
func (g *generation) appendUsage(b []byte, u usage, shape usageShape, text bool) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(u.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(u.prompt+u.output), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(u.output), 10)
	vllm := g.cfg.Dialect != SGLang
	if shape != usageSoFar && !g.cfg.NoCachedTokens && (vllm || u.cached > 0) {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(u.cached), 10)
		switch {
		case !vllm || (text && shape == usageFinal):
		case text:
			b = append(b, `,"created_cache_tokens":null`...)
		default:
			b = append(b, `,"created_cache_tokens":`...)
			b = strconv.AppendInt(b, int64(u.created), 10)
		}
		b = append(b, '}')
	} else if shape == usageWhole && vllm {
		b = append(b, `,"prompt_tokens_details":null`...)
	}
	if shape != usageFinal && vllm {
		b = append(b, `,"completion_tokens_details":null`...)
	}
	return append(b, '}')
}

// wholeUsage returns the usage of an answer that isn't streamed, nil when a fault
// hides it.
func (g *generation) wholeUsage(text bool) any {
	if g.noUsage {
		return nil
	}
	return json.RawMessage(g.appendUsage(nil, g.usage(), usageWhole, text))
}

// appendJSON appends a value that can always be encoded.
func appendJSON(b []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

// wantsUsage reports whether the stream ends with a usage chunk.
func (g *generation) wantsUsage() bool {
	return g.body.StreamOptions != nil && g.body.StreamOptions.IncludeUsage && !g.noUsage
}

// everyUsage reports whether every chunk carries the usage so far.
func (g *generation) everyUsage() bool {
	return g.wantsUsage() && g.body.StreamOptions.ContinuousUsageStats
}

// chunk appends the beginning of an OpenAI chunk, up to its choices.
func (g *generation) chunk(b []byte, kind string) []byte {
	b = append(b, dataStart+`{"id":`...)
	b = appendQuoted(b, g.id)
	b = append(b, `,"object":"`...)
	b = append(b, kind...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, g.created, 10)
	b = append(b, `,"model":`...)
	b = appendQuoted(b, g.body.Model)
	return append(b, `,"choices":[`...)
}

// endChunk closes the list of choices of what chunk began and says how much has
// been used, if every chunk is to; the chunk is the choice's with the given
// number of tokens so far. A finished choice carries the fingerprint, unless a
// usage chunk will. The caller closes the object.
func (g *generation) endChunk(b []byte, choice, tokens int, finish string) []byte {
	b = append(b, ']')
	if finish != "" && !g.wantsUsage() {
		b = append(b, `,"system_fingerprint":`+fingerprint...)
	}
	if g.everyUsage() {
		b = append(b, `,"usage":`...)
		b = g.appendUsage(b, usage{prompt: g.jobs[choice].req.Prompt, output: tokens}, usageSoFar, false)
	}
	return b
}

// endStream appends the usage chunk, if there is to be one, and the end mark.
func (g *generation) endStream(b []byte, kind string) []byte {
	if g.wantsUsage() {
		b = append(g.chunk(b, kind), `],"usage":`...)
		b = g.appendUsage(b, g.usage(), usageFinal, kind == textChunk)
		b = append(b, `,"system_fingerprint":`+fingerprint+"}"+dataEnd...)
	}
	return append(b, dataDone...)
}

// chatFormat is /v1/chat/completions.
type chatFormat struct{}

const chatChunk = "chat.completion.chunk"

func (chatFormat) prefix() string { return "chatcmpl-" }
func (chatFormat) streams() bool  { return true }

func (chatFormat) first(b []byte, g *generation, choice int) []byte {
	b = g.chunk(b, chatChunk)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`...)
	b = g.endChunk(b, choice, 0, "")
	b = append(b, `,"prompt_token_ids":`...)
	if g.body.ReturnTokenIDs {
		b = appendIDs(b, g.promptIDs(choice))
	} else {
		b = append(b, "null"...)
	}
	return append(b, `,"prompt_text":null}`+dataEnd...)
}

func (chatFormat) token(b []byte, g *generation, choice, i int, finish string) []byte {
	b = g.chunk(b, chatChunk)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"delta":{"content":`...)
	b = appendQuoted(b, g.jobs[choice].pieces[i])
	b = append(b, `},"logprobs":null,"finish_reason":`...)
	b = appendFinish(b, finish)
	if finish != "" {
		b = append(b, `,"stop_reason":null`...)
	}
	b = append(g.appendTokenIDs(b, choice, i), '}')
	return append(g.endChunk(b, choice, i+1, finish), "}"+dataEnd...)
}

// appendTokenIDs appends a chunk's own token id.
func (g *generation) appendTokenIDs(b []byte, choice, i int) []byte {
	b = append(b, `,"token_ids":`...)
	if g.body.ReturnTokenIDs {
		return appendIDs(b, g.output(choice)[i:i+1])
	}
	return append(b, "null"...)
}

func (chatFormat) last(b []byte, g *generation) []byte { return g.endStream(b, chatChunk) }

func (chatFormat) whole(g *generation) any {
	choices := make([]object, len(g.jobs))
	for i := range g.jobs {
		choices[i] = object{
			"index": i, "logprobs": nil, "finish_reason": g.finish, "stop_reason": nil,
			"token_ids": g.nullIDs(g.output(i)),
			"message": object{
				"role": "assistant", "content": g.text(i), "refusal": nil, "annotations": nil, "audio": nil,
				"function_call": nil, "reasoning": nil,
			},
		}
	}
	return object{
		"id": g.id, "object": "chat.completion", "created": g.created, "model": g.body.Model, "choices": choices,
		"service_tier": nil, "system_fingerprint": json.RawMessage(fingerprint),
		"usage": g.wholeUsage(false), "prompt_logprobs": nil,
		"prompt_token_ids": g.nullIDs(g.promptIDs(0)), "kv_transfer_params": g.transferParams(),
	}
}

// textFormat is /v1/completions.
type textFormat struct{}

const textChunk = "text_completion"

func (textFormat) prefix() string { return "cmpl-" }
func (textFormat) streams() bool  { return true }

func (textFormat) first(b []byte, _ *generation, _ int) []byte { return b }

func (textFormat) token(b []byte, g *generation, choice, i int, finish string) []byte {
	b = g.chunk(b, textChunk)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"text":`...)
	b = appendQuoted(b, g.jobs[choice].pieces[i])
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = appendFinish(b, finish)
	b = append(b, `,"stop_reason":null,"prompt_token_ids":`...)
	if g.body.ReturnTokenIDs && i == 0 {
		b = appendIDs(b, g.promptIDs(choice))
	} else {
		b = append(b, "null"...)
	}
	b = append(g.appendTokenIDs(b, choice, i), '}')
	return append(g.endChunk(b, choice, i+1, finish), "}"+dataEnd...)
}

func (textFormat) last(b []byte, g *generation) []byte { return g.endStream(b, textChunk) }

func (textFormat) whole(g *generation) any {
	choices := make([]object, len(g.jobs))
	for i := range g.jobs {
		choices[i] = object{
			"index": i, "text": g.text(i), "logprobs": nil, "finish_reason": g.finish, "stop_reason": nil,
			"token_ids": g.nullIDs(g.output(i)), "prompt_logprobs": nil, "prompt_token_ids": g.nullIDs(g.promptIDs(i)),
		}
	}
	return object{
		"id": g.id, "object": textChunk, "created": g.created, "model": g.body.Model, "choices": choices,
		"service_tier": nil, "system_fingerprint": json.RawMessage(fingerprint),
		"usage": g.wholeUsage(true), "kv_transfer_params": g.transferParams(),
	}
}

// embeddingFormat is /v1/embeddings.
type embeddingFormat struct{}

func (embeddingFormat) prefix() string { return "embd-" }
func (embeddingFormat) streams() bool  { return false }

func (embeddingFormat) first(b []byte, _ *generation, _ int) []byte              { return b }
func (embeddingFormat) token(b []byte, _ *generation, _, _ int, _ string) []byte { return b }
func (embeddingFormat) last(b []byte, _ *generation) []byte                      { return b }

func (embeddingFormat) whole(g *generation) any {
	const dimensions = 8
	data := make([]object, len(g.jobs))
	for i := range g.jobs {
		vector := make([]float64, dimensions)
		seed := tokensSeed(g.promptIDs(i))
		for d := range vector {
			seed = seed*6364136223846793005 + 1442695040888963407
			vector[d] = float64(int64(seed)) / (1 << 63)
		}
		data[i] = object{"index": i, "object": "embedding", "embedding": vector}
	}
	answer := object{"id": g.id, "object": "list", "created": g.created, "model": g.body.Model, "data": data}
	if !g.noUsage {
		u := g.usage()
		answer["usage"] = object{
			"prompt_tokens": u.prompt, "total_tokens": u.prompt, "completion_tokens": 0, "prompt_tokens_details": nil,
		}
	}
	return answer
}
