package bedrocktest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// authorized checks an API key, or the signature by making it again.
func (s *Server) authorized(r *http.Request, body []byte) *Error {
	auth := r.Header.Get("Authorization")
	if key, ok := strings.CutPrefix(auth, "Bearer "); ok {
		if s.o.APIKey == "" || subtle.ConstantTimeCompare([]byte(key), []byte(s.o.APIKey)) == 0 {
			return &Error{Status: http.StatusForbidden, Type: "AccessDeniedException", Message: "Authentication failed: the API key is not valid."}
		}
		return nil
	}
	signed, ok := field(auth, "SignedHeaders=")
	if !ok {
		return &Error{Status: http.StatusForbidden, Type: "MissingAuthenticationTokenException", Message: "Missing Authentication Token"}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return &Error{Status: http.StatusForbidden, Type: "IncompleteSignatureException", Message: "the date is missing"}
	}
	again := &http.Request{Method: r.Method, URL: &url.URL{
		Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery,
	}, Host: r.Host, Header: http.Header{}}
	for name := range strings.SplitSeq(signed, ";") {
		switch name {
		case "host":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), s.o.Credentials, again, hex.EncodeToString(sum[:]), "bedrock", s.o.Region, at); err != nil {
		return &Error{Status: http.StatusForbidden, Type: "InvalidSignatureException", Message: "it can't be made again"}
	}
	if subtle.ConstantTimeCompare([]byte(again.Header.Get("Authorization")), []byte(auth)) == 0 {
		return &Error{
			Status: http.StatusForbidden, Type: "InvalidSignatureException",
			Message: "The request signature we calculated does not match the signature you provided.",
		}
	}
	return nil
}

// field reads one of the fields of an Authorization header.
func field(auth, name string) (string, bool) {
	_, rest, ok := strings.Cut(auth, name)
	value, _, _ := strings.Cut(rest, ",")
	return strings.TrimSpace(value), ok && value != ""
}
