// Package oidc is a [tenancy.Resolver] by JSON Web Tokens: those that OpenID Connect
// providers, Kubernetes and others issue, as bearers in the header Authorization.
//
// A token is who it says if all of this holds:
//
//   - It is a compact JWS of one signature, by an algorithm that the issuer's
//     configuration has. "none", HMAC and encrypted tokens are never accepted, nor are
//     the headers crit and b64.
//   - Its iss is exactly that of an [Issuer], and the signature is by a key that this
//     issuer has published for such an algorithm. What the token says of keys (jwk, jku,
//     x5c, x5u) is ignored; kid only chooses among the published ones.
//   - Its aud holds one of the Issuer's Audiences, it has not expired, is valid by now,
//     and was not issued in the future, all with Options.Leeway.
//   - It has the claims that [Claims] names.
//
// Anything else that has the form of a token is refused by a *[tenancy.UnverifiedError].
// A bearer that has not, such as an API key, is left to other Resolvers: in a
// [tenancy.Chain], tokens come before [tenancy.Keys].
//
// # Keys of issuers
//
// An issuer's keys are fetched when the first token needs them, and again each
// Options.Refresh. A token whose kid is not among them makes the Resolver fetch them
// anew and waits for that, not more often than each Options.MinInterval, whatever is
// sent: who forges kids does not reach the issuer. Requests never wait for a refresh of
// keys that they have. While an issuer can't be reached its last keys are good until
// they are Options.MaxAge old; after that, and before there are any, the error wraps
// [ErrKeys] and is no *tenancy.UnverifiedError: nobody knows.
//
// A key that the issuer takes back is accepted until the next refresh.
package oidc
