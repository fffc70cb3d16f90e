package httpjson

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

const (
	defaultInterval   = 5 * time.Second
	defaultTimeout    = 10 * time.Second
	defaultMaxBackoff = 30 * time.Second
	defaultMaxBytes   = 10 << 20
	firstBackoff      = time.Second
)

// Discoverer asks a URL for the workers. Only URL is required. Its fields must not
// be changed once it is in use. Several Fleets may share it, and then share its
// backoff.
type Discoverer struct {
	// URL to GET, http or https.
	URL string
	// Decode makes the workers of an answer's body. An error refuses the answer.
	// Default: the function [Decode].
	Decode func(body []byte) ([]fleet.Worker, error)
	// Prepare, if set, may change each request before it is sent: add credentials,
	// ask for a blocking query. last is the header of the last good answer within
	// this call of Discover, nil before it. An error is reported like one of the
	// server.
	Prepare func(r *http.Request, last http.Header) error
	// Client sends the requests. Default: one of its own that uses no proxy. Either
	// follows no redirect, unless Client has a CheckRedirect. TLS, proxies and
	// connections are Client's affair, and its own Timeout holds too.
	Client *http.Client
	// Interval is the pause after an answer, give or take a tenth. Default 5 s.
	Interval time.Duration
	// Timeout bounds a request up to the last byte of the answer; it must be longer
	// than a blocking query. Default 10 s.
	Timeout time.Duration
	// MaxBackoff bounds the pause before a request that follows failures: it
	// doubles from a second, and is a random part of that. A Fleet adds up to 5 s
	// of its own. Default 30 s.
	MaxBackoff time.Duration
	// MaxBytes bounds an answer, as it is after decompression. Default 10 MiB.
	MaxBytes int64

	failures atomic.Int32 // in a row
}

var _ fleet.Discoverer = (*Discoverer)(nil)

// Validate reports a URL that can't be asked and values below zero; fleet.New
// asks it.
func (d *Discoverer) Validate() error {
	if err := d.validateURL(); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, def time.Duration
	}{
		{"Interval", d.Interval, defaultInterval},
		{"Timeout", d.Timeout, defaultTimeout},
		{"MaxBackoff", d.MaxBackoff, defaultMaxBackoff},
	} {
		if f.value < 0 {
			return fmt.Errorf("httpjson: Discoverer.%s is %v; give a positive duration, or 0 for %v", f.name, f.value, f.def)
		}
	}
	if d.MaxBytes < 0 {
		return fmt.Errorf("httpjson: Discoverer.MaxBytes is %d; give a positive number, or 0 for %d", d.MaxBytes, defaultMaxBytes)
	}
	return nil
}

// validateURL quotes nothing of the URL, which may hold a password.
func (d *Discoverer) validateURL() error {
	if d.URL == "" {
		return errors.New("httpjson: Discoverer.URL is empty; write the address to ask for the workers")
	}
	u, err := url.Parse(d.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("httpjson: Discoverer.URL is not an address of http or https; write for example https://registry:8443/workers")
	case u.User != nil:
		return errors.New("httpjson: Discoverer.URL contains a user name or password; add credentials to requests with Prepare")
	default:
		return nil
	}
}

// Discover asks for the workers until ctx ends. It returns the error of the first
// request that fails, for the Fleet to report, and is then called again.
func (d *Discoverer) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	client, release := d.client()
	defer release()
	if !sleep(ctx, d.backoff()) {
		return nil
	}
	interval := or(d.Interval, defaultInterval)
	p := poller{d: d, client: client, set: set, shown: shown(d.URL)}
	for {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			d.failures.Add(1)
			return err
		}
		d.failures.Store(0)
		if !sleep(ctx, around(interval)) {
			return nil
		}
	}
}

// backoff is how long to wait for the next request after the failures there were.
func (d *Discoverer) backoff() time.Duration {
	failures := d.failures.Load()
	if failures == 0 {
		return 0
	}
	longest := or(d.MaxBackoff, defaultMaxBackoff)
	pause := firstBackoff
	for ; failures > 1 && pause < longest; failures-- {
		pause *= 2
	}
	return rand.N(min(pause, longest) + 1) //nolint:gosec // spreads requests, guards nothing
}

// around is d, give or take a tenth.
func around(d time.Duration) time.Duration {
	const part = 10
	return d - d/part + rand.N(2*d/part+1) //nolint:gosec // spreads requests, guards nothing
}

// client is the client to ask with, and a function that frees what it holds.
func (d *Discoverer) client() (client *http.Client, release func()) {
	if d.Client != nil {
		copied := *d.Client
		if copied.CheckRedirect == nil {
			copied.Transport = unredirected{or(copied.Transport, http.DefaultTransport)} //nolint:forbidigo // Client's own choice
		}
		return &copied, func() {}
	}
	const headers = 64 << 10
	transport := &http.Transport{
		Proxy:                  nil, // the address is asked that was given, whatever the environment says
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: headers,
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{Transport: unredirected{transport}}, transport.CloseIdleConnections
}

// unredirected hides where answers redirect to: http.Client follows no redirect
// without, nor does it complain of a place that makes no sense by quoting it.
type unredirected struct{ http.RoundTripper }

func (u unredirected) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.RoundTripper.RoundTrip(r)
	if resp != nil && resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest {
		resp.Header.Del("Location")
	}
	return resp, err
}

// shown is the URL without what may be secret.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// or is value, or def if that is nothing.
func or[T comparable](value, def T) T {
	var nothing T
	if value == nothing {
		return def
	}
	return value
}

// sleep reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
