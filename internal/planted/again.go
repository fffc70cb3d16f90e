package planted

import (
	"errors"
	"io"
	"net/http"
)

// Again is what AnswersTwice does: where an answer breaks off, it sends the request once more
// and goes on with that answer.
func Again(first io.ReadCloser, req *http.Request, base http.RoundTripper) io.ReadCloser {
	return &again{ReadCloser: first, req: req, base: base}
}

type again struct {
	io.ReadCloser

	req  *http.Request
	base http.RoundTripper
	done bool
}

func (a *again) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) || a.done || a.req.GetBody == nil {
		return n, err
	}
	a.done = true
	body, bodyErr := a.req.GetBody()
	if bodyErr != nil {
		return n, err
	}
	a.req.Body = body
	resp, again := a.base.RoundTrip(a.req) //nolint:bodyclose // it is what is read from here on
	if again != nil {
		return n, err
	}
	_ = a.ReadCloser.Close() // it has failed
	a.ReadCloser = resp.Body
	return n, nil
}
