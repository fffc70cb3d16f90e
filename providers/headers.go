package providers

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// header is what a request is sent with. Of the client's headers those pass that an API
// defines; whatever else there is (credentials, cookies, addresses, the gateway's own) is
// nothing for others.
func (c *call) header() http.Header {
	given, h := c.req.Header, http.Header{}
	pass(h, given, "User-Agent")
	if key := given.Get(idempotencyKey); key != "" {
		h.Set(idempotencyKey, scoped(c.x.Scope, key))
	}
	if c.exchange == nil {
		pass(h, given, "Content-Type")
		pass(h, given, "Accept")
	} else {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json")
		if c.exchange.Stream() {
			h.Set("Accept", "text/event-stream")
		}
	}
	c.apiHeaders(h, given)
	for name, values := range c.offer.from.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "kvsteer")
	}
	// Asked for by Go's transport otherwise; answers are looked into.
	h.Set("Accept-Encoding", "identity")
	return h
}

const idempotencyKey = "Idempotency-Key"

// scoped is a key as one of a scope's own.
func scoped(scope, key string) string {
	if scope == "" {
		return key
	}
	sum := sha256.Sum256([]byte(strconv.Quote(scope) + key))
	return hex.EncodeToString(sum[:])
}

// apiHeaders passes the headers of the API that the client speaks, if the provider does, too.
func (c *call) apiHeaders(h, given http.Header) {
	anthropic := c.x.API == prompt.Messages || c.x.API == 0 && below(c.target.Path, prompt.Messages.Path())
	if _, is := c.offer.from.Kind.(Anthropic); is && c.x.API == 0 {
		anthropic = true
	}
	names := []string{"Openai-Beta"}
	if anthropic {
		names = []string{"Anthropic-Beta", versionHeader}
	}
	for _, name := range names {
		switch {
		case c.exchange == nil:
			pass(h, given, name)
		case given.Get(name) != "" && name != versionHeader && c.x.Warn != nil:
			c.x.Warn("header "+strings.ToLower(name), "the provider's API has no such header")
		default:
		}
	}
}

func pass(h, given http.Header, name string) {
	if v := given[name]; len(v) > 0 {
		h[name] = append([]string(nil), v...)
	}
}

// answerHeader is what the client sees of the provider's headers. What it says of the
// gateway's account (limits, organisation, cookies) is not among them.
func answerHeader(given http.Header) http.Header {
	h := make(http.Header, 8)
	for _, name := range []string{
		"Content-Type", "Content-Length", "Content-Disposition", "Cache-Control", "Etag", "Last-Modified", "Date",
		"X-Request-Id", "Request-Id", "Openai-Processing-Ms", "Openai-Version",
	} {
		pass(h, given, name)
	}
	return h
}

// mediaType is the type of a body, without parameters.
func mediaType(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// plain undoes the compression that some services use though nobody asked for it.
func plain(resp *http.Response, body io.ReadCloser) (io.ReadCloser, error) {
	switch coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return &unzipped{src: body}, nil
	default:
		return nil, errors.New("the answer has a coding that was not asked for, and is not known")
	}
}

// unzipped reads what is compressed. The first read waits for the compressed header.
type unzipped struct {
	src io.ReadCloser
	zip *gzip.Reader
}

func (u *unzipped) Read(p []byte) (int, error) {
	if u.zip == nil {
		zip, err := gzip.NewReader(u.src)
		if err != nil {
			return 0, err
		}
		u.zip = zip
	}
	return u.zip.Read(p)
}

func (u *unzipped) Close() error { return u.src.Close() }
