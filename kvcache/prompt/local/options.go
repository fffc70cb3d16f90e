package local

import (
	"log/slog"
	"time"
)

// Model says where one model's files are and how its engines are started, as far
// as that bears on prompts. The zero value of everything but Dir is what engines do
// without options. It is plain data and may be copied.
type Model struct {
	// Dir has the model's files: tokenizer.json, tokenizer_config.json, config.json
	// and, if it is not in tokenizer_config.json, the chat template
	// (chat_template.jinja, chat_templates/*.jinja). Or it is the model's directory
	// in a Hugging Face cache (see [HubDir]); then Revision is used.
	Dir string
	// Revision is a branch, tag or commit in a Hugging Face cache; "" is main. Of a
	// plain directory there is one state only: then it must be empty.
	Revision string
	// ChatTemplate is the text of the engine's --chat-template, or the name of one
	// of the model's own templates.
	ChatTemplate string
	// ContentFormat is the engine's --chat-template-content-format: "auto" (or ""),
	// "string" or "openai".
	ContentFormat string
	// TemplateKwargs is the engine's --default-chat-template-kwargs, a JSON object.
	TemplateKwargs string
	// ExcludeToolsWhenNone is the engine's
	// --exclude-tools-when-tool-choice-none.
	ExcludeToolsWhenNone bool
	// InterleaveMedia is the engine's --interleave-mm-strings: it puts images between
	// a message's texts, rather than before them, for templates that take strings.
	InterleaveMedia bool
	// MaxModelLen is the engine's --max-model-len in tokens, for requests that want
	// their prompt shortened to it. 0: such requests are passed on.
	MaxModelLen int
	// DisabledThinking is the reasoning effort that stands for thinking switched off
	// in /v1/messages: the engine's option of that purpose. "": found out as the
	// engine does.
	DisabledThinking string
	// AnyType serves a model type that is not known to this package. Types known to
	// be rendered without a template are refused all the same.
	AnyType bool
	// SGLang says that the model's engines are SGLang rather than vLLM. It converts
	// conversations in a way of its own, which is not reproduced: only prompts that
	// are text already are served, the rest is passed on.
	SGLang bool
	// TimeZone is the engines', for templates that print the date. Nil: UTC, which
	// is what containers have.
	TimeZone *time.Location
}

// Options configure a [Source]. At least one model is required.
type Options struct {
	// Models are served under their names, which are those in requests once they
	// are rewritten for the worker.
	Models map[string]Model
	// Aliases are further names, such as those of adapters, of models in Models:
	// they share its files.
	Aliases map[string]string
	// Reload is how often the files are looked at for changes. 0: [DefaultReload].
	// Negative: never.
	Reload time.Duration
	// CacheBytes bounds each model's tokenizer cache. 0: the tokenizer's default.
	// Negative: no cache.
	CacheBytes int64
	// Unsupported makes a tokenizer of a tokenizer.json that package tokenizer does
	// not support, such as one of a Unigram model: by kvcache/hftok, for example. One
	// that holds memory of its own must free it when it is forgotten. Nil: such files
	// are refused.
	Unsupported func(tokenizerJSON []byte) (Tokenizer, error)
	// Logger hears of reloads and of files that can't be used. Nil: nobody does.
	Logger *slog.Logger
	// Now is the clock that templates see. Nil: time.Now.
	Now func() time.Time
}

// DefaultReload is half a minute: a model's files change when it is deployed anew.
const DefaultReload = 30 * time.Second

func (o Options) withDefaults() Options {
	if o.Reload == 0 {
		o.Reload = DefaultReload
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
