package tenancy

import (
	"crypto/subtle"
	"fmt"
	"math/bits"
	"net/http"
	"strings"
)

// maxSecret bounds, in bytes, what is taken as a secret: the largest tokens that
// issuers make are half of that.
const maxSecret = 16 << 10

// secretHeaders are those that hold a credential, in the order of their bits in a mask.
func secretHeaders() [3]string { return [...]string{authorization, "X-Api-Key", "Api-Key"} }

const authorization = "Authorization"

// Format implements [fmt.Formatter]: whatever the verb, headers are not shown, because
// they hold secrets.
func (p Presented) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "tenancy.Presented{%d headers, Remote: %v, TLS: %t}", len(p.Header), p.Remote, p.TLS != nil)
}

// Secret returns the one secret in the headers Authorization (as Bearer), X-Api-Key, as
// Anthropic's clients send it, and Api-Key, as Azure's do, with the names of those that
// hold it; "" if none does. Other schemes of Authorization are left alone.
//
// A header that is given twice, an empty or malformed one, and two that differ are an
// *[UnverifiedError]: whoever takes one of two lets a request be one tenant here and
// another elsewhere. kind is what the error calls it.
func (p Presented) Secret(kind string) (secret string, headers []string, err error) {
	secret, mask, err := findSecret(p.Header, kind)
	if err != nil || mask == 0 {
		return "", nil, err
	}
	return secret, maskedHeaders(mask), nil
}

// maskedHeaders names the headers of a mask.
func maskedHeaders(mask uint8) []string {
	headers := make([]string, 0, bits.OnesCount8(mask))
	for i, name := range secretHeaders() {
		if mask&(1<<i) != 0 {
			headers = append(headers, name)
		}
	}
	return headers
}

// findSecret is Presented.Secret, with a bit for each header.
func findSecret(h http.Header, kind string) (secret string, mask uint8, err error) {
	for i, name := range secretHeaders() {
		values := h[name]
		switch len(values) {
		case 0:
			continue
		case 1:
		default:
			return "", 0, &UnverifiedError{Kind: kind, Reason: name + " is given more than once"}
		}
		found := trim(values[0])
		if name == authorization {
			var ours bool
			if found, ours = bearer(found); !ours {
				continue
			}
		}
		switch {
		case found == "":
			return "", 0, &UnverifiedError{Kind: kind, Reason: name + " holds no secret"}
		case len(found) > maxSecret:
			return "", 0, &UnverifiedError{Kind: kind, Reason: name + " is too long"}
		case !opaque(found):
			return "", 0, &UnverifiedError{Kind: kind, Reason: name + " is malformed"}
		case mask != 0 && subtle.ConstantTimeCompare([]byte(secret), []byte(found)) == 0:
			return "", 0, &UnverifiedError{Kind: kind, Reason: "two headers hold different credentials"}
		}
		secret, mask = found, mask|1<<i
	}
	return secret, mask, nil
}

// bearer returns what follows the scheme Bearer; ours is false for other schemes.
func bearer(value string) (secret string, ours bool) {
	const scheme = "bearer"
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", false
	}
	rest := value[len(scheme):]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return "", false // a longer word
	}
	return strings.TrimLeft(rest, " "), true
}

// trim cuts the white space that is no part of a header's value. net/http's server has
// done so; other gateways have not.
func trim(value string) string { return strings.Trim(value, " \t") }

// opaque reports whether all of a secret is visible ASCII without commas, which is what
// two values become that a proxy has joined.
func opaque(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == ',' {
			return false
		}
	}
	return true
}
