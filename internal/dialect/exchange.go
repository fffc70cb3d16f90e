package dialect

import (
	"errors"
	"net/http"
	"strings"
)

// Options are the gateway's part in an exchange.
type Options struct {
	// Model is the service's name for the model; "" sends the client's.
	Model string
	// Asked is the model's name in answers; "" is the one that the client's body has.
	Asked string
	// KeepModel leaves the service's name in answers.
	KeepModel bool
	// Request goes to the service's codec.
	Request RequestOptions
	// Created is the time of answers that don't say it, in Unix seconds.
	Created int64
	// ID is for answers that don't say it, such as Bedrock's: unique, of letters and digits.
	ID string
	// MaxEvent bounds an event of a stream, in bytes; 0 is 8 MiB. A longer one breaks the
	// stream off.
	MaxEvent int
}

// Exchange is one request on its way from a client's API to a service's, and the answer on
// its way back. What it says of the request is read-only; the methods for the answer may be
// called concurrently.
type Exchange struct {
	client   Client
	service  Service
	stream   bool
	body     []byte
	warnings []Warning
	answer   AnswerOptions
	maxEvent int
}

// NewExchange translates a client's body. It fails with a *[BodyError] (the client's body is
// wrong) or an *[UnsupportedError] (the service has nothing like it); nothing is sent then.
func NewExchange(c Client, s Service, body []byte, o Options) (*Exchange, error) {
	x := &Exchange{client: c, service: s, maxEvent: o.MaxEvent}
	r, err := c.DecodeRequest(body)
	if err != nil {
		return nil, x.name(err)
	}
	x.stream = r.Stream
	x.answer = AnswerOptions{Model: o.Asked, IncludeUsage: r.IncludeUsage, Created: o.Created, ID: o.ID}
	if c.Name() == responsesName { // the others need not hold a long body while they answer
		x.answer.Body = body
	}
	if o.Asked == "" {
		x.answer.Model = r.Model
	}
	if o.KeepModel {
		x.answer.Model = ""
	}
	if o.Model != "" {
		r.Model = o.Model
	}
	for _, w := range r.Warnings {
		x.note(w)
	}
	x.body, err = s.EncodeRequest(r, &o.Request, x.note)
	if err != nil {
		return nil, x.name(err)
	}
	return x, nil
}

// maxWarnings bounds what a body full of oddities can make us list.
const maxWarnings = 64

func (x *Exchange) note(w Warning) {
	if len(x.warnings) < maxWarnings {
		w.Field = plainField(w.Field)
		x.warnings = append(x.warnings, w)
	}
}

// name says which service it was that has nothing like it: a client's codec can't know.
func (x *Exchange) name(err error) error {
	var u *UnsupportedError
	var b *BodyError
	switch {
	case errors.As(err, &u):
		u.Field = plainField(u.Field)
		if u.Service == "" {
			u.Service = x.service.Name()
		}
	case errors.As(err, &b):
		b.Field = plainField(b.Field)
	default:
	}
	return err
}

// maxField bounds the path of a field, in bytes.
const maxField = 128

// plainField makes a path fit for logs: the names in it are the client's to choose.
func plainField(field string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_.-[]", r):
			return r
		default:
			return '?'
		}
	}, clip(field, maxField))
}

// Body is what to send to the service.
func (x *Exchange) Body() []byte { return x.body }

// Stream reports whether the client wants the answer streamed.
func (x *Exchange) Stream() bool { return x.stream }

// Warnings are the fields that the service will not see; at most 64.
func (x *Exchange) Warnings() []Warning { return x.warnings }

// Answer translates the body of a whole answer. It fails with a *[BodyError].
func (x *Exchange) Answer(body []byte) ([]byte, error) {
	a, err := x.service.DecodeAnswer(body)
	if err != nil {
		return nil, err
	}
	return x.client.EncodeAnswer(nil, a, &x.answer), nil
}

// AnswerStream is Answer for a client that wants a stream of a service that gave none.
func (x *Exchange) AnswerStream(body []byte) ([]byte, error) {
	a, err := x.service.DecodeAnswer(body)
	if err != nil {
		return nil, err
	}
	var out []byte
	e := x.client.NewStreamEncoder(&x.answer)
	a.Events(func(ev *Event) { out = e.Append(out, ev) })
	return out, nil
}

// Failure translates an error: what it is, and the status and the body that tell the client.
func (x *Exchange) Failure(status int, h http.Header, body []byte) (*Failure, int, []byte) {
	f := x.service.DecodeFailure(status, h, body)
	code, text := x.client.EncodeFailure(f)
	return f, code, text
}
