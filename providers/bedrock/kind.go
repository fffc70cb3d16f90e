package bedrock

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/providers"
)

// Options are for New.
type Options struct {
	// Region is AWS's, such as "us-east-1". "" is read from the Provider's URL, which must
	// then have it: "https://bedrock-runtime.us-east-1.amazonaws.com".
	Region string
	// Credentials sign requests. They are asked for each request, so they should keep what
	// they got, as those of the SDK's config do, or an aws.CredentialsCache. They have the
	// CredentialTimeout of providers.Options, and must heed their context. Nil: the
	// Provider's Credentials are an API key of Bedrock.
	Credentials aws.CredentialsProvider
	// Family is whose models these are, where their ids don't say it, as ARNs of
	// application inference profiles don't: "anthropic", "amazon" and so on, as ids of
	// models begin. It decides on how the fields beyond Converse's own are sent.
	Family string
	// S3 are prefixes below which any client may name images and documents, such as
	// "s3://bucket/" or "s3://bucket/public/", each ending in a slash. Bedrock reads them with
	// the gateway's identity, whoever the client is: list only what every client may see. Nil
	// refuses all URLs of S3.
	S3 []string
	// Now tells the time that requests are signed with; nil is time.Now.
	Now func() time.Time
}

// streamOp is the last segment of the path for streams.
const streamOp = "/converse-stream"

// Kind is Amazon Bedrock as a kind of provider. It is safe for concurrent use, and may be
// that of several Providers.
type Kind struct {
	o      Options
	signer *v4.Signer
}

var (
	_ providers.Kind    = (*Kind)(nil)
	_ providers.Framer  = (*Kind)(nil)
	_ providers.Listed  = (*Kind)(nil)
	_ providers.Modeled = (*Kind)(nil)
)

// New returns the kind.
func New(o Options) *Kind {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.S3 = slices.Clone(o.S3)
	return &Kind{o: o, signer: v4.NewSigner()}
}

// Factory makes kinds from what a manifest says of them, for package providers/file:
//
//	file.Options{Kinds: map[string]file.Factory{"Bedrock": bedrock.Factory(bedrock.Options{Credentials: cfg.Credentials})}}
//
// Options there are region and family, and count more than o's; what clients may read in S3
// is the program's to say.
func Factory(o Options) func(options map[string]string) (providers.Kind, error) {
	return func(options map[string]string) (providers.Kind, error) {
		o := o
		for name, value := range options {
			switch name {
			case "region":
				o.Region = value
			case "family":
				o.Family = value
			default:
				return nil, errors.New("there is no option " + strconv.Quote(name) + ": Bedrock has region and family")
			}
		}
		return New(o), nil
	}
}

// StaticKeys are credentials that don't change: an access key, its secret, and for
// temporary ones their session token.
func StaticKeys(accessKeyID, secretAccessKey, sessionToken string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{
			AccessKeyID: accessKeyID, SecretAccessKey: secretAccessKey, SessionToken: sessionToken, Source: "StaticKeys",
		}, nil
	})
}

// String returns "Bedrock". Credentials are not shown.
func (k *Kind) String() string { return "Bedrock" }

// GoString is String.
func (k *Kind) GoString() string { return k.String() }

// Check sets the URL, and says what is missing.
func (k *Kind) Check(p *providers.Provider) error {
	if p.URL == "" {
		if k.o.Region == "" {
			return errors.New("the region is missing: give Options.Region, or a URL that has it")
		}
		p.URL = "https://bedrock-runtime." + k.o.Region + ".amazonaws.com"
		if strings.HasPrefix(k.o.Region, "cn-") {
			p.URL += ".cn"
		}
	}
	host := "" // package providers says what a URL must have
	if u, err := url.Parse(p.URL); err == nil {
		host = u.Hostname()
	}
	switch {
	case k.o.Credentials != nil && host != "" && k.region(host) == "":
		return errors.New("the region is missing: give Options.Region; the URL doesn't have it, and requests are signed for one")
	case k.o.Credentials == nil && p.Credentials == nil:
		return errors.New("the credentials are missing: give Options.Credentials of AWS, or an API key as the Provider's Credentials")
	case k.o.Credentials != nil && p.Credentials != nil:
		return errors.New("there are two credentials: Options.Credentials, and the Provider's; a request carries one")
	case len(p.Paths) > 0:
		return errors.New("there are Paths: Bedrock serves models only")
	case len(p.APIs) > 0:
		return errors.New("there are APIs: Bedrock takes none as it is, all is translated; remove them")
	case slices.ContainsFunc(p.Models, unserved):
		return errors.New("a model's APIs have none of chat, messages and responses: Bedrock serves no other; remove it, or its APIs")
	case slices.ContainsFunc(k.o.S3, badPrefix):
		return errors.New(`Options.S3 has a prefix that is not of the form "s3://bucket/" or "s3://bucket/folder/", with the slash at its end`)
	default:
		return nil
	}
}

// unserved reports whether a model is for APIs only that aren't translated.
func unserved(m providers.Model) bool {
	return m.APIs != nil && !slices.ContainsFunc(m.APIs, func(a prompt.API) bool {
		return a == prompt.Chat || a == prompt.Messages || a == prompt.Responses
	})
}

// region is the one that requests to a host are signed for; "" for unknown.
func (k *Kind) region(host string) string {
	if k.o.Region != "" {
		return k.o.Region
	}
	labels := strings.Split(host, ".")
	for i, l := range labels { // bedrock-runtime.REGION..., behind a VPC endpoint's name, too
		if (l == "bedrock-runtime" || l == "bedrock-runtime-fips") && i+1 < len(labels) && strings.Contains(labels[i+1], "-") {
			return labels[i+1]
		}
	}
	return ""
}

// APIs are none: everything is translated.
func (k *Kind) APIs(*providers.Provider) []prompt.API { return nil }

// ListName is that of Bedrock in public lists of prices.
func (k *Kind) ListName(*providers.Provider) string { return "bedrock" }

// CodecOf returns Converse as a model has it.
func (k *Kind) CodecOf(upstream string) dialect.Service {
	return converse{family: string(familyOf(upstream, k.o.Family)), s3: k.o.S3}
}

// Codec returns Converse, which is none of the APIs that clients speak.
func (k *Kind) Codec() (dialect.Service, prompt.API) {
	return converse{family: k.o.Family, s3: k.o.S3}, 0
}

// Endpoint is /model/ID/converse, or converse-stream.
func (k *Kind) Endpoint(base *url.URL, t *providers.Target) (*url.URL, error) {
	if t.API != 0 || t.Path != "" || t.Upstream == "" {
		return nil, errors.New("bedrock: only models are served, by translation to Converse")
	}
	op := "/converse"
	if t.Stream {
		op = streamOp
	}
	u := *base
	prefix := strings.TrimSuffix(u.EscapedPath(), "/") + "/model/"
	u.Path = strings.TrimSuffix(u.Path, "/") + "/model/" + t.Upstream + op
	// Slashes and colons of an ARN are escaped: the id is one segment of the path, and the
	// signature is over its escaped form, escaped once more.
	u.RawPath = prefix + escapeID(t.Upstream) + op
	u.RawQuery, u.Fragment = "", ""
	return &u, nil
}

// escapeID escapes all but the letters that AWS leaves alone.
func escapeID(id string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(id)+8)
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.~", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

// Failure reads an error.
func (k *Kind) Failure(status int, h http.Header, body []byte) *dialect.Failure {
	return converse{}.DecodeFailure(status, h, body)
}

// Quota reads Retry-After: Bedrock says no more of an account's limits.
func (k *Kind) Quota(h http.Header, now time.Time, q *providers.Quota) {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(v, 10, 16); err == nil { // hours at most
		q.RetryAfter, q.Told = time.Duration(seconds)*time.Second, true
		return
	}
	if at, err := http.ParseTime(v); err == nil {
		q.RetryAfter, q.Told = max(at.Sub(now), 0), true
	}
}

// Framing returns what takes an event stream apart.
func (k *Kind) Framing() dialect.Framing { return newFrames() }
