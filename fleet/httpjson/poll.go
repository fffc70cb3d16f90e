package httpjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/fleet"
)

// ErrTooLarge: the answer is longer than Discoverer.MaxBytes. Seen by operators in
// Fleet.Err: the URL is probably wrong.
var ErrTooLarge = errors.New("httpjson: too large")

// StatusError is an answer with another status than 200. Seen by operators in
// Fleet.Err.
type StatusError struct {
	// Code is the status.
	Code int
}

// Error names the status and what to do.
func (e *StatusError) Error() string {
	advice := "look into the server's log"
	switch e.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		advice = "check the credentials that Prepare adds"
	case http.StatusNotFound:
		advice = "check the URL's path"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		advice = "write the address that it redirects to, or give a Client with CheckRedirect"
	}
	return fmt.Sprintf("httpjson: status %d %s; %s", e.Code, http.StatusText(e.Code), advice)
}

// poller is one call of Discover.
type poller struct {
	d      *Discoverer
	client *http.Client
	set    func([]fleet.Worker) error
	shown  string

	last http.Header // of the last good answer
	etag string      // which its body had
	sum  uint64
	size int
}

// poll asks once, and sets the workers if they are news.
func (p *poller) poll(ctx context.Context) error {
	body, header, err := p.ask(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", p.shown, err)
	}
	if body == nil { // 304
		p.last = header
		return nil
	}
	if sum := xxhash.Sum64(body); p.last == nil || sum != p.sum || len(body) != p.size {
		if err := p.take(body); err != nil {
			return fmt.Errorf("%s: %w", p.shown, err)
		}
		p.sum, p.size = sum, len(body)
	}
	p.last, p.etag = header, header.Get("ETag")
	return nil
}

func (p *poller) take(body []byte) error {
	decode := p.d.Decode
	if decode == nil {
		decode = Decode
	}
	workers, err := decode(body)
	if err != nil {
		return err
	}
	// Before set, so that what is wrong is first heard of with its place.
	if err := fleet.Validate(workers); err != nil {
		return placed(err)
	}
	return placed(p.set(workers))
}

// ask returns the body, nil if it is the last one.
func (p *poller) ask(ctx context.Context) ([]byte, http.Header, error) {
	timeout := or(p.d.Timeout, defaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v (Discoverer.Timeout): %w",
		timeout, context.DeadlineExceeded))
	defer cancel()
	body, header, err := p.exchange(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return body, header, err
}

func (p *poller) exchange(ctx context.Context) (body []byte, header http.Header, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.d.URL, http.NoBody)
	if err != nil {
		return nil, nil, bare(err)
	}
	r.Header.Set("Accept", "application/json")
	if p.etag != "" {
		r.Header.Set("If-None-Match", p.etag)
	}
	if p.d.Prepare != nil {
		if err = p.d.Prepare(r, p.last); err != nil {
			return nil, nil, fmt.Errorf("httpjson: Prepare: %w", err)
		}
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, nil, bare(err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode == http.StatusNotModified && p.etag != "" {
		return nil, resp.Header, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, &StatusError{Code: resp.StatusCode}
	}
	limit := p.d.MaxBytes
	if limit == 0 {
		limit = defaultMaxBytes
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("httpjson: the answer is cut: %w", bare(err))
	}
	if int64(len(body)) > limit {
		return nil, nil, fmt.Errorf("%w: the answer is longer than %d bytes; correct the URL or raise MaxBytes", ErrTooLarge, limit)
	}
	return body, resp.Header, nil
}

// bare takes off what quotes the whole URL, with its query, or what the server
// has sent: that may be the secret that was sent to it.
func bare(err error) error {
	var ue *url.Error
	for errors.As(err, &ue) {
		err = ue.Err
	}
	var mime textproto.ProtocolError
	if errors.As(err, &mime) {
		return &cutError{"the answer's header is malformed", err}
	}
	// net/http puts what it quotes at the end.
	if text, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return &cutError{strings.TrimRight(text, " :") + " (not shown, it may be secret)", err}
	}
	return err
}

// cutError is an error with less text.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }
func (e *cutError) Unwrap() error { return e.err }
