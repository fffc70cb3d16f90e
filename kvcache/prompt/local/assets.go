package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer"
)

// Tokenizer is what is needed of a tokenizer, whoever makes it: that of package
// tokenizer, or kvcache/hftok's. It must be safe for concurrent use.
type Tokenizer interface {
	// Encode appends the ids of text to dst, with the special tokens that the file
	// puts around a text if addSpecial.
	Encode(dst []uint32, text string, addSpecial bool) ([]uint32, error)
	// Token is the spelling of an id.
	Token(id uint32) (string, bool)
}

// scoped is a Tokenizer that keeps what it remembers of texts apart by scope, so that how
// long it takes tells nobody what others have sent.
type scoped interface {
	EncodeWithin(scope string, dst []uint32, text string, addSpecial bool) ([]uint32, error)
}

// newTokenizer makes the tokenizer of a tokenizer.json.
func newTokenizer(text []byte, o *Options) (Tokenizer, error) {
	t, err := tokenizer.Load(text, tokenizer.Options{CacheBytes: o.CacheBytes})
	switch {
	case err == nil:
		return t, nil
	case o.Unsupported == nil || !errors.Is(err, tokenizer.ErrUnsupported):
		return nil, err
	}
	other, otherErr := o.Unsupported(text)
	if otherErr != nil {
		return nil, errors.Join(err, otherErr)
	}
	return other, nil
}

// assets are one model's files, ready to use. They are immutable.
type assets struct {
	model     Model
	modelType string
	class     string
	hash      string
	stamps    []stamp
	dir       string // resolved
	specials  []namedSpecial
	tokenizer Tokenizer
	// plain renders requests without tools, tools those with; both nil when the
	// model has no chat template.
	plain, tools *chatTemplate
	// mergeSystem: /v1/messages moves system messages to the front for this model.
	mergeSystem bool
	// noThinking is the reasoning effort that /v1/messages takes for thinking that
	// is switched off.
	noThinking string
	defaults   *jinja.Dict // of the template's variables; nil for none
	// media is nil when prompts with media are not begun here.
	media   *mediaTokens
	buffers *buffers
}

// errNoTokenizer says what a directory lacks.
var errNoTokenizer = errors.New("local: no " + fileTokenizer + " or no " + fileTokenizerConfig +
	" in the directory: point Dir at a model's files")

// errTemplatePath is for those who give the path that an engine's option takes.
var errTemplatePath = errors.New("local: Model.ChatTemplate is neither the name of one of the model's templates nor the text of one: " +
	"it has no {. Of a file, give what is in it")

// errNoConfig says what decides how a model's prompts are made.
var errNoConfig = errors.New("local: no " + fileConfig + " in the directory: its model_type says how prompts are made; " +
	"copy it from the model")

// load makes assets of a model's files.
func load(m Model, o *Options) (*assets, error) {
	dir, err := resolveDir(m.Dir, m.Revision)
	if err != nil {
		return nil, err
	}
	f, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	return build(m, f, o)
}

func build(m Model, f *files, o *Options) (*assets, error) {
	a := &assets{buffers: &buffers{}, model: m, hash: f.hash, stamps: f.stamps, dir: f.dir}
	config, err := a.checkFiles(f)
	if err != nil {
		return nil, err
	}
	tc, err := parseTokenizerConfig(f.text[fileTokenizerConfig], f.text[fileSpecialMap])
	if err != nil {
		return nil, err
	}
	if olderErr := tc.readOlderAdded(f.text[fileAddedTokens]); olderErr != nil {
		return nil, olderErr
	}
	named := tc.Class
	if named == "" {
		named = config.TokenizerClass
	}
	if a.class, err = resolveClass(config.ModelType, named); err != nil {
		return nil, err
	}
	b := blueprintOf(a.class, tc)
	var defaults []namedToken
	if b != nil {
		defaults = b.defaults
	}
	tc.finish(defaults)
	a.specials = tc.named
	text, err := rebuild(f.text[fileTokenizer], b, tc)
	if err != nil {
		return nil, err
	}
	if a.tokenizer, err = newTokenizer(text, o); err != nil {
		return nil, fmt.Errorf("local: %s: %w", fileTokenizer, err)
	}
	if m.TemplateKwargs != "" {
		if a.defaults, err = parseDefaults(m.TemplateKwargs); err != nil {
			return nil, err
		}
	}
	if err := a.compile(f, tc, o); err != nil {
		return nil, err
	}
	a.media = a.mediaOf(config)
	a.probe()
	return a, nil
}

// checkFiles decides whether the model is served at all.
func (a *assets) checkFiles(f *files) (*modelConfig, error) {
	if len(f.text[fileTokenizer]) == 0 || len(f.text[fileTokenizerConfig]) == 0 {
		return nil, errNoTokenizer
	}
	if len(f.text[fileConfig]) == 0 && !a.model.AnyType {
		return nil, errNoConfig
	}
	var config modelConfig
	if text := f.text[fileConfig]; len(text) > 0 {
		if err := json.Unmarshal(text, &config); err != nil {
			return nil, errors.New("local: config.json is malformed")
		}
	}
	a.modelType = config.ModelType
	if err := checkType(config.ModelType, config.Architectures, a.model.AnyType); err != nil {
		return nil, err
	}
	switch {
	case f.has("consolidated*.safetensors") && (f.has("tekken.json") || f.has("tokenizer.model.v*")):
		return nil, &ModelTypeError{Type: config.ModelType, Why: "the directory has Mistral's own tokenizer, which vLLM prefers"}
	case f.has("sentence_bert_config.json"), f.has("modules.json"):
		return nil, &ModelTypeError{Type: config.ModelType, Why: "it is an embedding model"}
	default:
		return &config, nil
	}
}

func parseDefaults(text string) (*jinja.Dict, error) {
	v, err := jinja.FromJSON([]byte(text))
	if d, ok := v.(*jinja.Dict); ok && err == nil {
		if key := reserved(d); key != "" {
			return nil, fmt.Errorf("local: Model.TemplateKwargs must not set %q", key)
		}
		return d, nil
	}
	return nil, errors.New("local: Model.TemplateKwargs must be a JSON object")
}

// compile finds the chat templates as transformers and vLLM do.
func (a *assets) compile(f *files, tc *tokenizerConfig, o *Options) error {
	byName, err := templatesOf(f, tc)
	if err != nil {
		return err
	}
	plain, tools := a.choose(byName, f)
	if _, named := byName[a.model.ChatTemplate]; a.model.ChatTemplate != "" && !named && !strings.Contains(plain, "{") {
		return errTemplatePath
	}
	if a.plain, err = a.compileOne(plain, o); err != nil {
		return err
	}
	if a.tools = a.plain; tools != plain {
		a.tools, err = a.compileOne(tools, o)
	}
	return err
}

const (
	templateDefault = "default"
	templateToolUse = "tool_use"
)

// choose picks the template for requests without and with tools; "" for none.
func (a *assets) choose(byName map[string]string, f *files) (plain, tools string) {
	if given := a.model.ChatTemplate; given != "" {
		if text, found := byName[given]; found {
			given = text
		}
		return given, given
	}
	plain = byName[templateDefault]
	tools = plain
	if text, found := byName[templateToolUse]; found {
		tools = text
	}
	if !f.has("preprocessor_config.json") && !f.has("processor_config.json") {
		return plain, tools
	}
	// A multimodal model's processor may have a template of its own.
	var old struct {
		ChatTemplate string `json:"chat_template"`
	}
	if f.text[fileTemplate] == nil && json.Unmarshal(f.text[fileOldTemplate], &old) == nil && old.ChatTemplate != "" {
		plain = old.ChatTemplate
	}
	return plain, tools
}

// templatesOf returns the templates by name. Files beat tokenizer_config.json.
func templatesOf(f *files, tc *tokenizerConfig) (map[string]string, error) {
	byName := map[string]string{}
	if text, found := f.text[fileTemplate]; found {
		byName[templateDefault] = universalNewlines(text)
	}
	for name, text := range f.text {
		if rest, found := strings.CutPrefix(name, dirTemplates+"/"); found {
			byName[strings.TrimSuffix(rest, templateSuffix)] = universalNewlines(text)
		}
	}
	if len(byName) > 0 || !isSet(tc.ChatTemplate) {
		return byName, nil
	}
	var one string
	if json.Unmarshal(tc.ChatTemplate, &one) == nil {
		byName[templateDefault] = one
		return byName, nil
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if json.Unmarshal(tc.ChatTemplate, &list) == nil {
		for _, t := range list {
			byName[t.Name] = t.Template
		}
		return byName, nil
	}
	if json.Unmarshal(tc.ChatTemplate, &byName) == nil {
		return byName, nil
	}
	return nil, errors.New("local: chat_template of tokenizer_config.json has no known form")
}

// universalNewlines reads text as Python opens text files.
func universalNewlines(text []byte) string {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return string(bytes.ReplaceAll(text, []byte("\r"), []byte("\n")))
}

// chatTemplate is a compiled template and what vLLM finds out about it.
type chatTemplate struct {
	*jinja.Template
	source string
	// parts: content is given as a list of parts, not joined to a string.
	parts bool
	// developer: the template knows the role; else it becomes system.
	developer bool
	variables []string // sorted
}

func (t *chatTemplate) takes(variable string) bool {
	_, found := slices.BinarySearch(t.variables, variable)
	return found
}

func (a *assets) compileOne(source string, o *Options) (*chatTemplate, error) {
	if source == "" {
		return nil, nil //nolint:nilnil // a model without a chat template serves completions
	}
	zone := a.model.TimeZone
	if zone == nil {
		zone = time.UTC
	}
	tmpl, err := jinja.Compile(source, jinja.Options{Now: func() time.Time { return o.Now().In(zone) }})
	if err != nil {
		return nil, fmt.Errorf("local: chat template: %w", err)
	}
	t := &chatTemplate{
		Template: tmpl, source: source, variables: tmpl.Variables(),
		parts:     tmpl.ContentFormat() == jinja.OpenAIFormat,
		developer: strings.Contains(source, `"developer"`) || strings.Contains(source, `'developer'`),
	}
	switch a.model.ContentFormat {
	case "", "auto":
	case "openai":
		t.parts = true
	case "string":
		t.parts = false
	default:
		return nil, fmt.Errorf("local: Model.ContentFormat is %q; use auto, string or openai", a.model.ContentFormat)
	}
	return t, nil
}

// template returns the one for a request.
func (a *assets) template(withTools bool) *chatTemplate {
	if withTools {
		return a.tools
	}
	return a.plain
}
