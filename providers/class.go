package providers

import "time"

// Class is a kind of failure, by what is to be done about it.
type Class uint8

// The classes.
const (
	// ClassConnect: nothing was sent: refused, no such host, no TLS.
	ClassConnect Class = iota + 1
	// ClassTimeout: the first byte was not there in time; or the service said so (408, 504).
	ClassTimeout
	// ClassRateLimited: too many requests or tokens just now (429).
	ClassRateLimited
	// ClassQuota: the account is out of money or of what it bought.
	ClassQuota
	// ClassOverloaded: the service is out of capacity (503, 529).
	ClassOverloaded
	// ClassServer: the service failed (5xx), its connection broke after the request was sent,
	// or its answer can't be read.
	ClassServer
	// ClassContext: the prompt is longer than the model's context.
	ClassContext
	// ClassContent: refused by the provider's content policy.
	ClassContent
	// ClassAuth: the gateway's credentials are missing, wrong, or not allowed this.
	ClassAuth
	// ClassModel: the provider has no such model.
	ClassModel
	// ClassRequest: the request is wrong, and will be elsewhere.
	ClassRequest
	// ClassUnsupported: the request can't be carried over to the provider's API. Nothing was sent.
	ClassUnsupported
)

// String returns the class's name, as metrics have it.
func (c Class) String() string {
	names := [...]string{
		"none", "connect", "timeout", "rate_limited", "quota", "overloaded", "server",
		"context", "content", "auth", "model", "request", "unsupported",
	}
	if int(c) >= len(names) {
		return "unknown"
	}
	return names[c]
}

// FallsBack reports whether another candidate may be tried, as long as nothing has
// reached the client. After a refusal for content it must not: that would be shopping for
// a provider that agrees. A failure of credentials is the operator's to repair, and is to
// be seen. A request that is wrong is wrong everywhere.
func (c Class) FallsBack() bool {
	switch c {
	case ClassConnect, ClassTimeout, ClassRateLimited, ClassQuota, ClassOverloaded, ClassServer,
		ClassContext, ClassModel, ClassUnsupported:
		return true
	case ClassContent, ClassAuth, ClassRequest:
		return false
	default:
		return false
	}
}

// Failure is what an answer with a status of 400 or more means. Its body has a method
// Failure that returns it.
type Failure struct {
	Class Class
	// Status is the provider's, which the client may see another of.
	Status int
	// RetryAfter is how long the provider is left alone from now on, within bounds; 0 if it isn't.
	RetryAfter time.Duration
}

// Error is why there is no answer. RoundTrip fails with no other.
type Error struct {
	Provider, Model string
	Class           Class
	// Err is the cause. It is safe for logs: no part of a prompt, credential or answer is in it.
	Err error
	// Message is safe for clients, "" for nothing to say: for ClassUnsupported it says what
	// of the request is not possible.
	Message string
}

// Error implements error. It is safe for logs.
func (e *Error) Error() string {
	s := "providers: " + e.Provider
	if e.Model != "" {
		s += "/" + e.Model
	}
	s += ": " + e.Class.String()
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
