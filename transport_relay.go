package kvsteer

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
)

// headerRequestID names a request to engines. Both legs of a relayed one have the
// same.
const headerRequestID = "X-Request-ID"

// maxPrefillAnswer bounds the answer to a prefill: one token, and where the KV
// cache is, some bytes for each block.
const maxPrefillAnswer = 16 << 20

// prefill has the prompt computed by another worker, if the Selection says so. It
// returns the request to send on.
func (t *Transport) prefill(ctx context.Context, req *http.Request, sel *Selection) (*http.Request, error) {
	target, body, ok := sel.Prefill()
	if !ok {
		return req, nil
	}
	if req.Header.Get(headerRequestID) == "" {
		req = req.Clone(req.Context())
		req.Header.Set(headerRequestID, rand.Text())
	}
	member := sel.computes()
	out := readdress(req.WithContext(ctx), target.URL)
	out.Header.Del("Expect")
	repeatOnceMore(out.Header)
	out.Header.Set("Accept-Encoding", "identity")
	out.Header.Set("Accept", contentJSON)
	maps.Copy(out.Header, target.Header)
	setBody(out, body)
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		err = because(ctx, err)
		blame(req, member, err)
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 == 4 && !retryable(resp.StatusCode) {
		// The request is at fault. The worker that answers is going to say so in the
		// form that the client expects.
		sel.Alone()
		return req, nil
	}
	if resp.StatusCode != http.StatusOK {
		err := &statusError{status: resp.StatusCode}
		if retryable(resp.StatusCode) && resp.StatusCode != http.StatusTooManyRequests {
			blame(req, member, err)
		}
		return nil, err
	}
	answer, err := appendAll(nil, io.LimitReader(resp.Body, maxPrefillAnswer+1))
	switch {
	case err != nil:
		err = because(ctx, err)
		blame(req, member, err)
		return nil, err
	case len(answer) > maxPrefillAnswer:
		return nil, errors.New("kvsteer: the answer to a prefill is too long")
	}
	member.ReportSuccess()
	return req, sel.Prefilled(answer)
}
