package prompt

import (
	"context"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// tokenize asks the engine's /tokenize endpoint. It takes less than a request can
// say; where that may change the prompt it passes rather than be wrong.
type tokenize struct{ *caller }

func (tokenize) Kind() SourceKind { return SourceTokenize }

// tokenizePath is the same in vLLM and SGLang. It lies outside /v1.
const tokenizePath = "/tokenize"

// plan finds the form of the request, or says why there is none.
func (s tokenize) plan(r *Request) (endpoint, error) {
	o := r.Object
	switch {
	case r.API == Messages || r.API == Responses:
		return 0, errNoForm
	case conversation(r.API, o):
		if field := inexpressible(o); field != "" {
			return 0, errField + ReasonError(field)
		}
		if hasMedia(o.Value("messages")) {
			return 0, errMedia
		}
		return tokenizeChat, s.health.check(&r.Engine, tokenizeChat)
	case r.API == Completions || r.API == Embeddings:
		if o.Value("prompt_embeds").Exists() {
			return 0, errEmbeds
		}
		switch in := inputOf(r.API, o); in.kind {
		case inputText:
			return tokenizeText, s.health.check(&r.Engine, tokenizeText)
		case inputOther:
			return 0, errUnknownPrompt
		default:
			return 0, ErrNotApplicable
		}
	default:
		return 0, ErrNotApplicable
	}
}

// inexpressible names a field that the endpoint can't take, "" if there is none.
// The names are ours, not the client's.
func inexpressible(o jsonscan.Object) string {
	// They reach the template, or decide what does, as of vLLM 0.32.
	for _, key := range [...]string{
		"documents", "reasoning_effort", "reasoning", "thinking", "functions", "function_call", "prompt_embeds",
		"mm_payload",
	} {
		if !o.Value(key).Empty() {
			return key
		}
	}
	if format := o.Value("response_format"); format.Exists() && !format.Get("type").Is("text") {
		return "response_format" // some renderers describe it to the model
	}
	if o.Value("kv_transfer_params").Get("prompt_token_ids").Exists() {
		return "kv_transfer_params" // ids of a prefill stage, in place of the messages
	}
	choice := o.Value("tool_choice")
	if !o.Value("tools").Empty() && choice.Exists() && !choice.Is("auto") {
		return "tool_choice" // "none" may take the tools out of the prompt
	}
	return ""
}

// Encode implements Source.
func (s tokenize) Encode(ctx context.Context, r *Request) (Encoding, error) {
	at, err := s.plan(r)
	if err != nil {
		return Encoding{}, err
	}
	var body []byte
	rest := 0
	if at == tokenizeChat {
		body = chatForm(r)
	} else {
		in := inputOf(r.API, r.Object)
		body = textForm(r, in)
		rest = (in.rest + bytesPerToken - 1) / bytesPerToken
	}
	var out Encoding
	err = s.post(ctx, &r.Engine, at, tokenizePath, body, func(v jsonscan.Value) error {
		ids, ok := v.Get("tokens").Uint32s()
		count, counted := v.Get("count").Int()
		if !ok || len(ids) == 0 || counted && count != int64(len(ids)) {
			return errReply
		}
		longest, _ := v.Get("max_model_len").Int()
		if !cutOf(r.Object).spares(len(ids), int(min(longest, maxModelLen))) {
			return errTruncation
		}
		out = exact(SourceTokenize, ids, rest)
		return nil
	})
	return out, err
}

// maxModelLen keeps a reported length within an int of 32 bits.
const maxModelLen = 1 << 30

// slack is room for names and punctuation of a form.
const slack = 256

func chatForm(r *Request) []byte {
	b := make([]byte, 0, len(r.Object.Value("messages").Raw())+len(r.Object.Value("tools").Raw())+slack)
	b = append(b, '{')
	// What the endpoint takes of a chat request (vLLM's TokenizeChatRequest), under
	// the same names and with the same defaults.
	for _, key := range [...]string{
		"messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens",
		"chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs",
	} {
		v := r.Object.Value(key)
		if !v.Exists() {
			continue
		}
		b = append(b, '"')
		b = append(b, key...)
		b = append(b, '"', ':')
		b = append(b, v.Raw()...)
		b = append(b, ',')
	}
	if r.API == Embeddings && !r.Object.Value("add_generation_prompt").Exists() {
		// The one default in which embeddings differ from the endpoint.
		b = append(b, `"add_generation_prompt":false,`...)
	}
	return appendModel(b, r.Model)
}

func textForm(r *Request, in input) []byte {
	b := make([]byte, 0, len(in.first.Raw())+slack)
	b = append(b, `{"prompt":`...)
	b = append(b, in.first.Raw()...)
	b = append(b, `,"add_special_tokens":`...)
	if v := r.Object.Value("add_special_tokens"); v.Exists() {
		b = append(b, v.Raw()...)
	} else {
		b = append(b, "true"...) // the engines' default for text, said out loud
	}
	b = append(b, ',')
	return appendModel(b, r.Model)
}

// appendModel ends a form. Engines take their only model when none is named.
func appendModel(b []byte, model string) []byte {
	if model == "" {
		b[len(b)-1] = '}' // in place of the comma
		return b
	}
	b = append(b, `"model":`...)
	b = jsonscan.AppendString(b, model)
	return append(b, '}')
}
