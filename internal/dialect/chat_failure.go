package dialect

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// DecodeFailure knows the shapes that the API's services give an error: an object error
// (OpenAI, Azure, Together, newer vLLM), the same in a list (Gemini), its members at the top
// (older vLLM, Databricks with error_code), and FastAPI's detail.
func (chatCodec) DecodeFailure(status int, _ http.Header, body []byte) *Failure {
	f := &Failure{Status: status}
	if v, err := jsonscan.ParseValue(body, 0); err == nil {
		chatError(f, v)
	} else if text := bytes.TrimSpace(body); utf8.Valid(text) && !bytes.HasPrefix(text, []byte("<")) {
		f.Message = string(text) // not a proxy's page
	}
	f.Message = clip(f.Message, maxMessage)
	f.Kind = chatFailureKind(f)
	f.Credential = f.Kind == FailAuth && f.aboutCredential()
	return f
}

// aboutCredential reports whether the words are about the credential itself. Of a message
// they are the first ones: it may quote what the client chose after them.
func (f *Failure) aboutCredential() bool {
	for _, word := range [...]string{f.Code, f.Type} {
		switch word {
		case "invalid_api_key", "authentication_error", "UNAUTHENTICATED", "invalid_authentication", "account_suspended":
			return true
		default:
		}
	}
	return begins(f.Message, "Invalid access token", keyNotValid, keyExpired, "This organization has been disabled")
}

// What Gemini says of a key, with the status of a bad request.
const (
	keyNotValid = "API key not valid"
	keyExpired  = "API key expired"
)

// maxMessage bounds what an error says, in bytes.
const maxMessage = 4096

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// chatError reads an error's words from wherever they are.
func chatError(f *Failure, v jsonscan.Value) {
	if v.Kind() == jsonscan.KindArray {
		it := v.Iter()
		if !it.Next() {
			return
		}
		v = it.Value()
	}
	if inner := v.Get("error"); inner.Kind() == jsonscan.KindObject {
		v = inner
	} else if s, ok := inner.Str(); ok { // {"error":"..."}: TGI and proxies
		f.Message = s
	}
	words := func(dst *string, names ...string) {
		for _, name := range names {
			w := v.Get(name)
			if s, ok := w.Str(); ok && *dst == "" {
				*dst = s
			} else if w.Kind() == jsonscan.KindNumber && *dst == "" {
				*dst = string(w.Raw())
			}
		}
	}
	words(&f.Message, "message", "detail", "msg")
	words(&f.Type, "type", "status", "error_type")
	words(&f.Code, "code", "error_code", "statusCode")
	words(&f.Param, "param")
	if list := v.Get("detail"); f.Message == "" && list.Kind() == jsonscan.KindArray {
		if it := list.Iter(); it.Next() {
			f.Message, _ = it.Value().Get("msg").Str()
		}
	}
	if s, ok := v.Get("innererror").Get("code").Str(); ok && s == "ResponsibleAIPolicyViolation" {
		f.Code = "content_filter"
	}
}

func chatFailureKind(f *Failure) FailureKind {
	for _, word := range [...]string{f.Code, f.Type} {
		switch word {
		case "context_length_exceeded", "string_above_max_length", "context_window_exceeded":
			return FailContext
		case "content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "moderation_blocked":
			return FailContent
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated":
			return FailQuota
		case "invalid_api_key", "authentication_error", "permission_denied", "PERMISSION_DENIED", "UNAUTHENTICATED",
			"invalid_authentication", "account_suspended":
			return FailAuth
		case "model_not_found", "DeploymentNotFound", "model_not_available":
			return FailModel
		default:
		}
	}
	status := f.Status
	if n, err := strconv.Atoi(f.Code); err == nil && status == 0 { // within a stream
		status = n
	}
	switch status {
	case 0, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		switch { // Gemini has one code for all of these
		case isNotice(f.Message, keyNotValid, keyExpired):
			return FailAuth
		case saysContext(f.Message):
			return FailContext
		case strings.Contains(f.Message, "PROHIBITED_CONTENT"):
			return FailContent
		default:
		}
	case http.StatusPaymentRequired:
		return FailQuota
	default:
	}
	if kind := kindOfStatus(status); kind != FailUnknown {
		return kind
	}
	for _, word := range [...]string{f.Type, f.Code} { // Responses has a code only
		switch word {
		case "invalid_request_error", "BadRequestError", "INVALID_ARGUMENT", "invalid_request", "invalid_prompt":
			return FailRequest
		case "rate_limit_error", "rate_limit_exceeded", "requests", "tokens", "RESOURCE_EXHAUSTED":
			return FailRate
		case "overloaded_error", "service_unavailable", "server_is_overloaded", "UNAVAILABLE":
			return FailOverloaded
		case "server_error", "InternalServerError", "internal_error", "INTERNAL", "api_error":
			return FailServer
		default:
		}
	}
	return FailUnknown
}

// kindOfStatus is what an HTTP status says by itself.
func kindOfStatus(status int) FailureKind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return FailAuth
	case http.StatusNotFound:
		return FailModel
	case http.StatusRequestEntityTooLarge:
		return FailTooLarge
	case http.StatusTooManyRequests:
		return FailRate
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return FailTimeout
	case http.StatusServiceUnavailable, statusOverloaded:
		return FailOverloaded
	default:
	}
	switch {
	case status >= http.StatusInternalServerError:
		return FailServer
	case status >= http.StatusBadRequest:
		return FailRequest
	default:
		return FailUnknown
	}
}

// statusOverloaded is Anthropic's; services that front it hand it on.
const statusOverloaded = 529

// saysContext finds the prompt that is too long by what services say of it, where the code
// doesn't: few have one. A client that puts such words where they are quoted makes its own
// request one of these, and nobody else's.
func saysContext(message string) bool {
	m := strings.ToLower(message)
	for _, words := range [...]string{
		"context length", "context window", "context_length", "maximum model length", "max_model_len",
		"prompt is too long", "input is too long", "input token count", "input length", "max length exceeded",
		"exceed the maximum number of tokens", "exceeds the maximum number of tokens",
		"reduce the length of the messages", "too many input tokens", "tokens` must be <=",
	} {
		if strings.Contains(m, words) {
			return true
		}
	}
	return false
}

func (chatCodec) EncodeFailure(f *Failure) (status int, body []byte) {
	status, typ, code := chatFailureWords(f)
	switch own := f.Status; f.Kind {
	case FailRequest, FailServer:
		if own/100 == status/100 { // 422, 502: as good as ours
			status = own
		}
	case FailUnknown:
		if own >= http.StatusBadRequest && own != statusOverloaded {
			status = own
		}
	default:
	}
	w := jsonWriter{b: []byte{'{'}}
	chatWriteFailure(&w, f, typ, code)
	w.end('}')
	return status, w.b
}

func chatWriteFailure(w *jsonWriter, f *Failure, typ, code string) {
	w.key("error").open('{')
	message, param := f.Message, f.Param
	switch {
	case f.Kind == FailAuth: // the service's words may quote the gateway's key
		message, param = "The service refused the gateway's credentials.", ""
	case f.Kind == FailQuota: // or name its account
		message, param = "The gateway's quota at the service is used up.", ""
	case message == "":
		message = "The service answered with an error and said no more."
	}
	w.key("message").str(message)
	w.key("type").str(typ)
	for _, m := range [...]struct{ name, value string }{{"param", param}, {"code", code}} {
		if m.value == "" {
			w.key(m.name).raw("null")
		} else {
			w.key(m.name).str(m.value)
		}
	}
	w.end('}')
}

// chatFailureWords are what OpenAI's own service says: clients act on them.
func chatFailureWords(f *Failure) (status int, typ, code string) {
	const wrong = "invalid_request_error"
	switch f.Kind {
	case FailRequest:
		return http.StatusBadRequest, wrong, ""
	case FailAuth:
		return http.StatusUnauthorized, wrong, "invalid_api_key"
	case FailModel:
		return http.StatusNotFound, wrong, "model_not_found"
	case FailTooLarge:
		return http.StatusRequestEntityTooLarge, wrong, "request_too_large"
	case FailContext:
		return http.StatusBadRequest, wrong, "context_length_exceeded"
	case FailContent:
		return http.StatusBadRequest, wrong, "content_policy_violation"
	case FailRate:
		return http.StatusTooManyRequests, "requests", "rate_limit_exceeded"
	case FailQuota:
		return http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"
	case FailOverloaded:
		return http.StatusServiceUnavailable, "server_error", "overloaded"
	case FailTimeout:
		return http.StatusGatewayTimeout, "server_error", "timeout"
	case FailServer, FailUnknown:
	}
	return http.StatusInternalServerError, "server_error", ""
}
