package prompt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// caller asks engines over HTTP.
type caller struct {
	client   *http.Client
	health   *health
	maxReply int64
}

// post sends a JSON body to an endpoint and returns the reply's JSON. Its error
// is a ReasonError. read judges the reply, so that nonsense counts as a failure.
func (c *caller) post(ctx context.Context, e *Engine, at endpoint, path string, body []byte, read func(jsonscan.Value) error) error {
	if err := c.health.begin(e, at); err != nil {
		return err
	}
	how := outcomeNeutral
	defer func() { c.health.end(e, at, how) }()
	reply, how, err := c.exchange(ctx, e, path, body)
	if err != nil {
		return err
	}
	v, err := jsonscan.ParseValue(reply, 0)
	if err == nil {
		err = read(v)
	}
	if err != nil {
		how = outcomeFailed
		var why ReasonError
		if errors.As(err, &why) && why != errReply {
			how = outcomeOK // a fine reply that can't be used
			return err
		}
		return errReply
	}
	return nil
}

func (c *caller) exchange(ctx context.Context, e *Engine, path string, body []byte) ([]byte, outcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, outcomeFailed, errUnreachable // the error would hold the URL
	}
	maps.Copy(req.Header, e.Header)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		how, why := broken(ctx)
		return nil, how, why
	}
	defer func() { _ = resp.Body.Close() }() // nothing to do about it
	reply, err := io.ReadAll(io.LimitReader(resp.Body, c.maxReply+1))
	switch {
	case err != nil:
		how, why := broken(ctx)
		return nil, how, why
	case int64(len(reply)) > c.maxReply:
		return nil, outcomeFailed, errReplySize
	case resp.StatusCode == http.StatusOK:
		return reply, outcomeOK, nil
	default:
		how, why := judge(resp.StatusCode, reply)
		return nil, how, why
	}
}

// broken explains a call that brought no reply.
func broken(ctx context.Context) (outcome, ReasonError) {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return outcomeFailed, errDeadline
	case ctx.Err() != nil:
		return outcomeNeutral, errCanceled
	default:
		return outcomeFailed, errUnreachable
	}
}

// judge explains a status other than 200.
func judge(status int, reply []byte) (outcome, ReasonError) {
	switch {
	case status == http.StatusNotFound && namesModel(reply):
		return outcomeRefused, errRefused
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented,
		status == http.StatusUnauthorized, status == http.StatusForbidden:
		return outcomeAbsent, errAbsent
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError, status < http.StatusBadRequest:
		return outcomeFailed, errEngineFailed
	default:
		return outcomeRefused, errRefused
	}
}

// namesModel tells "no such model" from "no such path": vLLM answers 404 to both,
// the former with this error type.
func namesModel(reply []byte) bool {
	v, err := jsonscan.ParseValue(reply, 0)
	if err != nil {
		return false
	}
	if e := v.Get("error"); e.Exists() {
		v = e
	}
	return v.Get("type").Is("NotFoundError")
}
