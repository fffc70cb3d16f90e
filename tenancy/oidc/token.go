package oidc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	strict "github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"
)

// isToken reports whether a secret has the form of a token: what is before its first dot
// is the beginning of a JSON object. No API key is like that.
func isToken(secret string) bool {
	head, _, ok := strings.Cut(secret, ".")
	if !ok {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(head, "="))
	return err == nil && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}

// token is one that is well formed and says that it is an issuer's.
type token struct {
	keys   *keySet
	jws    *jose.JSONWebSignature
	header jose.Header
}

// parse checks the form of a token and whose it says that it is.
func (r *Resolver) parse(secret string) (*token, error) {
	const encrypted = 4 // dots
	if strings.Count(secret, ".") == encrypted {
		return nil, refused("encrypted tokens are not accepted")
	}
	jws, err := jose.ParseSignedCompact(secret, algorithms())
	var algorithm *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &algorithm):
		return nil, refused("the algorithm is not allowed")
	case err != nil || len(jws.Signatures) != 1 || len(jws.Signatures[0].Signature) == 0:
		return nil, refused("malformed")
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	// Not verified yet: it chooses whose keys it is verified with.
	if err = strict.Unmarshal(jws.UnsafePayloadWithoutVerification(), &claims); err != nil {
		return nil, refused("malformed")
	}
	t := &token{jws: jws, header: jws.Signatures[0].Protected, keys: r.issuers[claims.Issuer]}
	if t.keys == nil {
		return nil, refused("the issuer is unknown")
	}
	is := t.keys.issuer
	_, critical := t.header.ExtraHeaders["crit"]
	_, unencoded := t.header.ExtraHeaders["b64"]
	switch {
	case !slices.Contains(is.Algorithms, t.header.Algorithm):
		return nil, refused("the algorithm is not allowed")
	case critical || unencoded:
		return nil, refused("it needs what is not understood")
	case len(is.Types) > 0 && !slices.ContainsFunc(is.Types, func(typ string) bool { return sameType(typ, t.header) }):
		return nil, refused("it is of another type")
	}
	return t, nil
}

// sameType compares media types, which may lack their "application/".
func sameType(want string, header jose.Header) bool {
	const prefix = "application/"
	typ, ok := header.ExtraHeaders[jose.HeaderType].(string)
	return ok && strings.TrimPrefix(strings.ToLower(typ), prefix) == strings.TrimPrefix(strings.ToLower(want), prefix)
}

// verify checks the signature, and then the claims that say where and when a token holds.
func (t *token) verify(ctx context.Context) ([]byte, error) {
	payload, err := t.signed(ctx)
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	if strict.Unmarshal(payload, &claims) != nil {
		return nil, refused("malformed")
	}
	opts := &t.keys.resolver.opts
	if claims.Expiry == nil {
		return nil, refused("it never expires")
	}
	err = claims.ValidateWithLeeway(jwt.Expected{
		Issuer: t.keys.issuer.URL, AnyAudience: t.keys.issuer.Audiences, Time: opts.Now(),
	}, opts.Leeway)
	switch {
	case err == nil:
		return payload, nil
	case errors.Is(err, jwt.ErrInvalidAudience):
		return nil, refused("it is for another audience")
	case errors.Is(err, jwt.ErrExpired):
		return nil, refused("expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return nil, refused("not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, refused("issued in the future")
	default:
		return nil, refused("its claims are not valid")
	}
}

// signed returns the payload once a key of the issuer has signed it. A token without kid
// may be by a key that is newer than those that are known.
func (t *token) signed(ctx context.Context) ([]byte, error) {
	kid, algorithm := t.header.KeyID, jose.SignatureAlgorithm(t.header.Algorithm)
	var after time.Time
	for again := false; ; again = true {
		keys, fetched, err := t.keys.find(ctx, kid, algorithm, after)
		switch {
		case errors.Is(err, errUnknownKey) && again:
			return nil, refused("the signature is wrong")
		case errors.Is(err, errUnknownKey):
			return nil, refused("no key of the issuer is like that")
		case err != nil:
			return nil, err
		}
		for i := range keys {
			if payload, err := t.jws.Verify(keys[i].Key); err == nil {
				return payload, nil
			}
		}
		if kid != "" || again {
			return nil, refused("the signature is wrong")
		}
		after = fetched
	}
}

// decode reads claims so that numbers stay as they are.
func decode(payload []byte) (claims map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	err = d.Decode(&claims)
	return claims, err
}
