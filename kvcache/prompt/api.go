package prompt

import "strings"

// API is the dialect and endpoint of a request.
type API uint8

// The request kinds that carry a prompt. The zero value is none of them.
const (
	Chat        API = iota + 1 // POST /v1/chat/completions
	Completions                // POST /v1/completions
	Messages                   // POST /v1/messages
	Responses                  // POST /v1/responses
	Embeddings                 // POST /v1/embeddings
)

const numAPIs = int(Embeddings) + 1

// String returns the API's name in words.
func (a API) String() string {
	switch a {
	case Chat:
		return "chat completions"
	case Completions:
		return "completions"
	case Messages:
		return "messages"
	case Responses:
		return "responses"
	case Embeddings:
		return "embeddings"
	default:
		return "none"
	}
}

// Path is the URL path that engines serve the API at, "" for none.
func (a API) Path() string {
	switch a {
	case Chat:
		return "/v1/chat/completions"
	case Completions:
		return "/v1/completions"
	case Messages:
		return "/v1/messages"
	case Responses:
		return "/v1/responses"
	case Embeddings:
		return "/v1/embeddings"
	default:
		return ""
	}
}

// APIForPath returns the API served at a URL path, which may have a prefix, as
// behind a gateway that mounts engines somewhere. Paths below an API's, such as
// /v1/messages/count_tokens, are none.
func APIForPath(path string) (API, bool) {
	if strings.HasSuffix(path, Chat.Path()) { // it ends like completions, too
		return Chat, true
	}
	for a := Completions; a <= Embeddings; a++ {
		if strings.HasSuffix(path, a.Path()) {
			return a, true
		}
	}
	return 0, false
}
