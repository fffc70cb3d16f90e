package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxHeader and maxDocument bound what an issuer answers, in bytes, maxKeys how many keys
	// count.
	maxHeader   = 64 << 10
	maxDocument = 1 << 20
	maxKeys     = 100
	maxRedirect = 5
)

// newClient returns the client that fetches: ours, or a copy of the user's which does
// not follow to where anybody could answer.
func (r *Resolver) newClient() *http.Client {
	var c http.Client
	if r.opts.Client != nil {
		c = *r.opts.Client
	} else {
		r.own = &http.Transport{
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: r.opts.Timeout,
			MaxResponseHeaderBytes: maxHeader,
		}
		c.Transport = r.own
	}
	if c.CheckRedirect == nil {
		c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirect {
				return errors.New("it redirects too often")
			}
			if err := checkURL(req.URL.String(), r.opts.PlainHTTP); err != nil {
				return fmt.Errorf("it redirects to what %w", err)
			}
			return nil
		}
	}
	return &c
}

// fetchKeys asks an issuer for its keys, and before that where they are.
func (r *Resolver) fetchKeys(ctx context.Context, is *Issuer) ([]jose.JSONWebKey, error) {
	address := is.KeysURL
	if address == "" {
		var about struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		if err := r.get(ctx, strings.TrimSuffix(is.URL, "/")+"/.well-known/openid-configuration", &about); err != nil {
			return nil, err
		}
		if about.Issuer != is.URL {
			return nil, fmt.Errorf("it calls itself %.200q; correct Issuer.URL, or give Issuer.KeysURL", about.Issuer)
		}
		if err := checkURL(about.KeysURL, r.opts.PlainHTTP); err != nil {
			return nil, fmt.Errorf("its jwks_uri %w", err)
		}
		address = about.KeysURL
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := r.get(ctx, address, &set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		// One that is of a kind that isn't known says nothing about the others.
		if err := json.Unmarshal(raw, &k); err == nil && usable(&k) && len(keys) < maxKeys {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("none of its %d keys can be used: RSA of 2048 bits and more, P-256, P-384, P-521 and Ed25519 can", len(set.Keys))
	}
	return keys, nil
}

func (r *Resolver) get(ctx context.Context, address string, into any) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", address, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", address, err)
	case len(body) > maxDocument:
		return fmt.Errorf("%s answers more than %d bytes", address, maxDocument)
	case json.Unmarshal(body, into) != nil:
		return fmt.Errorf("%s answers what is not the JSON that is expected", address)
	}
	return nil
}
