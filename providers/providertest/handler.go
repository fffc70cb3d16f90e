package providertest

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	azureDeployments = "/openai/deployments/"
	azureV1          = "/openai/v1"
	geminiBase       = "/v1beta/openai"
)

// endpoint is what a path is for.
type endpoint uint8

const (
	nowhere endpoint = iota
	chat
	completions
	responses
	embeddings
	messages
	countTokens
	models
	files
	batches
)

func (e endpoint) asksModel() bool { return e >= chat && e <= messages }

// route says what a path is for, and what comes behind it. model is that in Azure's path.
func (s *Server) route(path string) (e endpoint, rest, model string) {
	var ok bool
	switch s.dialect {
	case OpenAI:
		rest, ok = strings.CutPrefix(path, s.prefix())
	case AzureOpenAI:
		if rest, ok = strings.CutPrefix(path, azureV1); ok {
			break
		}
		if rest, ok = strings.CutPrefix(path, azureDeployments); ok {
			model, rest, _ = strings.Cut(rest, "/")
			rest = "/" + rest
		} else {
			rest, ok = strings.CutPrefix(path, "/openai") // files and the like
		}
	case Gemini:
		rest, ok = strings.CutPrefix(path, geminiBase)
	case Anthropic:
		rest, ok = strings.CutPrefix(path, "/v1")
	}
	if !ok {
		return nowhere, "", ""
	}
	openAI := s.dialect != Anthropic
	switch {
	case rest == "/chat/completions" && openAI:
		e = chat
	case rest == "/completions" && openAI && s.dialect != Gemini:
		e = completions
	case rest == "/responses" && openAI && s.dialect != Gemini:
		e = responses
	case rest == "/embeddings" && openAI:
		e = embeddings
	case rest == "/messages" && !openAI:
		e = messages
	case rest == "/messages/count_tokens" && !openAI:
		e = countTokens
	case rest == "/models" || strings.HasPrefix(rest, "/models/"):
		e, rest = models, strings.TrimPrefix(strings.TrimPrefix(rest, "/models"), "/")
	case openAI && (rest == "/files" || strings.HasPrefix(rest, "/files/")):
		e, rest = files, strings.TrimPrefix(strings.TrimPrefix(rest, "/files"), "/")
	case openAI && (rest == "/batches" || strings.HasPrefix(rest, "/batches/")):
		e, rest = batches, strings.TrimPrefix(strings.TrimPrefix(rest, "/batches"), "/")
	}
	return e, rest, model
}

func (s *Server) serve(w http.ResponseWriter, hr *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.leave()
	r := &Request{Method: hr.Method, Path: hr.URL.Path, Query: hr.URL.RawQuery, Header: hr.Header.Clone()}
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, s.opts.MaxBody))
	r.At, r.Body = time.Now(), body
	ex := &exchange{Server: s, w: w, ctx: hr.Context(), r: r}
	ex.endpoint, ex.rest, r.Model = s.route(hr.URL.Path)
	deployment := r.Model
	parsed := true
	if ex.endpoint.asksModel() || ex.endpoint == countTokens {
		parsed = r.parse()
		if deployment != "" {
			r.Model = deployment // the body's is ignored
		}
	}
	s.record(r)
	w.Header().Set(s.idHeader(), ex.id("req_"))

	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		ex.fail(&problem{fault: TooLarge, text: "the body is too long"})
	case err != nil:
		panic(http.ErrAbortHandler) // the client left
	case ex.endpoint == nowhere:
		ex.fail(&problem{fault: UnknownModel, status: http.StatusNotFound, text: "there is nothing at this path", code: "unknown_url"})
	default:
		ex.answer(parsed)
	}
}

func (s *Server) idHeader() string {
	switch s.dialect {
	case Anthropic:
		return "Request-Id"
	case AzureOpenAI:
		return "Apim-Request-Id"
	default:
		return "X-Request-Id"
	}
}

// answer goes through the checks in the services' order: credentials, method, form, limit.
func (x *exchange) answer(parsed bool) {
	post := x.endpoint.asksModel() || x.endpoint == countTokens
	p := x.credentials()
	switch {
	case p != nil:
	case post && x.r.Method != http.MethodPost:
		p = &problem{fault: BadRequest, status: http.StatusMethodNotAllowed, text: "use POST", code: "method_not_supported"}
	case !post:
		p = x.version()
		if p == nil {
			x.keep()
			return
		}
	case !parsed:
		p = &problem{fault: BadRequest, text: "the body could not be parsed as a JSON object"}
	default:
		if p = x.version(); p == nil {
			p = x.check()
		}
		if p == nil {
			p = x.known(x.r.Model)
		}
	}
	if p == nil && x.endpoint.asksModel() {
		if after, ok := x.admit(x.r, x.w.Header()); !ok {
			p = &problem{fault: RateLimited, after: after}
		}
	}
	if p != nil {
		x.fail(p)
		return
	}
	x.play()
}

// credentials checks the key in the dialect's header.
func (x *exchange) credentials() *problem {
	x.mu.Lock()
	key := x.key
	x.mu.Unlock()
	if key == "" {
		return nil
	}
	h := x.r.Header
	bearer, isBearer := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	given, there := bearer, isBearer
	switch own := x.keyHeader(); {
	case own == "":
	case h.Get(own) != "":
		given, there = h.Get(own), true
	default:
	}
	switch {
	case !there:
		return &problem{fault: BadKey, absent: true}
	case given != key:
		return &problem{fault: BadKey}
	default:
		return nil
	}
}

// keyHeader is the header of keys beside Authorization.
func (s *Server) keyHeader() string {
	switch s.dialect {
	case AzureOpenAI:
		return "Api-Key"
	case Anthropic:
		return "X-Api-Key"
	default:
		return ""
	}
}

// version checks which version of the API is asked for, where a service wants to know.
func (x *exchange) version() *problem {
	switch {
	case x.dialect == Anthropic && x.r.Header.Get("Anthropic-Version") == "":
		return &problem{fault: BadRequest, text: "anthropic-version: header is required"}
	case x.dialect == AzureOpenAI && !strings.HasPrefix(x.r.Path, azureV1) && !strings.Contains("&"+x.r.Query, "&api-version="):
		return &problem{fault: BadRequest, status: http.StatusNotFound, text: "Resource not found", code: "404"}
	default:
		return nil
	}
}

// known checks that there is the model.
func (x *exchange) known(model string) *problem {
	if x.opts.Models == nil || slices.Contains(x.opts.Models, model) {
		return nil
	}
	return &problem{fault: UnknownModel}
}

func (x *exchange) id(prefix string) string {
	const digits = 1_000_000 // so that ids have one length
	return prefix + "0kv" + strconv.Itoa(digits+x.number())
}
