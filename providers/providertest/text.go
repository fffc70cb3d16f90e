package providertest

import (
	"encoding/base64"
	"encoding/binary"
	"math"
)

// textForm writes completions of texts, as they were before chats.
type textForm struct{ *exchange }

func textStop(s Stop) string {
	if s == StopLength {
		return "length"
	}
	return "stop"
}

func (f *textForm) whole(a *Answer) object {
	out := object{
		"id": f.id("cmpl-"), "object": "text_completion", "created": f.created(), "model": a.Model,
		"choices": []any{object{"index": 0, "text": a.Text, "logprobs": nil, "finish_reason": textStop(a.stop())}},
	}
	if !a.NoUsage {
		out["usage"] = chatUsage(&a.Usage)
	}
	return out
}

func (f *textForm) events(a *Answer) []event {
	s := &chunks{chatForm: &chatForm{f.exchange}, a: a, id: f.id("cmpl-"), object: "text_completion"}
	for _, piece := range pieces(a.Text) {
		s.raw(s.chunk([]any{object{"index": 0, "text": piece, "logprobs": nil, "finish_reason": nil}}))
	}
	s.raw(s.chunk([]any{object{"index": 0, "text": "", "logprobs": nil, "finish_reason": textStop(a.stop())}}))
	if !a.NoUsage && (s.asked() || a.Frames.Usage == UsageUnasked) {
		last := s.chunk([]any{})
		last["usage"] = chatUsage(&a.Usage)
		s.raw(last)
	}
	return append(s.list, event{data: []byte("[DONE]")})
}

// embeddingsForm writes embeddings: of each text a vector that depends on its length.
type embeddingsForm struct{ *exchange }

func (f *embeddingsForm) events(*Answer) []event { return nil }

func (f *embeddingsForm) whole(a *Answer) object {
	texts := []any{f.r.body["input"]}
	if list, ok := f.r.body["input"].([]any); ok && len(list) > 0 {
		if _, tokens := list[0].(string); tokens {
			texts = list
		}
	}
	data := make([]any, len(texts))
	for i := range texts {
		text, _ := texts[i].(string)
		vector := []float32{float32(len(text)), float32(i), 1, -0.5}
		var v any = vector
		if f.r.body["encoding_format"] == "base64" {
			raw := make([]byte, 0, 4*len(vector))
			for _, e := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(e))
			}
			v = base64.StdEncoding.EncodeToString(raw)
		}
		data[i] = object{"object": "embedding", "index": i, "embedding": v}
	}
	return object{
		"object": "list", "model": a.Model, "data": data,
		"usage": object{"prompt_tokens": a.Usage.Input, "total_tokens": a.Usage.Input},
	}
}
