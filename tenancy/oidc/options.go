package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/kvsteer/kvsteer/tenancy"
)

const (
	defaultTimeout     = 5 * time.Second
	defaultRefresh     = 15 * time.Minute
	defaultMaxAge      = 24 * time.Hour
	defaultMinInterval = 10 * time.Second
	defaultLeeway      = time.Minute
	maxLeeway          = 10 * time.Minute
)

// Options are for [New]. Issuers must be given; all durations are positive, and 0 is the
// default.
type Options struct {
	// Issuers are those whose tokens are accepted.
	Issuers []Issuer
	// Leeway is by how much clocks may differ. Default 1 min, at most 10.
	Leeway time.Duration
	// Refresh is the age at which an issuer's keys are fetched again. Default 15 min.
	Refresh time.Duration
	// MaxAge is the age at which keys that could not be fetched again are no longer
	// accepted. Default 24 h; not less than Refresh.
	MaxAge time.Duration
	// MinInterval is the least time between two fetches from an issuer. Default 10 s.
	MinInterval time.Duration
	// Timeout bounds a fetch. Default 5 s.
	Timeout time.Duration
	// Client fetches keys. Default: one with the system's certificates and no proxy. Give
	// one for issuers behind a proxy, an authority of your own, or a login.
	Client *http.Client
	// PlainHTTP allows issuers without TLS on other machines: whoever is between can then
	// make tokens.
	PlainHTTP bool
	// OnError is told of each fetch that failed. It must be safe for concurrent use, and
	// not call Close.
	OnError func(issuer string, err error)
	// Logger gets a line for the same. Nil: none.
	Logger *slog.Logger
	// Now tells the time. Default time.Now.
	Now func() time.Time
}

// Issuer is who issues tokens, and what they mean.
type Issuer struct {
	// URL is exactly the claim iss, and where {URL}/.well-known/openid-configuration is
	// unless KeysURL says where the keys are.
	URL string
	// KeysURL is of the issuer's JSON Web Key Set. Default: what it says of itself.
	KeysURL string
	// Audiences are the values of the claim aud, one of which a token must have. At least
	// one is needed: a token for somebody else is not for you.
	Audiences []string
	// Algorithms are those that tokens may be signed by, of RS256, RS384, RS512, PS256,
	// PS384, PS512, ES256, ES384, ES512 and EdDSA. Default RS256 and ES256.
	Algorithms []string
	// Types are the header typ's values that a token may have, one of which it must then;
	// "at+jwt" is for access tokens of RFC 9068. Default: any.
	Types []string
	// Claims says which claims are what.
	Claims Claims
	// Identity is what is not in claims. By and Spent are set by the Resolver.
	Identity tenancy.Identity
	// Prefix is put before Org, Team, Tenant and Key of claims, so that no issuer can
	// name what is another's. Give one to each if there are several.
	Prefix string
	// Adjust has the last word on the Identity, by the verified claims; an error refuses
	// the token, and must not hold any of it. It is called concurrently.
	Adjust func(claims json.RawMessage, id *tenancy.Identity) error
}

// Claims names a claim for each field of an Identity; "" is none. A name that begins
// with a slash is a JSON Pointer: "/realm_access/roles"; others are taken as they are,
// dots and all.
//
// Org, Team, Tenant and Key are texts, or whole numbers, and a token without is refused.
// Class and Priority may be lacking. Groups, Models and Providers are lists of texts, or
// one text; Models and Providers that are lacking allow none.
type Claims struct {
	Org, Team, Tenant, Key, Groups, Class, Priority, Models, Providers string
}

func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// complete fills in defaults and says what is wrong.
func (o *Options) complete() error {
	for _, d := range []struct {
		name  string
		value *time.Duration
		empty time.Duration
	}{
		{"Leeway", &o.Leeway, defaultLeeway},
		{"Refresh", &o.Refresh, defaultRefresh},
		{"MaxAge", &o.MaxAge, max(defaultMaxAge, o.Refresh)},
		{"MinInterval", &o.MinInterval, defaultMinInterval},
		{"Timeout", &o.Timeout, defaultTimeout},
	} {
		if *d.value < 0 {
			return fmt.Errorf("tenancy/oidc: Options.%s is %v; give a positive duration, or 0 for %v", d.name, *d.value, d.empty)
		}
		if *d.value == 0 {
			*d.value = d.empty
		}
	}
	switch {
	case o.Leeway > maxLeeway:
		return fmt.Errorf("tenancy/oidc: Options.Leeway is %v; give at most %v, and set the clocks", o.Leeway, maxLeeway)
	case o.MaxAge < o.Refresh:
		return fmt.Errorf("tenancy/oidc: Options.MaxAge is %v, less than Refresh, %v; give more", o.MaxAge, o.Refresh)
	case len(o.Issuers) == 0:
		return errors.New("tenancy/oidc: Options.Issuers is empty; name whose tokens are accepted")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Issuers = slices.Clone(o.Issuers)
	for i := range o.Issuers {
		is := &o.Issuers[i]
		if slices.ContainsFunc(o.Issuers[:i], func(other Issuer) bool { return other.URL == is.URL }) {
			return fmt.Errorf("tenancy/oidc: issuer %q is given twice; remove one", is.URL)
		}
		if err := is.complete(o.PlainHTTP); err != nil {
			return fmt.Errorf("tenancy/oidc: issuer %q: %w", is.URL, err)
		}
	}
	return nil
}

func (i *Issuer) complete(plain bool) error {
	if len(i.Algorithms) == 0 {
		i.Algorithms = []string{string(jose.RS256), string(jose.ES256)}
	}
	for _, a := range i.Algorithms {
		if !slices.Contains(algorithms(), jose.SignatureAlgorithm(a)) {
			return fmt.Errorf("the algorithm %q can't be used; name some of %v", a, algorithms())
		}
	}
	switch {
	case i.URL == "":
		return errors.New("URL is empty; give what the claim iss holds")
	case len(i.Audiences) == 0 || slices.Contains(i.Audiences, ""):
		return errors.New("the field Audiences lacks a name; give what the claim aud holds in tokens that are for you")
	}
	address, field := i.KeysURL, "KeysURL"
	if address == "" {
		address, field = i.URL, "URL"
	}
	if err := checkURL(address, plain); err != nil {
		return fmt.Errorf("%s %w", field, err)
	}
	if i.Claims.Org+i.Claims.Team+i.Claims.Tenant+i.Claims.Key+i.Identity.Org+i.Identity.Team+i.Identity.Tenant+i.Identity.Key == "" {
		return errors.New(`neither Claims nor Identity name anybody; give Claims.Tenant, or Claims.Key: "sub"`)
	}
	who := i.Identity
	who.Tenant += i.Prefix // is as fit as names are
	return who.Validate()
}

// checkURL refuses addresses that anybody on the way could answer for.
func checkURL(address string, plain bool) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("is not the address of a server; write https://HOST/PATH")
	case u.Scheme == "https" || u.Scheme == "http" && (plain || loopback(u.Hostname())):
		return nil
	case u.Scheme == "http":
		return errors.New("is plain http, so that anybody on the way could make tokens; use https, or set Options.PlainHTTP")
	default:
		return errors.New("is neither http nor https; write https://HOST/PATH")
	}
}

func loopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") && strings.Trim(host, "0123456789.") == ""
}
