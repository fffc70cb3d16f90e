package bedrock

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// family is whose models these are, as their ids begin; "" for unknown.
type family string

// The families that are treated apart.
const (
	anthropic family = "anthropic"
	amazon    family = "amazon"
	cohere    family = "cohere"
	mistral   family = "mistral"
	openai    family = "openai"
)

// isFamily reports whether ids begin with the name, behind a region's.
func isFamily(name string) bool {
	switch family(name) {
	case anthropic, amazon, cohere, mistral, openai,
		"ai21", "deepseek", "google", "meta", "minimax", "moonshot", "moonshotai", "nvidia", "qwen", "stability", "writer", "zai":
		return true
	default:
		return false
	}
}

// familyOf reads a model's id, the id of an inference profile, or an ARN with one of them.
func familyOf(model, stated string) family {
	if stated != "" {
		return family(strings.ToLower(stated))
	}
	if i := strings.LastIndexByte(model, '/'); i >= 0 { // an ARN
		model = model[i+1:]
	}
	first, rest, _ := strings.Cut(model, ".")
	for _, name := range []string{first, strings.SplitN(rest, ".", 2)[0]} {
		if isFamily(name) {
			return family(name)
		}
	}
	return ""
}

// caches reports whether prefixes that end there can be marked. Of models that nobody
// knows it is assumed.
func (f family) caches(field string) bool {
	switch f {
	case anthropic, "":
		return true
	case amazon:
		return field != "tools"
	default:
		return false
	}
}

// sampling sets how the answer is drawn, how long it may be and how much is thought before.
func (w *writer) sampling(o *dialect.RequestOptions) {
	i := &wireInference{MaxTokens: w.r.MaxTokens, StopSequences: w.r.Stop}
	for _, s := range w.r.Stop {
		if strings.TrimSpace(s) == "" {
			w.refuse("stop", "a stop sequence needs something else than white space")
		}
	}
	if w.family == anthropic {
		w.claude(i, o)
	} else {
		w.others(i)
	}
	if i.MaxTokens != 0 || i.Temperature != "" || i.TopP != "" || len(i.StopSequences) > 0 {
		w.out.InferenceConfig = i
	}
}

// claude asks the codec of Claude's own API, which knows what each version takes.
func (w *writer) claude(i *wireInference, o *dialect.RequestOptions) {
	r := w.r
	probe := &dialect.Request{
		Model: r.Model, Messages: outline(r.Messages), Tools: r.Tools, Choice: r.Choice,
		MaxTokens: r.MaxTokens, Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK, Thinking: r.Thinking,
	}
	body, err := dialect.Messages().EncodeRequest(probe, o, func(n dialect.Warning) {
		if !strings.HasPrefix(n.Field, "messages") { // of the turns it was told above
			w.note(n)
		}
	})
	if err != nil {
		var u *dialect.UnsupportedError
		if errors.As(err, &u) {
			u.Service = converseName
		}
		if w.err == nil {
			w.err = err
		}
		return
	}
	var m struct {
		MaxTokens    int64           `json:"max_tokens"`
		Temperature  json.Number     `json:"temperature"`
		TopP         json.Number     `json:"top_p"`
		TopK         json.RawMessage `json:"top_k"`
		Thinking     json.RawMessage `json:"thinking"`
		OutputConfig struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		w.refuse("body", "it can't be planned for Claude")
		return
	}
	i.Temperature, i.TopP = m.Temperature, m.TopP
	// The service's own default is all that the model can do: longer than one we'd make up.
	if r.MaxTokens != 0 || m.Thinking != nil {
		i.MaxTokens = m.MaxTokens
	}
	if m.TopK != nil {
		w.extra("top_k", m.TopK)
	}
	if m.Thinking != nil {
		w.extra("thinking", m.Thinking)
	}
	if m.OutputConfig.Effort != "" {
		w.output().Effort = m.OutputConfig.Effort
	}
}

// outline are the turns without what they say: whether the model may think depends on whose
// they are, and on what its own began with.
func outline(turns []dialect.Message) []dialect.Message {
	out := make([]dialect.Message, 0, len(turns))
	for _, m := range turns {
		parts := make([]dialect.Part, 0, len(m.Parts))
		for _, p := range m.Parts {
			switch p.Kind {
			case dialect.Reasoning:
			case dialect.ToolCall, dialect.ToolResult:
				p = dialect.Part{Kind: p.Kind, ID: p.ID, Name: p.Name}
			case dialect.Text, dialect.Refusal:
				if strings.TrimSpace(p.Text) == "" {
					continue
				}
				p = dialect.Part{Kind: dialect.Text, Text: filler}
			default:
				p = dialect.Part{Kind: dialect.Text, Text: filler}
			}
			parts = append(parts, p)
		}
		out = append(out, dialect.Message{Role: m.Role, Parts: parts})
	}
	return out
}

// others sets the same for everyone else's models.
func (w *writer) others(i *wireInference) {
	r := w.r
	i.Temperature, i.TopP = r.Temperature, r.TopP
	if t, err := r.Temperature.Float64(); err == nil && t > 1 {
		i.Temperature = "1"
		w.warn("temperature", "the service takes at most 1")
	}
	if r.TopK != "" {
		switch w.family {
		case amazon:
			w.extra("inferenceConfig", json.RawMessage(`{"topK":`+string(r.TopK)+`}`))
		case cohere:
			w.extra("k", json.RawMessage(r.TopK))
		case mistral:
			w.extra("top_k", json.RawMessage(r.TopK))
		default:
			w.warn("top_k", "not every model has it, and which name this one has for it is not known")
		}
	}
	w.think()
}

// think sets how much models of OpenAI's and Amazon's think.
func (w *writer) think() {
	t := w.r.Thinking
	if t == nil {
		return
	}
	effort := t.Effort
	if effort == "" {
		effort = dialect.EffortOf(t.Budget)
	}
	switch effort {
	case "minimal":
		effort = "low"
	case "xhigh", "max":
		effort = "high"
	}
	switch {
	case w.family == openai && effort != "" && !t.Off:
		w.extra("reasoning_effort", json.RawMessage(strconv.Quote(effort)))
	case w.family == amazon && t.Off:
		w.extra("reasoningConfig", json.RawMessage(`{"type":"disabled"}`))
	case w.family == amazon && effort != "":
		w.extra("reasoningConfig", json.RawMessage(`{"type":"enabled","maxReasoningEffort":`+strconv.Quote(effort)+`}`))
	default:
		w.warn("reasoning", "how much this model thinks can't be told to the service")
	}
}
