package kvsteer

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/netip"
	"time"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/tenancy"
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

// Request is what a Router decides about. The Request itself is read during the
// call only, its Body and TokenIDs until the Selection ends; nothing is modified.
type Request struct {
	// API is required.
	API API
	// Model overrides the body's model field when not empty: it is what is decided
	// about, and what [Selection.Body] then names.
	Model string
	// Body is the JSON request as the client sent it. It may be empty when Model
	// and TokenIDs are given.
	Body []byte
	// Header is the client's; it may be nil.
	Header http.Header
	// TokenIDs are the prompt's token ids when the caller knows them: nothing is
	// then tokenized.
	TokenIDs []uint32

	// Identity is whom the request comes from, if the gateway knows; nil means that whom
	// [WithTenancy] names is asked, who looks at Header, Remote and TLS: the other end of
	// the connection that the request came by, and what it has shown.
	Identity *tenancy.Identity
	Remote   netip.AddrPort
	TLS      *tls.ConnectionState
	// Tenant is whom the request is for, as the gateway has established: waiting
	// requests share the workers fairly between tenants. Empty means the Identity's, if
	// there is one, and is a tenant too.
	Tenant string
	// QoS is the request's class of service, as the gateway has established; policies
	// may ask about it. Empty means the Identity's Class.
	QoS string
	// Pool is the group of workers that may serve the request, see [fleet.Worker];
	// empty means all workers.
	Pool string
	// Among, if not empty, lists the only workers that may serve the request, each by
	// its name or by the host:port of its URL: what a proxy in front has narrowed the
	// choice to.
	Among []string
	// WorkersOnly keeps the request from external providers (see [WithProviders]), whatever
	// the policy says: whoever sends it can't speak to them, as a proxy that is told an
	// address.
	WorkersOnly bool
	// Tags is what the gateway itself knows of the request's content; see [WithTags].
	Tags []policy.Tag
	// TrustedHeader is a header that the gateway itself wrote, or had from a peer that
	// it trusts, for classifiers that read tags from it. A client's header must never
	// be given here.
	TrustedHeader http.Header
	// Priority orders requests that wait (see [WithQueue]): lower goes first, as
	// in vLLM's field of that name, which is not read. 0 means the Identity's, or else
	// the usual.
	Priority int
	// Session names the conversation that the request belongs to. Where it makes
	// little difference, a session stays with its worker. Empty means the header
	// [HeaderSession], or else the body's session_id or prompt_cache_key.
	Session string
	// TargetTTFT and TargetITL are the time to the first token and the time between
	// tokens that the request should meet. Workers that are expected to meet them
	// come first; if there are none, the decision says so. 0 means the headers
	// [HeaderTargetTTFT] and [HeaderTargetITL], or else no target.
	TargetTTFT, TargetITL time.Duration
}

// Headers by which clients may say what they want. They are passed on.
const (
	// HeaderSession names a session, as vLLM knows it too.
	HeaderSession = "X-Session-Id"
	// HeaderTargetTTFT and HeaderTargetITL are targets in milliseconds, such as
	// "500" or "37.5", by the names that llm-d uses.
	HeaderTargetTTFT = "X-Slo-Ttft-Ms"
	HeaderTargetITL  = "X-Slo-Tpot-Ms"
)

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
	api    API
	body   []byte // to send
	object jsonscan.Object
	model  string
	// asked is the model by the name that the client has for it.
	asked string
	salt  string
	// bypass: engines compute the whole prompt, cached or not.
	bypass bool
	// stream: the answer comes in parts, so that its first token will be seen.
	stream bool
	hints  hints
}

func (o *options) parse(req *Request) (parsed, error) {
	if req == nil {
		return parsed{}, badRequest(nil, "the Request is nil")
	}
	p := parsed{api: req.API, model: req.Model, body: req.Body}
	if req.API.Path() == "" {
		return p, badRequest(nil, "Request.API is none of those that carry a prompt")
	}
	if int64(len(req.Body)) > o.maxBody {
		return p, tooLarge(o.maxBody)
	}
	if err := p.hints.take(req); err != nil {
		return p, err
	}
	if len(req.Body) == 0 {
		if req.Model == "" {
			return p, badRequest(nil, "the request has no body and names no model")
		}
		return p, nil
	}
	if bytes.HasPrefix(req.Body, []byte("\x1f\x8b")) {
		return p, badRequest(nil, "the body is gzip; send JSON without a Content-Encoding")
	}
	err := p.scan()
	if err == nil {
		err = p.unrank()
	}
	if err == nil {
		p.asked, _ = p.object.Value("model").Str()
	}
	if err == nil && p.model != "" {
		err = p.rename()
	}
	if err != nil && planted.PromptInRefusal {
		return p, badRequest(nil, "the body is not a JSON object: %v in %s", err, p.body)
	}
	if err != nil {
		return p, badRequest(nil, "the body is not a JSON object: %v", err) // a position, never text
	}
	if p.model == "" {
		v, ok := p.object.Get("model")
		if !ok {
			return p, badRequest(nil, `the body has no "model"`)
		}
		name, isString := v.Str()
		if !isString || name == "" {
			return p, badRequest(nil, `"model" must be a non-empty string`)
		}
		p.model = name
	}
	p.salt = prompt.Salt(p.object)
	p.hints.read(p.object)
	if p.api == prompt.Responses {
		p.hints.previous, _ = p.object.Value("previous_response_id").Str()
	}
	if o.tenancy != nil && o.providers != nil {
		p.hints.named = namesKept(p.object)
	}
	p.bypass = bypasses(p.object)
	p.stream, _ = p.object.Value("stream").Bool()
	return p, nil
}

func (p *parsed) scan() (err error) {
	p.object, err = jsonscan.Parse(p.body, 0)
	return err
}

// rename makes the body name the model that is decided about.
func (p *parsed) rename() error {
	var e jsonscan.Edit
	e.SetString("model", p.model)
	body, err := e.Apply(p.object)
	if err != nil || len(body) == len(p.body) && &body[0] == &p.body[0] {
		return err
	}
	p.body = body
	return p.scan()
}

// bypasses reports whether the request wants log probabilities of its prompt,
// for which engines compute all of it.
func bypasses(o jsonscan.Object) bool {
	if o.Value("prompt_logprobs").Exists() {
		return true
	}
	echo, _ := o.Value("echo").Bool()
	return echo && o.Value("logprobs").Exists()
}
