package dialect

// EncodeFailure returns the error as OpenAI has it: its two APIs have one form.
func (responses) EncodeFailure(f *Failure) (status int, body []byte) { return Chat().EncodeFailure(f) }

// responsesFailure is the code and the message of an error within a stream, in its public
// form.
func responsesFailure(f *Failure) (code, message string) {
	code, message = "server_error", "the service failed"
	switch f.Kind {
	case FailRate:
		code, message = "rate_limit_exceeded", "the service's rate limit is exceeded"
	case FailQuota:
		code, message = "insufficient_quota", "the service's quota is used up"
	case FailContext:
		code, message = "context_length_exceeded", "the input exceeds the context window"
	case FailContent:
		code, message = "content_filter", "the content policy forbids it"
	case FailRequest, FailTooLarge:
		code, message = "invalid_prompt", "the request is wrong"
	case FailModel:
		code, message = "model_not_found", "the service doesn't have the model"
	case FailOverloaded:
		code, message = "server_is_overloaded", "the service is overloaded"
	case FailTimeout:
		message = "the service took too long"
	case FailUnknown, FailServer, FailAuth:
	}
	if f.Message != "" {
		message = f.Message
	}
	return code, message
}
