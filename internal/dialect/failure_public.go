package dialect

import "net/http"

// What clients are told in place of what a service says of the gateway's account: it may
// name the account's project and upstream models, quote a key, or speak of bills.
const (
	SayAuth  = "the provider can't be used at the moment"
	SayRate  = "the provider's rate limit is reached; try again later"
	SayQuota = "the provider has no capacity left for this gateway; try again later"
	SayModel = "the provider doesn't have this model"
)

// Public is the failure as clients may see it, be it an answer or in a stream: those that
// concern the gateway's account have words of our own and a status that doesn't blame the
// client. The others are as they are. A nil f is a service that said nothing.
func (f *Failure) Public() *Failure {
	if f == nil {
		return &Failure{Kind: FailServer}
	}
	switch f.Kind {
	case FailAuth:
		return &Failure{Kind: FailServer, Status: http.StatusBadGateway, Message: SayAuth}
	case FailRate:
		return &Failure{Kind: FailRate, Status: http.StatusTooManyRequests, Message: SayRate}
	case FailQuota:
		return &Failure{Kind: FailOverloaded, Status: http.StatusServiceUnavailable, Message: SayQuota}
	case FailModel:
		return &Failure{Kind: FailModel, Status: http.StatusNotFound, Message: SayModel}
	case FailUnknown, FailRequest, FailTooLarge, FailContext, FailContent, FailOverloaded, FailServer, FailTimeout:
	}
	return f
}
