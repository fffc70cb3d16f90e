package bedrock

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// wireFailure is the body of an error.
type wireFailure struct {
	Type     string `json:"__type"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Message2 string `json:"Message"`
}

// DecodeFailure reads an error: its name is in a header, or in the body.
func (converse) DecodeFailure(status int, h http.Header, body []byte) *dialect.Failure {
	var in wireFailure
	_ = json.Unmarshal(body, &in) // a proxy's page says no more than its status
	name := h.Get("X-Amzn-Errortype")
	if name == "" {
		name = in.Type
	}
	if name == "" {
		name = in.Code
	}
	// "ThrottlingException:http://internal...", "com.amazon.coral#ThrottlingException"
	name, _, _ = strings.Cut(name, ":")
	if i := strings.LastIndexByte(name, '#'); i >= 0 {
		name = name[i+1:]
	}
	f := &dialect.Failure{Status: status, Type: name, Message: in.Message}
	if f.Message == "" {
		f.Message = in.Message2
	}
	f.Kind, f.Credential = kindOf(name, f.Message), aboutCredential(name)
	if f.Kind == dialect.FailUnknown {
		f.Kind = kindOfStatus(status)
	}
	return f
}

// streamFailure reads an error within a stream.
func streamFailure(name string, data []byte) *dialect.Failure {
	var in wireFailure
	_ = json.Unmarshal(data, &in)
	if name == errorEvent {
		name = in.Code
	}
	f := &dialect.Failure{Type: name, Message: in.Message}
	if f.Message == "" {
		f.Message = in.Message2
	}
	if f.Kind = kindOf(name, f.Message); f.Kind == dialect.FailUnknown {
		f.Kind = dialect.FailServer
	}
	f.Credential = aboutCredential(name)
	return f
}

// plainName is an exception's name without what AWS's services end it with, in small letters.
func plainName(name string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(name, "Exception"), "Error"))
}

// aboutCredential reports whether an exception says that the credential itself is no good:
// mostly with a status of 403, as what it may not do has.
func aboutCredential(name string) bool {
	switch plainName(name) {
	case "unrecognizedclient", "invalidsignature", "signaturedoesnotmatch", "expiredtoken", "expired", "invalidclienttokenid",
		"missingauthenticationtoken", "missingauthentication", "incompletesignature":
		return true
	default:
		return false
	}
}

// kindOf classes an exception by its name, which streams spell with a small first letter.
func kindOf(name, message string) dialect.FailureKind {
	message = strings.ToLower(message)
	switch plainName(name) {
	case "throttling", "toomanyrequests":
		if strings.Contains(message, "per day") { // a daily quota: no use to come back soon
			return dialect.FailQuota
		}
		return dialect.FailRate
	case "servicequotaexceeded", "limitexceeded":
		return dialect.FailQuota
	case "modeltimeout", "requesttimeout":
		return dialect.FailTimeout
	case "serviceunavailable", "modelnotready":
		return dialect.FailOverloaded
	case "internalserver", "internalfailure", "model", "modelstream":
		return dialect.FailServer
	case "accessdenied":
		// Access is granted model by model: credentials may be good for others.
		if strings.Contains(message, "access to the model") || strings.Contains(message, "model access") {
			return dialect.FailModel
		}
		return dialect.FailAuth
	case "unrecognizedclient", "invalidsignature", "signaturedoesnotmatch", "expiredtoken", "expired",
		"missingauthenticationtoken", "missingauthentication", "incompletesignature", "invalidclienttokenid",
		"notauthorized", "unauthorized", "requestexpired", "optinrequired":
		return dialect.FailAuth
	case "resourcenotfound", "modelnotfound":
		return dialect.FailModel
	case "validation":
		return kindOfValidation(message)
	case "requestentitytoolarge", "requesttoolarge":
		return dialect.FailTooLarge
	default:
		return dialect.FailUnknown
	}
}

// kindOfValidation tells apart what ValidationException is for: nothing but its text does.
func kindOfValidation(message string) dialect.FailureKind {
	has := func(list ...string) bool {
		for _, s := range list {
			if strings.Contains(message, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has("too long", "too many input tokens", "context length", "context window", "context limit",
		"input tokens exceeded", "exceeds the maximum number of tokens", "prompt tokens"):
		return dialect.FailContext
	case has("model identifier", "on-demand throughput", "inference profile", "model is not supported",
		"doesn't support the model", "end of its life", "model id"):
		return dialect.FailModel
	case has("content filter", "content policy", "guardrail", "usage policy"):
		return dialect.FailContent
	default:
		return dialect.FailRequest
	}
}

func kindOfStatus(status int) dialect.FailureKind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return dialect.FailAuth
	case status == http.StatusNotFound:
		return dialect.FailModel
	case status == http.StatusRequestEntityTooLarge:
		return dialect.FailTooLarge
	case status == http.StatusTooManyRequests:
		return dialect.FailRate
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return dialect.FailTimeout
	case status == http.StatusServiceUnavailable:
		return dialect.FailOverloaded
	case status == http.StatusFailedDependency, status >= http.StatusInternalServerError:
		return dialect.FailServer
	case status >= http.StatusBadRequest:
		return dialect.FailRequest
	default:
		return dialect.FailUnknown
	}
}
