package dialect

import "encoding/json"

// Request is what a client asks, in no API's own form.
type Request struct {
	// Model is the name that the service knows.
	Model string
	// System are the instructions before the first turn. Texts only.
	System   []Part
	Messages []Message

	Tools []Tool
	// Choice says which tools may or must be called. Nil leaves it to the service.
	Choice *ToolChoice
	// Parallel says whether several tools may be called in one turn. Nil: not said.
	Parallel *bool

	// MaxTokens bounds the answer; 0: not said.
	MaxTokens int64
	// Numbers as the client wrote them; "" where it didn't.
	Temperature, TopP, TopK json.Number
	Stop                    []string
	Stream                  bool
	// IncludeUsage asks for usage at a stream's end, where that has to be asked for.
	IncludeUsage bool
	Thinking     *Thinking
	Format       *Format
	// User is the service's name for the end user; "" for none.
	User string

	// Rest are the members of the body that have no place above, in their order: the codec
	// of the target decides on each.
	Rest []Member
	// Warnings are what the decoder left out or changed: no codec could carry it over.
	Warnings []Warning
}

// Member is one of a JSON object. From is the API whose member it is, by the codec's Name.
type Member struct {
	Name string
	From string
	Raw  json.RawMessage
}

// Role is whose turn a message is.
type Role uint8

// The roles. Results of tools are parts of a turn of the user.
const (
	User Role = iota
	Assistant
	// System are instructions amid the conversation (a system or developer message that is
	// not among the first). For a service without such turns they join Request.System, with
	// a Warning. Texts only.
	System
)

// Message is one turn. Neighbours may have the same role.
type Message struct {
	Role  Role
	Parts []Part
	// Name is the participant's, where an API has one.
	Name string
}

// PartKind says which fields of a Part count.
type PartKind uint8

// The kinds of parts.
const (
	Text       PartKind = iota // Text
	Image                      // Media
	Document                   // Media, Name
	Audio                      // Media
	ToolCall                   // ID, Name, Signature, Text: the arguments, a JSON object (as the model wrote it, valid or not)
	ToolResult                 // ID, Parts (Text, Image, Document), Failed
	Reasoning                  // Text, Signature; or Redacted
	Refusal                    // Text: why the model won't answer
)

// Part is a piece of a turn.
type Part struct {
	Kind     PartKind
	Text     string
	ID, Name string
	Media    Media
	// Parts are those of a tool's result.
	Parts  []Part
	Failed bool
	// Signature is the service's over its own reasoning, or over what it thought before a
	// ToolCall, to be handed back unchanged; Redacted is reasoning that it shows to nobody.
	Signature, Redacted string
	// Cache marks the end of a prefix to be cached: Anthropic's cache_control, as written.
	Cache json.RawMessage
}

// Media is the content of a part: at a URL, or Data in base64.
type Media struct {
	Type, URL, Data string
	// Detail is how closely OpenAI's models look at an image; "" for not said.
	Detail string
}

// Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	// Schema is of its arguments, a JSON object; nil for none.
	Schema json.RawMessage
	Strict *bool
	Cache  json.RawMessage
}

// ChoiceKind is how free the model is to call tools.
type ChoiceKind uint8

// The kinds of choice.
const (
	ChoiceAuto ChoiceKind = iota // as it likes
	ChoiceNone                   // none
	ChoiceAny                    // at least one
	ChoiceTool                   // the one named
)

// ToolChoice says which tools may or must be called.
type ToolChoice struct {
	Kind ChoiceKind
	Name string // of ChoiceTool
}

// Thinking says whether and how much the model reasons before it answers.
type Thinking struct {
	Off bool
	// Budget is in tokens, 0: not said. Effort is OpenAI's word ("low"), "": not said. A
	// codec maps one to the other by the table in effort.go.
	Budget int64
	Effort string
}

// Format is the form that the answer must have.
type Format struct {
	// Schema is the JSON schema; nil: any JSON object.
	Schema json.RawMessage
	Name   string
	Strict *bool
}
