package requests

import (
	_ "embed"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

//go:embed curated.txt
var curated string

// Curated are requests written by hand, one for each thing that the conversion of a
// request does, broken ones included. Their model is "m".
func Curated() []Request {
	apis := map[string]prompt.API{
		"chat": prompt.Chat, "completions": prompt.Completions, "messages": prompt.Messages, "responses": prompt.Responses,
	}
	var out []Request
	for line := range strings.Lines(curated) {
		name, body, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, Request{apis[name], []byte(body)})
	}
	return out
}
