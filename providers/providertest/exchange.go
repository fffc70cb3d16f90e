package providertest

import (
	"context"
	"net/http"
	"time"
)

// exchange is one request being answered.
type exchange struct {
	*Server

	w   http.ResponseWriter
	ctx context.Context //nolint:containedctx // it is of the request, which is all that this is
	r   *Request

	endpoint endpoint
	rest     string // of the path, behind the endpoint's
}

// play answers a request that is in order as the script says.
func (x *exchange) play() {
	if x.endpoint == countTokens {
		x.json(object{"input_tokens": x.r.InputTokens})
		return
	}
	a := x.next(x.r)
	if !x.wait(x.ctx, a.Delay) {
		panic(http.ErrAbortHandler)
	}
	h := x.w.Header()
	for key, values := range a.Header {
		h[http.CanonicalHeaderKey(key)] = values
	}
	switch {
	case a.Fault == Hang:
		x.hang(x.ctx)
		panic(http.ErrAbortHandler)
	case a.Fault == Hangup:
		panic(http.ErrAbortHandler)
	case a.Fault != NoFault:
		x.fail(&problem{fault: a.Fault, after: a.RetryAfter})
		return
	}
	x.retryAfter(h, a.RetryAfter)
	if a.Status != 0 {
		x.change(func() { x.r.Status = a.Status })
		x.w.WriteHeader(a.Status)
		_, _ = x.w.Write(a.Body) // the client may have left
		return
	}
	x.complete(&a)
	f := x.form()
	if x.r.Stream && x.endpoint != embeddings {
		x.stream(&a, f.events(&a))
		return
	}
	x.json(f.whole(&a))
}

// form is how an endpoint writes answers.
type form interface {
	// whole is the body of an answer that isn't streamed.
	whole(a *Answer) object
	// events are those of one that is, with the one that ends it last.
	events(a *Answer) []event
}

// event is one of a stream: name "" for none.
type event struct {
	name string
	data []byte
}

func (x *exchange) form() form {
	switch x.endpoint {
	case completions:
		return &textForm{x}
	case responses:
		return &responsesForm{exchange: x}
	case embeddings:
		return &embeddingsForm{x}
	case messages:
		return &messagesForm{x}
	default:
		return &chatForm{x}
	}
}

// complete fills in what the script left to the service.
func (x *exchange) complete(a *Answer) {
	if a.Model == "" {
		a.Model = x.r.Model
	}
	calls := make([]Call, len(a.Calls))
	for i, c := range a.Calls {
		if c.ID == "" {
			prefix := "call_"
			if x.dialect == Anthropic {
				prefix = "toolu_"
			}
			c.ID = x.id(prefix)
		}
		calls[i] = c
	}
	a.Calls = calls
	u := &a.Usage
	if u.Input == 0 {
		u.Input = max(x.r.InputTokens, u.CacheRead+u.CacheWrite)
	}
	if u.Reasoning == 0 {
		u.Reasoning = words(a.Thinking)
	}
	if u.Output == 0 {
		u.Output = u.Reasoning + words(a.Text) + words(a.Refusal)
		for _, c := range a.Calls {
			u.Output += 1 + words(c.Arguments)
		}
		u.Output = max(u.Output, 1)
	}
}

func (x *exchange) json(body any) {
	x.change(func() { x.r.Status = http.StatusOK })
	x.w.Header().Set("Content-Type", "application/json")
	_, _ = x.w.Write(encode(body)) // the client may have left
}

// created is when an answer was, in Unix seconds.
func (x *exchange) created() int64 { return x.r.At.Unix() }

// stamp is it as Anthropic writes it.
func (x *exchange) stamp() string { return x.r.At.UTC().Format(time.RFC3339) }
