package bedrock

import "encoding/json"

// The bodies of Converse, as far as they are used. Bytes are base64 in JSON and stay so.
type (
	wireRequest struct {
		Messages        []wireMessage   `json:"messages"`
		System          []wireBlock     `json:"system,omitempty"`
		InferenceConfig *wireInference  `json:"inferenceConfig,omitempty"`
		ToolConfig      *wireToolConfig `json:"toolConfig,omitempty"`
		OutputConfig    *wireOutput     `json:"outputConfig,omitempty"`
		ServiceTier     *wireTier       `json:"serviceTier,omitempty"`
		// Additional are members of the model's own API.
		Additional map[string]json.RawMessage `json:"additionalModelRequestFields,omitempty"`
	}
	wireMessage struct {
		Role    string      `json:"role"`
		Content []wireBlock `json:"content"`
	}
	// wireBlock is a block of content: one of its members is there.
	wireBlock struct {
		Text             *string         `json:"text,omitempty"`
		Image            *wireMedia      `json:"image,omitempty"`
		Document         *wireMedia      `json:"document,omitempty"`
		Audio            *wireMedia      `json:"audio,omitempty"`
		ToolUse          *wireToolUse    `json:"toolUse,omitempty"`
		ToolResult       *wireToolResult `json:"toolResult,omitempty"`
		ReasoningContent *wireReasoning  `json:"reasoningContent,omitempty"`
		CachePoint       *wireCachePoint `json:"cachePoint,omitempty"`
		ToolSpec         *wireToolSpec   `json:"toolSpec,omitempty"`
		// CitationsContent is in answers only.
		CitationsContent *wireCitations `json:"citationsContent,omitempty"`
	}
	wireMedia struct {
		Format string     `json:"format,omitempty"`
		Name   string     `json:"name,omitempty"`
		Source wireSource `json:"source"`
	}
	wireSource struct {
		Bytes string  `json:"bytes,omitempty"`
		S3    *wireS3 `json:"s3Location,omitempty"`
	}
	wireS3 struct {
		URI string `json:"uri"`
	}
	wireToolUse struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	wireToolResult struct {
		ID      string      `json:"toolUseId"`
		Content []wireBlock `json:"content"`
		Status  string      `json:"status,omitempty"`
	}
	wireReasoning struct {
		Text     *wireReasoningText `json:"reasoningText,omitempty"`
		Redacted string             `json:"redactedContent,omitempty"`
	}
	wireReasoningText struct {
		Text      string `json:"text"`
		Signature string `json:"signature,omitempty"`
	}
	wireCachePoint struct {
		Type string `json:"type"`
		TTL  string `json:"ttl,omitempty"`
	}
	wireCitations struct {
		Content []wireBlock `json:"content"`
	}
	wireInference struct {
		MaxTokens     int64       `json:"maxTokens,omitempty"`
		Temperature   json.Number `json:"temperature,omitempty"`
		TopP          json.Number `json:"topP,omitempty"`
		StopSequences []string    `json:"stopSequences,omitempty"`
	}
	wireToolConfig struct {
		Tools      []wireBlock `json:"tools"`
		ToolChoice *wireChoice `json:"toolChoice,omitempty"`
	}
	wireToolSpec struct {
		Name        string     `json:"name"`
		Description string     `json:"description,omitempty"`
		InputSchema wireSchema `json:"inputSchema"`
		Strict      *bool      `json:"strict,omitempty"`
	}
	wireSchema struct {
		JSON json.RawMessage `json:"json"`
	}
	wireChoice struct {
		Auto *struct{}     `json:"auto,omitempty"`
		Any  *struct{}     `json:"any,omitempty"`
		Tool *wireToolName `json:"tool,omitempty"`
	}
	wireToolName struct {
		Name string `json:"name"`
	}
	wireOutput struct {
		Effort     string      `json:"effort,omitempty"`
		TextFormat *wireFormat `json:"textFormat,omitempty"`
	}
	wireFormat struct {
		Type      string        `json:"type"`
		Structure wireStructure `json:"structure"`
	}
	wireStructure struct {
		JSONSchema wireJSONSchema `json:"jsonSchema"`
	}
	wireJSONSchema struct {
		Schema string `json:"schema"`
		Name   string `json:"name,omitempty"`
	}
	wireTier struct {
		Type string `json:"type"`
	}

	wireAnswer struct {
		Output struct {
			Message *wireMessage `json:"message"`
		} `json:"output"`
		StopReason string     `json:"stopReason"`
		Usage      *wireUsage `json:"usage"`
	}
	wireUsage struct {
		Input      *int64 `json:"inputTokens"`
		Output     int64  `json:"outputTokens"`
		Total      int64  `json:"totalTokens"`
		CacheRead  *int64 `json:"cacheReadInputTokens"`
		CacheWrite *int64 `json:"cacheWriteInputTokens"`
	}
)
