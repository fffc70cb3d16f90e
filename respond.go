package kvsteer

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// WriteError answers an HTTP request with err, in the dialect of the request's
// path (OpenAI's or Anthropic's error object), with the status of its code and a
// Retry-After header, in whole seconds rounded up, where one applies, and one more in
// milliseconds (Retry-After-Ms), which OpenAI's clients prefer. A limit that refused is
// told by the headers that clients of the path know. Causes are not shown; they may name
// internal addresses. A request whose deadline passed is answered as 504. An err that holds
// no *Error is answered as 502 without its text.
//
// Its signature is that of httputil.ReverseProxy's ErrorHandler.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: CodeUpstream}
	}
	message := e.Message
	if message == "" {
		message = e.Code.String()
	}
	status := e.HTTPStatus()
	if e.Code == CodeCanceled && errors.Is(err, context.DeadlineExceeded) {
		// The client need not be gone: somebody on the way bounded the request.
		status, message = http.StatusGatewayTimeout, "the request's deadline passed before there was an answer"
	}
	if e.RetryAfter > 0 {
		secs := int64(math.Ceil(e.RetryAfter.Seconds()))
		w.Header().Set("Retry-After", strconv.FormatInt(secs, 10))
		ms := int64((e.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(ms, 10))
	}
	if no := e.limitOf(); no != nil {
		api, _ := prompt.APIForPath(strings.TrimSuffix(r.URL.Path, "/"))
		h := refusedBy(no)
		h.set(w.Header(), api, time.Now())
	}
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(status)
	// The client may be gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(errorBody(r.URL.Path, e.Code, message))
}

type openAIError struct {
	Error openAIErrorDetail `json:"error"`
}

type openAIErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

type anthropicError struct {
	Type  string               `json:"type"`
	Error anthropicErrorDetail `json:"error"`
}

type anthropicErrorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func errorBody(path string, code Code, message string) any {
	info := code.info()
	if api, ok := prompt.APIForPath(strings.TrimSuffix(path, "/")); ok && api == prompt.Messages {
		return anthropicError{Type: "error", Error: anthropicErrorDetail{Type: info.kind, Message: message}}
	}
	return openAIError{Error: openAIErrorDetail{
		Message: message, Type: info.kind, Code: strings.ReplaceAll(info.name, " ", "_"),
	}}
}
