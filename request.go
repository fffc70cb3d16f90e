package kvsteer

import (
	"net/http"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// API is the kind of a request.
type API = prompt.API

// The kinds of request that carry a prompt.
const (
	ChatCompletions = prompt.Chat        // POST /v1/chat/completions
	Completions     = prompt.Completions // POST /v1/completions
	Messages        = prompt.Messages    // POST /v1/messages
	Responses       = prompt.Responses   // POST /v1/responses
	Embeddings      = prompt.Embeddings  // POST /v1/embeddings
)

// Request is what a Router decides about. It is read during the call and its
// Body until the Selection ends; neither is modified.
type Request struct {
	// API is required.
	API API
	// Model overrides the body's model field for the decision when not empty.
	Model string
	// Body is the JSON request as the client sent it. It may be empty when Model
	// and TokenIDs are given.
	Body []byte
	// Header is the client's; it may be nil.
	Header http.Header
	// TokenIDs are the prompt's token ids when the caller knows them: nothing is
	// then tokenized.
	TokenIDs []uint32
}

// Usage is what an engine reported about a finished request, in tokens.
type Usage struct {
	// Uncached prompt tokens were computed, CacheRead ones were found in the KV
	// cache, CacheWrite ones were computed and billed as written to a cache.
	Uncached   int `json:"uncached"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
	// Output includes Reasoning.
	Output    int `json:"output"`
	Reasoning int `json:"reasoning"`
	// Known is set when the engine reported usage at all, CachedKnown when it
	// reported cached tokens: absent is not zero.
	Known       bool `json:"known"`
	CachedKnown bool `json:"cached_known"`
}

// Prompt is the number of prompt tokens.
func (u Usage) Prompt() int { return u.Uncached + u.CacheRead + u.CacheWrite }

// parsed is a request whose body was read once.
type parsed struct {
	req    *Request
	object jsonscan.Object
	model  string
	salt   string
}

func (o *options) parse(req *Request) (parsed, error) {
	p := parsed{req: req, model: req.Model}
	if int64(len(req.Body)) > o.maxBody {
		return p, tooLarge(o.maxBody)
	}
	if len(req.Body) == 0 {
		if req.Model == "" {
			return p, badRequest(nil, "the request has no body and names no model")
		}
		return p, nil
	}
	object, err := jsonscan.Parse(req.Body, 0)
	if err != nil {
		return p, badRequest(err, "the body is not a JSON object")
	}
	p.object = object
	if p.model == "" {
		v, ok := object.Get("model")
		if !ok {
			return p, badRequest(nil, `the body has no "model"`)
		}
		name, isString := v.Str()
		if !isString || name == "" {
			return p, badRequest(nil, `"model" must be a non-empty string`)
		}
		p.model = name
	}
	p.salt = prompt.Salt(object)
	return p, nil
}
