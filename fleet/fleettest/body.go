package fleettest

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// body is a request of any of the APIs: the fields that mean anything here.
type body struct {
	Model string `json:"model"`

	Messages     []message       `json:"messages"`
	System       json.RawMessage `json:"system"`
	Prompt       json.RawMessage `json:"prompt"`
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	Tools        json.RawMessage `json:"tools"`

	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`

	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	MaxOutputTokens     *int `json:"max_output_tokens"`
	IgnoreEOS           bool `json:"ignore_eos"`
	N                   *int `json:"n"`

	ReturnTokenIDs      bool   `json:"return_token_ids"`
	CacheSalt           string `json:"cache_salt"`
	AddGenerationPrompt *bool  `json:"add_generation_prompt"`
	RoutedRank          *int   `json:"routed_dp_rank"`
	Priority            int    `json:"priority"`

	Transfer *transfer `json:"kv_transfer_params"`
}

// transfer is how vLLM's two legs of a disaggregated request are told of each
// other.
type transfer struct {
	RemoteDecode  bool    `json:"do_remote_decode"`
	RemotePrefill bool    `json:"do_remote_prefill"`
	EngineID      *string `json:"remote_engine_id"`
	BlockIDs      []int   `json:"remote_block_ids"`
}

// message is one turn of a conversation in any of the APIs.
type message struct {
	Type       string          `json:"type"` // items of /v1/responses
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	Arguments  string          `json:"arguments"`
	Output     json.RawMessage `json:"output"`
	ToolCallID string          `json:"tool_call_id"`
}

// apiError is an answer that refuses a request.
type apiError struct {
	status int
	kind   string
	param  string
	text   string
}

// Error returns what the client is told. It never quotes the request.
func (e *apiError) Error() string { return e.text }

func badRequest(text string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "BadRequestError", text: text}
}

// invalid refuses a body whose form is wrong, at the given place.
func invalid(param, text string) *apiError {
	return &apiError{status: http.StatusBadRequest, kind: "Bad Request", param: "body." + param, text: text}
}

// parseBody decodes a request.
func parseBody(raw []byte) (*body, error) {
	b := new(body)
	if err := json.Unmarshal(raw, b); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			return nil, invalid(mismatch.Field, "field "+mismatch.Field+" has the wrong type")
		}
		return nil, invalid("0", "the request body is not valid JSON")
	}
	return b, nil
}

// limit returns the most output tokens asked for, 0 when nothing is.
func (b *body) limit() (int, error) {
	for _, most := range []*int{b.MaxCompletionTokens, b.MaxOutputTokens, b.MaxTokens} {
		switch {
		case most == nil:
		case *most < 1:
			return 0, badRequest("max_tokens must be at least 1")
		default:
			return *most, nil
		}
	}
	return 0, nil
}

// rendered is a prompt in tokens.
type rendered struct {
	tokens []uint32
	images []image
}

func (p *rendered) text(s string) { p.tokens = appendTokens(p.tokens, s) }

// open begins a message of the chat template.
func (p *rendered) open(role string) {
	p.tokens = append(p.tokens, tokenStart)
	p.text(role)
	p.text("\n")
}

func (p *rendered) shut() {
	p.tokens = append(p.tokens, tokenEnd)
	p.text("\n")
}

// chat renders a conversation: every message between two special tokens, its
// role first. A conversation is a prefix of every longer one, and an answer of
// this package's engines renders to the tokens that were generated.
func chat(messages []message, system, tools json.RawMessage, generate bool) (*rendered, error) {
	p := &rendered{tokens: make([]uint32, 0, estimate(messages))}
	if present(tools) {
		p.open("system")
		p.tokens = append(p.tokens, tokenTools)
		p.text(string(tools))
		p.shut()
	}
	if present(system) {
		messages = slices.Concat([]message{{Role: "system", Content: system}}, messages)
	}
	for i := range messages {
		m := &messages[i]
		role := m.Role
		if role == "" {
			role = m.Type // function calls and their outputs in /v1/responses
		}
		if role == "" {
			return nil, badRequest("a message has no role")
		}
		p.open(role)
		if err := p.content(m.Content); err != nil {
			return nil, err
		}
		if present(m.ToolCalls) || m.Arguments != "" {
			p.tokens = append(p.tokens, tokenCall)
			p.text(string(m.ToolCalls))
			p.text(m.Arguments)
		}
		if err := p.content(m.Output); err != nil {
			return nil, err
		}
		p.shut()
	}
	if generate {
		p.open("assistant")
	}
	return p, nil
}

// estimate returns room for the tokens of a conversation.
func estimate(messages []message) int {
	const bytesPerWord = 5
	n := 0
	for i := range messages {
		n += 8 + len(messages[i].Content)/bytesPerWord
	}
	return n
}

// content renders a message's content: null, a string, or a list of parts.
func (p *rendered) content(raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return badRequest("a message's content is not valid")
		}
		p.text(s)
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		ImageURL json.RawMessage `json:"image_url"`
		Source   json.RawMessage `json:"source"`
		Input    json.RawMessage `json:"input"`
		Content  json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return badRequest("a message's content is neither text nor a list of parts")
	}
	joined := false
	for i := range parts {
		part := &parts[i]
		switch part.Type {
		case "image_url", "input_image", "image":
			p.image(slices.Concat(part.ImageURL, part.Source))
			joined = false
		case "tool_use":
			p.tokens = append(p.tokens, tokenCall)
			p.text(string(part.Input))
		case "tool_result":
			if err := p.content(part.Content); err != nil {
				return err
			}
		default:
			if joined {
				p.text("\n")
			}
			p.text(part.Text)
			joined = true
		}
	}
	return nil
}

// image adds placeholder tokens for an image, which is identified by a hash of
// the JSON that names it.
func (p *rendered) image(source []byte) {
	p.images = append(p.images, image{id: digest(source), offset: len(p.tokens), length: imageTokens})
	for range imageTokens {
		p.tokens = append(p.tokens, tokenImage)
	}
}

// present reports whether a JSON field is there and not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// texts returns the prompts of /v1/completions and /v1/embeddings: a string, a
// list of strings, a list of ids, or a list of lists of ids.
func texts(raw json.RawMessage, field string) ([]*rendered, error) {
	if !present(raw) {
		return nil, invalid(field, field+" is missing")
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []*rendered{{tokens: Tokenize(one)}}, nil
	}
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		list := make([]*rendered, len(many))
		for i, s := range many {
			list[i] = &rendered{tokens: Tokenize(s)}
		}
		return list, nil
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		return []*rendered{{tokens: ids}}, nil
	}
	var lists [][]uint32
	if json.Unmarshal(raw, &lists) == nil {
		list := make([]*rendered, len(lists))
		for i := range lists {
			list[i] = &rendered{tokens: lists[i]}
		}
		return list, nil
	}
	return nil, badRequest(field + " must be text, token ids, or a list of either")
}

// prompts renders the request as the given API does.
func (b *body) prompts(path string) ([]*rendered, error) {
	generate := b.AddGenerationPrompt == nil || *b.AddGenerationPrompt
	switch {
	case strings.HasPrefix(path, pathCompletions):
		return texts(b.Prompt, "prompt")
	case path == pathEmbeddings:
		return texts(b.Input, "input")
	case path == pathResponses:
		return b.responsesPrompt()
	default:
		if len(b.Messages) == 0 {
			return nil, invalid("messages", "messages is missing or empty")
		}
		p, err := chat(b.Messages, b.System, b.Tools, generate)
		return []*rendered{p}, err
	}
}

// responsesPrompt renders the input of /v1/responses.
func (b *body) responsesPrompt() ([]*rendered, error) {
	if !present(b.Input) {
		return nil, invalid("input", "input is missing")
	}
	var items []message
	if b.Input[0] == '"' {
		items = []message{{Role: "user", Content: b.Input}}
	} else if err := json.Unmarshal(b.Input, &items); err != nil {
		return nil, badRequest("input is neither text nor a list of items")
	}
	var system json.RawMessage
	if b.Instructions != "" {
		quoted, err := json.Marshal(b.Instructions)
		if err != nil {
			return nil, badRequest("instructions is not valid")
		}
		system = quoted
	}
	p, err := chat(items, system, b.Tools, true)
	return []*rendered{p}, err
}
