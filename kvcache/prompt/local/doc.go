// Package local computes the token ids of a request in this process, from a
// model's own files: no call to an engine, no network, no cgo.
//
// A [Source] reproduces what vLLM 0.32 (with transformers 5.19) does to a request
// before inference: it reads the request as the engine's models do, converts it to
// a conversation, renders the model's chat template and tokenizes. Everything that
// it does is compared with a real vLLM, id for id. What it can't do exactly it
// passes on with a fixed reason, so that the next source of the
// [github.com/kvsteer/kvsteer/kvcache/prompt.Encoder] serves: images and other
// media (of which [Source.Prefix] computes how the prompt begins), prompt
// embeddings, templates that come with a request, prompts that depend on state in
// an engine, and shapes of a request that the engine refuses or that depend on how
// its validation library happens to resolve them.
//
// What it can't know is whether the engines have the same files and options. Put it
// into a [github.com/kvsteer/kvsteer/kvcache/prompt.Prover], which asks them.
//
// Model types whose prompts vLLM does not render by a Jinja template and a
// Hugging Face tokenizer (gpt-oss, DeepSeek-V3.2, Kimi-K3, Mistral's own format
// ...) are refused when they are loaded, with a [*ModelTypeError] that says what
// serves them instead.
//
// # Where to look
//
//	source.go     Source: which assets serve a request, reload, status
//	files.go      the files of a model directory or Hugging Face cache, their hash
//	assets.go     what is made of them: templates, special tokens, tokenizer
//	modeltype.go  which model types are served, and by which tokenizer class
//	class.go      what transformers makes of a tokenizer.json for that class
//	message.go    a conversation, whatever API it came from
//	chat.go, anthropic.go, responses.go, completions.go   requests to conversations
//	media.go      how prompts begin that have images, audio or video in them
//	tools.go      tool definitions and tool calls
//	variables.go  what a template gets to see
//	render.go     conversation to text to ids, with continuation and truncation
package local
