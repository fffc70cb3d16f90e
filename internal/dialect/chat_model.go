package dialect

import "strings"

// NewOpenAI reports whether a name is like those of OpenAI's models since o1: o3-mini,
// gpt-5.1, openai/o4-mini. They take max_completion_tokens, and not max_tokens; whoever
// passes them on (a proxy, a router of models) takes what they want.
func NewOpenAI(model string) bool {
	name := bareModel(model)
	if v, ok := strings.CutPrefix(name, "gpt-"); ok {
		return v != "" && v[0] >= '5' && v[0] <= '9'
	}
	return len(name) > 1 && name[0] == 'o' && name[1] >= '1' && name[1] <= '9'
}

// openAIReasons reports whether it is one of those that reason. The service answers 400 to
// their stop sequences and to most values of temperature and top_p; gpt-5-chat doesn't
// reason, and takes them all.
func openAIReasons(model string) bool {
	return NewOpenAI(model) && !strings.HasPrefix(bareModel(model), "gpt-5-chat")
}

func bareModel(model string) string {
	return strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
}
