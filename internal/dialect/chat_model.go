package dialect

import "strings"

// openAIReasons reports whether a name is like those of OpenAI's models that reason: o3-mini,
// gpt-5.1, openai/o4-mini. The service answers 400 to stop sequences and to most values of
// temperature and top_p. It is what chooses max_completion_tokens in package providers, but for
// gpt-5-chat, which doesn't reason and takes them all.
func openAIReasons(model string) bool {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if v, ok := strings.CutPrefix(name, "gpt-"); ok {
		return v != "" && v[0] >= '5' && v[0] <= '9' && !strings.HasPrefix(v, "5-chat")
	}
	return len(name) > 1 && name[0] == 'o' && name[1] >= '1' && name[1] <= '9'
}
