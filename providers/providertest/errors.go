package providertest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// object is JSON that is made by hand.
type object = map[string]any

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of what is made here: a bug
	}
	return b
}

// problem is why a request has no answer.
type problem struct {
	fault Fault
	// status is another one than the fault's.
	status int
	// text, code and param are the service's words; "" for those of the fault.
	text, code, param string
	// absent credentials are told otherwise than wrong ones.
	absent bool
	after  time.Duration
	// checked: the request is wrong, which no script has asked for.
	checked bool
}

const page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n" +
	"</body>\r\n</html>\r\n"

// fail answers with an error.
func (x *exchange) fail(p *problem) {
	status, body := x.failure(p)
	h := x.w.Header()
	contentType := "application/json"
	if p.fault == BadGateway {
		contentType = "text/html"
	}
	if p.fault == Overloaded && x.dialect == Anthropic {
		h.Set("X-Should-Retry", "true")
	}
	h.Set("Content-Type", contentType)
	x.retryAfter(h, p.after)
	x.change(func() {
		x.r.Status = status
		if p.checked {
			x.r.Problem = p.text
		}
	})
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // the client may have left
}

// failure is status and body of an error in the dialect.
func (x *exchange) failure(p *problem) (status int, body []byte) {
	if p.fault == BadGateway {
		return http.StatusBadGateway, []byte(page)
	}
	switch x.dialect {
	case Anthropic:
		status, body = x.anthropicFailure(p)
	case Gemini:
		status, body = x.geminiFailure(p)
	case AzureOpenAI:
		status, body = x.azureFailure(p)
	default:
		status, body = x.openAIFailure(p)
	}
	if p.status != 0 {
		status = p.status
	}
	return status, body
}

// words are what an error of OpenAI says.
type openAIWords struct {
	status           int
	kind, code, text string
	param            string
}

func (x *exchange) openAIWords(p *problem) openAIWords {
	const invalid = "invalid_request_error"
	model := x.r.Model
	switch p.fault {
	case RateLimited:
		return openAIWords{429, "tokens", "rate_limit_exceeded", "Rate limit reached for " + model + " on tokens per min (TPM). " +
			"Please try again in " + p.after.String() + ".", ""}
	case QuotaExhausted:
		const quota = "insufficient_quota"
		return openAIWords{429, quota, quota, "You exceeded your current quota, please check your plan and billing details.", ""}
	case Overloaded:
		return openAIWords{503, "server_error", "", "The engine is currently overloaded, please try again later.", ""}
	case GatewayTimeout:
		return openAIWords{504, "server_error", "", "The request timed out.", ""}
	case ContextTooLong:
		return openAIWords{400, invalid, "context_length_exceeded", "This model's maximum context length is 128000 tokens. " +
			"However, your messages resulted in 130000 tokens. Please reduce the length of the messages.", "messages"}
	case ContentFiltered:
		return openAIWords{400, invalid, "content_policy_violation", "Your request was rejected as a result of our safety system.", ""}
	case BadKey:
		if p.absent {
			return openAIWords{401, invalid, "", "You didn't provide an API key. Provide it in an Authorization header using Bearer auth.", ""}
		}
		return openAIWords{401, invalid, "invalid_api_key", "Incorrect API key provided.", ""}
	case Forbidden:
		return openAIWords{403, invalid, "model_not_found", "Project `proj_0kv` does not have access to model `" + model + "`.", ""}
	case UnknownModel:
		return openAIWords{404, invalid, "model_not_found", "The model `" + model + "` does not exist or you do not have access to it.", ""}
	case TooLarge:
		return openAIWords{413, invalid, "", "The request is too large.", ""}
	case BadRequest:
		return openAIWords{400, invalid, "", "The request is invalid.", ""}
	default:
		return openAIWords{500, "server_error", "", "The server had an error while processing your request. Sorry about that!", ""}
	}
}

// or is the first that is not empty.
func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// null is nothing for an empty text.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (x *exchange) openAIFailure(p *problem) (int, []byte) {
	w := x.openAIWords(p)
	return w.status, encode(object{"error": object{
		"message": or(p.text, w.text), "type": w.kind, "param": null(or(p.param, w.param)), "code": null(or(p.code, w.code)),
	}})
}

// azureFailure differs where the service's front, not the model, refuses.
func (x *exchange) azureFailure(p *problem) (int, []byte) {
	short := func(status int, code, text string) (int, []byte) {
		return status, encode(object{"error": object{"code": or(p.code, code), "message": or(p.text, text)}})
	}
	switch p.fault {
	case RateLimited:
		seconds := strconv.FormatInt(max(int64(p.after/time.Second), 1), 10)
		return short(429, "429", "Requests to the ChatCompletions_Create Operation have exceeded the token rate limit "+
			"of your current pricing tier. Please retry after "+seconds+" seconds.")
	case BadKey:
		return short(401, "401", "Access denied due to invalid subscription key or wrong API endpoint.")
	case UnknownModel:
		return short(404, "DeploymentNotFound", "The API deployment for this resource does not exist.")
	case ContentFiltered:
		return 400, encode(object{"error": object{
			"message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
			"type":    nil, "param": "prompt", "code": "content_filter", "status": 400,
			"innererror": object{
				"code": "ResponsibleAIPolicyViolation",
				"content_filter_result": object{
					"violence": object{"filtered": true, "severity": "high"},
				},
			},
		}})
	default:
		return x.openAIFailure(p)
	}
}

// geminiFailure is a list with one error in Google's form.
func (x *exchange) geminiFailure(p *problem) (int, []byte) {
	var status int
	var state, text string
	switch p.fault {
	case RateLimited:
		status, state, text = 429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."
	case QuotaExhausted:
		status, state, text = 429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."
	case Overloaded:
		status, state, text = 503, "UNAVAILABLE", "The model is overloaded. Please try again later."
	case GatewayTimeout:
		status, state, text = 504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."
	case ContextTooLong:
		status, state, text = 400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
	case ContentFiltered:
		status, state, text = 400, "INVALID_ARGUMENT", "The prompt was blocked for safety: PROHIBITED_CONTENT."
	case BadKey:
		status, state, text = 400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."
		if p.absent {
			status, state, text = 401, "UNAUTHENTICATED", "Missing or invalid Authorization header."
		}
	case Forbidden:
		status, state, text = 403, "PERMISSION_DENIED", "Permission denied on resource."
	case UnknownModel:
		status, state, text = 404, "NOT_FOUND", "models/"+x.r.Model+" is not found for API version v1main."
	case TooLarge:
		status, state, text = 413, "INVALID_ARGUMENT", "Request payload size exceeds the limit."
	case BadRequest:
		status, state, text = 400, "INVALID_ARGUMENT", "Request contains an invalid argument."
	default:
		status, state, text = 500, "INTERNAL", "An internal error has occurred."
	}
	e := object{"code": status, "message": or(p.text, text), "status": state}
	if p.after > 0 {
		seconds := strconv.FormatInt(int64((p.after+time.Second-1)/time.Second), 10)
		e["details"] = []any{object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds + "s"}}
	}
	return status, encode([]any{object{"error": e}})
}

func (x *exchange) anthropicFailure(p *problem) (int, []byte) {
	status, kind, text := anthropicWords(p, x.r.Model)
	return status, encode(object{
		"type": "error", "error": object{"type": kind, "message": or(p.text, text)}, "request_id": x.w.Header().Get(x.idHeader()),
	})
}

func anthropicWords(p *problem, model string) (status int, kind, text string) {
	const invalid = "invalid_request_error"
	switch p.fault {
	case RateLimited:
		return 429, "rate_limit_error", "This request would exceed your organization's rate limit of input tokens per minute."
	case QuotaExhausted:
		return 400, invalid, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to purchase credits."
	case Overloaded:
		return 529, "overloaded_error", "Overloaded"
	case GatewayTimeout:
		return 504, "timeout_error", "Request timed out"
	case ContextTooLong:
		return 400, invalid, "prompt is too long: 210000 tokens > 200000 maximum"
	case ContentFiltered:
		return 400, invalid, "Output blocked by content filtering policy"
	case BadKey:
		if p.absent {
			return 401, "authentication_error", "x-api-key header is required"
		}
		return 401, "authentication_error", "invalid x-api-key"
	case Forbidden:
		return 403, "permission_error", "Your API key does not have permission to use the specified resource."
	case UnknownModel:
		return 404, "not_found_error", "model: " + model
	case TooLarge:
		return 413, "request_too_large", "Request exceeds the maximum size"
	case BadRequest:
		return 400, invalid, "The request is invalid."
	default:
		return 500, "api_error", "Internal server error"
	}
}
