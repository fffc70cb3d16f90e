package dialect

import (
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// The API's types of errors.
const (
	errTypeRequest    = "invalid_request_error"
	errTypeAuth       = "authentication_error"
	errTypePermission = "permission_error"
	errTypeNotFound   = "not_found_error"
	errTypeTooLarge   = "request_too_large"
	errTypeRate       = "rate_limit_error"
	errTypeBilling    = "billing_error"
	errTypeOverloaded = "overloaded_error"
	errTypeAPI        = "api_error"
	errTypeTimeout    = "timeout_error"
)

// DecodeFailure implements Service.
func (messages) DecodeFailure(status int, _ http.Header, body []byte) *Failure {
	f := &Failure{Kind: messagesKind(status), Status: status}
	v, err := jsonscan.ParseValue(body, 0)
	if err != nil {
		return f // a page of some proxy's
	}
	f.fill(v.Get("error"))
	if status == http.StatusUnauthorized || status == http.StatusPaymentRequired { // nothing says it better
		f.Kind = messagesKind(status)
	}
	return f
}

// fill reads the error of a body or of a stream.
func (f *Failure) fill(v jsonscan.Value) {
	f.Type, _ = v.Get("type").Str()
	f.Message, _ = v.Get("message").Str()
	switch f.Type {
	case errTypeRequest:
		f.Kind = kindOfRequest(f.Message)
	case errTypeAuth, errTypePermission:
		f.Kind, f.Credential = FailAuth, f.Type == errTypeAuth
	case errTypeNotFound:
		f.Kind = FailModel
	case errTypeTooLarge:
		f.Kind = FailTooLarge
	case errTypeRate:
		f.Kind = FailRate
	case errTypeBilling:
		f.Kind = FailQuota
	case errTypeOverloaded:
		f.Kind = FailOverloaded
	case errTypeAPI:
		f.Kind = FailServer
	case errTypeTimeout:
		f.Kind = FailTimeout
	default: // what the status said
	}
}

// kindOfRequest tells invalid requests apart. The API has one type for all of them, and only
// its texts say which it is. Where one may quote the request, a client can put words into it:
// those for FailContext and FailContent are looked for anywhere, as they concern its own
// request only. Those that close a provider for others must be the service's.
func kindOfRequest(message string) FailureKind {
	text := strings.ToLower(message)
	has := func(phrases ...string) bool {
		for _, p := range phrases {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case isNotice(text, "your credit balance", "you have reached your specified api usage limits",
		"you have reached your specified workspace api usage limits"):
		return FailQuota
	case isNotice(text, "this organization has been disabled"):
		return FailAuth
	case has("prompt is too long", "exceed context limit", "context window", "input is too long"):
		return FailContext
	case has("content filtering policy"):
		return FailContent
	default:
		return FailRequest
	}
}

// isNotice reports whether a text is one of a service's own about the account. It begins with
// the words: what quotes the request has words of its own first. And it has no colon before
// a space: a complaint about a field has one, and may begin with the field's name, which is
// any that the client chose.
func isNotice(text string, words ...string) bool {
	return begins(text, words...) && !strings.Contains(text, ": ")
}

func begins(text string, words ...string) bool {
	for _, w := range words {
		if strings.HasPrefix(text, w) {
			return true
		}
	}
	return false
}

// messagesKind is what an HTTP status says by itself.
func messagesKind(status int) FailureKind {
	if status == http.StatusPaymentRequired {
		return FailQuota
	}
	return kindOfStatus(status)
}

// EncodeFailure implements Client.
func (messages) EncodeFailure(f *Failure) (status int, body []byte) {
	status, _, _ = messagesError(f)
	return status, appendMessagesError(nil, f)
}

func appendMessagesError(dst []byte, f *Failure) []byte {
	_, kind, message := messagesError(f)
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","message":`...)
	dst = jsonscan.AppendString(dst, message)
	return append(dst, `}}`...)
}

// promptTooLong is what clients look for to know that they should shorten the conversation.
const promptTooLong = "prompt is too long"

// messagesError is what an error is in the API: status, type, message.
func messagesError(f *Failure) (status int, kind, message string) {
	kindOf := f.Kind
	if kindOf == FailUnknown {
		kindOf = messagesKind(f.Status)
	}
	switch kindOf {
	case FailRequest:
		status, kind, message = http.StatusBadRequest, errTypeRequest, "the request is invalid"
	case FailContent:
		status, kind, message = http.StatusBadRequest, errTypeRequest, "blocked by content filtering policy"
	case FailContext:
		status, kind, message = http.StatusBadRequest, errTypeRequest, promptTooLong
	case FailAuth:
		status, kind, message = http.StatusUnauthorized, errTypeAuth, "not authorized"
		if f.Status == http.StatusForbidden {
			status, kind = http.StatusForbidden, errTypePermission
		}
	case FailModel:
		status, kind, message = http.StatusNotFound, errTypeNotFound, "no such model"
	case FailTooLarge:
		status, kind, message = http.StatusRequestEntityTooLarge, errTypeTooLarge, "the request is too large"
	case FailRate:
		status, kind, message = http.StatusTooManyRequests, errTypeRate, "too many requests"
	case FailQuota:
		status, kind, message = http.StatusPaymentRequired, errTypeBilling, "the service's quota is used up"
	case FailOverloaded:
		status, kind, message = statusOverloaded, errTypeOverloaded, "overloaded"
	case FailTimeout:
		status, kind, message = http.StatusGatewayTimeout, errTypeTimeout, "the service took too long"
	case FailServer, FailUnknown:
		status, kind, message = http.StatusInternalServerError, errTypeAPI, "the service failed"
		if f.Status > status && f.Status != statusOverloaded {
			status = f.Status
		}
	}
	switch {
	case f.Message == "":
	case kindOf == FailAuth, kindOf == FailQuota: // what the service says of the gateway's account is not for clients
	case kindOf == FailContext && !strings.Contains(strings.ToLower(f.Message), promptTooLong):
		message += ": " + f.Message
	default:
		message = f.Message
	}
	return status, kind, message
}
