package providertest

// Fault is an error of a service.
type Fault uint8

// The faults. Which status and which body they have is the dialect's.
const (
	NoFault Fault = iota
	// RateLimited: too many requests or tokens just now, 429.
	RateLimited
	// QuotaExhausted: the account's money is used up.
	QuotaExhausted
	// Overloaded: the service has too much to do: 503, 529 for Anthropic.
	Overloaded
	// ServerError: 500.
	ServerError
	// BadGateway: 502, from something in front of the service, with a page of HTML.
	BadGateway
	// GatewayTimeout: 504, Anthropic's own.
	GatewayTimeout
	// ContextTooLong: the prompt doesn't fit the model.
	ContextTooLong
	// ContentFiltered: the prompt offends the service's policy.
	ContentFiltered
	// BadKey: the credentials are wrong.
	BadKey
	// Forbidden: the credentials are not for this model.
	Forbidden
	// UnknownModel: there is none of this name.
	UnknownModel
	// BadRequest: something else is wrong with the request.
	BadRequest
	// TooLarge: the body is too long.
	TooLarge
	// Hangup: the connection is closed without an answer.
	Hangup
	// Hang: there is no answer until the client leaves or the server is closed.
	Hang
)

// Faults are all that are errors with a body.
func Faults() []Fault {
	var list []Fault
	for f := RateLimited; f < Hangup; f++ {
		list = append(list, f)
	}
	return list
}

// String names the fault.
func (f Fault) String() string {
	names := [...]string{
		"none", "rate limited", "quota exhausted", "overloaded", "server error", "bad gateway", "gateway timeout",
		"context too long", "content filtered", "bad key", "forbidden", "unknown model", "bad request", "too large",
		"hangup", "hang",
	}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}
