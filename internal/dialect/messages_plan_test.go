package dialect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClaudeVersions(t *testing.T) {
	for name, want := range map[string]claude{
		"claude-3-haiku-20240307":                      {version: 30},
		"claude-3-7-sonnet-20250219":                   {version: 37, sonnet: true},
		"claude-opus-4-20250514":                       {version: 40},
		"claude-opus-4@20250514":                       {version: 40},
		"claude-opus-4-1-20250805":                     {version: 41},
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0": {version: 45, sonnet: true},
		"anthropic.claude-opus-4-6-v1":                 {version: 46},
		"anthropic/claude-4.6-sonnet":                  {version: 46, sonnet: true},
		"CLAUDE-OPUS-4-7":                              {version: 47},
		"claude-sonnet-5":                              {version: 50, sonnet: true},
		"claude-opus-5-5":                              {version: 55},
		"claude-fable-5":                               {version: 50, thinker: true},
		"claude-mythos-preview":                        {thinker: true},
		"claude-latest":                                {},
		"my-claude":                                    {},
		"glm-4.6":                                      {other: true},
		"":                                             {other: true},
	} {
		assert.Equal(t, want, claudeOf(name), name)
	}
	assert.True(t, claude{}.has(claudeAlways), "an alias is of a current model")
	assert.False(t, claude{other: true}.has(claudeThinks))
}

func TestMessagesThinking(t *testing.T) {
	low, high := &Thinking{Effort: "low"}, &Thinking{Effort: "high"}
	off := &Thinking{Off: true}
	for name, c := range map[string]struct {
		model    string
		thinking *Thinking
		max      int64
		want     string
		output   string
		limit    string
		warnings int
	}{
		"not asked for":                {"claude-opus-4-7", nil, 0, "", "", "4096", 0},
		"a budget of its own":          {"claude-sonnet-4-5", low, 0, `{"type":"enabled","budget_tokens":1024}`, "", "5120", 0},
		"a budget within the answer's": {"claude-sonnet-4-5", high, 8000, `{"type":"enabled","budget_tokens":4000}`, "", "8000", 0},
		"a budget that fits":           {"claude-sonnet-4-5", high, 32000, `{"type":"enabled","budget_tokens":24576}`, "", "32000", 0},
		"no room":                      {"claude-sonnet-4-5", high, 1500, "", "", "1500", 1},
		"a model that doesn't":         {"claude-3-5-haiku-20241022", high, 0, "", "", "4096", 1},
		"adaptive":                     {"claude-opus-4-6", &Thinking{Effort: "medium"}, 0, `{"type":"adaptive"}`, `{"effort":"medium"}`, "12288", 0},
		"adaptive, least":              {"claude-opus-4-7", &Thinking{Effort: "minimal"}, 100, `{"type":"adaptive","display":"summarized"}`, `{"effort":"low"}`, "100", 0},
		"adaptive, by a budget":        {"claude-opus-4-7", &Thinking{Budget: 30000}, 100, `{"type":"adaptive","display":"summarized"}`, `{"effort":"high"}`, "100", 0},
		"adaptive, most":               {"claude-opus-4-7", &Thinking{Effort: "xhigh"}, 100, `{"type":"adaptive","display":"summarized"}`, `{"effort":"xhigh"}`, "100", 0},
		"adaptive, most, earlier":      {"claude-opus-4-6", &Thinking{Effort: "xhigh"}, 100, `{"type":"adaptive"}`, `{"effort":"high"}`, "100", 0},
		"adaptive, unknown effort":     {"claude-opus-4-6", &Thinking{Effort: "hard"}, 100, `{"type":"adaptive"}`, ``, "100", 1},
		"an alias":                     {"claude-latest", low, 100, `{"type":"adaptive","display":"summarized"}`, `{"effort":"low"}`, "100", 0},
		"adaptive, always":             {"claude-opus-5-5", low, 100, `{"type":"adaptive","display":"summarized"}`, `{"effort":"low"}`, "100", 0},
		"another's model":              {"glm-4.6", low, 4096, `{"type":"enabled","budget_tokens":1024}`, ``, "4096", 0},
		"off, by default":              {"claude-opus-4-7", off, 100, "", "", "100", 0},
		"off, said":                    {"claude-sonnet-5", off, 100, `{"type":"disabled"}`, "", "100", 0},
		"off, as far as it goes":       {"claude-sonnet-5-5", off, 100, `{"type":"between_tools"}`, "", "100", 0},
		"off is not to be had":         {"claude-opus-5-5", off, 100, "", `{"effort":"low"}`, "100", 1},
		"nor in this family":           {"claude-fable-5", off, 100, "", `{"effort":"low"}`, "100", 1},
		"off, another's model":         {"glm-4.6", off, 100, `{"type":"disabled"}`, "", "100", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := sent(t, asked(func(r *Request) { r.Model, r.Thinking, r.MaxTokens = c.model, c.thinking, c.max }), nil)
			assert.Equal(t, c.want, string(got["thinking"]))
			assert.Equal(t, c.output, string(got["output_config"]))
			assert.Equal(t, c.limit, string(got["max_tokens"]))
			assert.Len(t, warnings, c.warnings)
		})
	}
}

func TestMessagesThinkingAndTools(t *testing.T) {
	think := func(model string, change func(*Request)) string {
		got, _ := sent(t, asked(func(r *Request) {
			r.Model, r.Thinking, r.Tools = model, &Thinking{Effort: "low"}, []Tool{{Name: "f"}}
			change(r)
		}), nil)
		return string(got["thinking"])
	}
	const budget, adaptive = `{"type":"enabled","budget_tokens":1024}`, `{"type":"adaptive","display":"summarized"}`
	call, result := Part{Kind: ToolCall, ID: "1", Name: "f"}, says(User, Part{Kind: ToolResult, ID: "1"})
	forced := func(r *Request) { r.Choice = &ToolChoice{Kind: ChoiceTool, Name: "f"} }
	goesOn := func(parts ...Part) func(*Request) {
		return func(r *Request) { r.Messages = append(r.Messages, says(Assistant, parts...), result) }
	}
	next := func(r *Request) {
		goesOn(call)(r)
		r.Messages = append(r.Messages, says(Assistant, Part{Text: "Done."}), says(User, Part{Text: "Thanks."}))
	}
	for _, c := range []struct {
		model  string
		change func(*Request)
		want   string
	}{
		{"claude-sonnet-4-5", forced, ""},
		{"claude-opus-4-7", forced, ""},
		{"claude-sonnet-4-5", goesOn(call), ""},
		{"claude-sonnet-4-5", goesOn(Part{Kind: Reasoning, Text: "x"}, call), ""},
		{"claude-sonnet-4-5", goesOn(Part{Kind: Reasoning, Text: "x", Signature: "s"}, call), budget},
		{"claude-opus-4-7", goesOn(call), adaptive},
		{"claude-sonnet-4-5", next, budget},
	} {
		assert.Equal(t, c.want, think(c.model, c.change))
	}
}

// Models that think by themselves answer 400 to a tool that must be called, unless they are
// told not to think.
func TestMessagesForcedToolsStopThinking(t *testing.T) {
	anyTool, named := &ToolChoice{Kind: ChoiceAny}, &ToolChoice{Kind: ChoiceTool, Name: "f"}
	const disabled = `{"type":"disabled"}`
	for name, c := range map[string]struct {
		model    string
		choice   *ToolChoice
		thinking *Thinking
		want     string
		output   string
		warnings []string
	}{
		"any":                     {"claude-sonnet-5", anyTool, nil, disabled, "", []string{"tool_choice"}},
		"named":                   {"anthropic/claude-opus-5", named, nil, disabled, "", []string{"tool_choice"}},
		"asked to think":          {"claude-sonnet-5", named, &Thinking{Effort: "low"}, disabled, `{"effort":"low"}`, []string{fieldEffort}},
		"asked to think too hard": {"claude-opus-5", anyTool, &Thinking{Effort: "xhigh"}, disabled, `{"effort":"high"}`, []string{fieldEffort}},
		"asked for the most":      {"claude-opus-5", anyTool, &Thinking{Effort: effortMax}, disabled, `{"effort":"high"}`, []string{fieldEffort}},
		"told not to":             {"claude-opus-5", anyTool, &Thinking{Off: true}, disabled, "", nil},
		"not forced":              {"claude-sonnet-5", &ToolChoice{Kind: ChoiceAuto}, nil, "", "", nil},
		"none":                    {"claude-sonnet-5", &ToolChoice{Kind: ChoiceNone}, nil, "", "", nil},
		"no choice":               {"claude-sonnet-5", nil, nil, "", "", nil},
		"off by default":          {"claude-opus-4-7", anyTool, nil, "", "", nil},
		"always thinks":           {"claude-fable-5", anyTool, nil, "", "", nil},
		"an alias":                {"claude-latest", anyTool, nil, "", "", nil},
		"another's model":         {"glm-4.6", anyTool, nil, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := sent(t, asked(func(r *Request) {
				r.Model, r.Choice, r.Thinking, r.Tools = c.model, c.choice, c.thinking, []Tool{{Name: "f"}}
			}), nil)
			assert.Equal(t, c.want, string(got["thinking"]))
			assert.Equal(t, c.output, string(got["output_config"]))
			assert.Equal(t, c.warnings, warnings)
			assert.Equal(t, c.choice != nil, got["tool_choice"] != nil, "the choice stays the client's")
		})
	}
}

func TestMessagesSampling(t *testing.T) {
	for name, c := range map[string]struct {
		model                   string
		temperature, topP, topK json.Number
		think                   bool
		wantT, wantP, wantK     string
		warnings                []string
	}{
		"as written":               {"claude-3-5-haiku", "0.70", "0.9", "40", false, "0.70", "0.9", "40", nil},
		"clamped":                  {"claude-3-5-haiku", "1.5", "", "", false, "1", "", "", []string{"temperature"}},
		"one of two":               {"claude-sonnet-4-5", "0.2", "0.9", "", false, "0.2", "", "", []string{"top_p"}},
		"one of two, the other":    {"claude-sonnet-4-5", "", "0.9", "", false, "", "0.9", "", nil},
		"one of two, silently":     {"claude-sonnet-4-5", "0.2", "1", "", false, "0.2", "", "", nil},
		"none":                     {"claude-opus-4-7", "0.2", "0.9", "5", false, "", "", "", []string{"temperature", "top_p", "top_k"}},
		"none, silently":           {"claude-opus-4-7", "1", "1.0", "-1", false, "", "", "", nil},
		"while thinking":           {"claude-sonnet-4-5", "0.2", "0.5", "5", true, "", "", "", []string{"temperature", "top_p", "top_k"}},
		"while thinking, possible": {"claude-sonnet-4-5", "", "0.97", "", true, "", "0.97", "", nil},
		"while thinking, 1":        {"claude-sonnet-4-5", "1", "", "", true, "1", "", "", nil},
		"another's model":          {"glm-4.6", "0.2", "0.9", "5", false, "0.2", "0.9", "5", nil},
		"engines' none":            {"glm-4.6", "", "", "0", false, "", "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := sent(t, asked(func(r *Request) {
				r.Model, r.Temperature, r.TopP, r.TopK = c.model, c.temperature, c.topP, c.topK
				if c.think {
					r.Thinking = &Thinking{Effort: "low"}
				}
			}), nil)
			assert.Equal(t, c.wantT, string(got["temperature"]))
			assert.Equal(t, c.wantP, string(got["top_p"]))
			assert.Equal(t, c.wantK, string(got["top_k"]))
			assert.Equal(t, c.warnings, warnings)
		})
	}
}

func TestMessagesFormat(t *testing.T) {
	schema := &Format{Schema: json.RawMessage(`{"type":"object"}`), Name: "n"}
	got, warnings := sent(t, asked(func(r *Request) { r.Model, r.Format = "claude-opus-4-7", schema; r.Thinking = &Thinking{Effort: "low"} }), nil)
	assert.JSONEq(t, `{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}`, string(got["output_config"]))
	assert.Empty(t, warnings)

	_, err := Messages().EncodeRequest(asked(func(r *Request) { r.Model, r.Format = "claude-3-5-haiku-20241022", schema }), nil, func(Warning) {})
	var u *UnsupportedError
	assert.ErrorAs(t, err, &u)
}
