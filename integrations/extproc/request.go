package extproc

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Names of the Endpoint Picker protocol.
const (
	HeaderDestination  = "x-gateway-destination-endpoint"
	keySubset          = "x-gateway-destination-endpoint-subset"
	keyServed          = "x-gateway-destination-endpoint-served"
	namespaceSubset    = "envoy.lb.subset_hint"
	namespaceEndpoints = "envoy.lb"
	pathModels         = "/v1/models"
)

func (x *exchange) requestHeaders(msg *extprocv3.ProcessingRequest, h *extprocv3.HttpHeaders) error {
	if x.phase != waiting {
		return x.srv.malformed("the request's headers came twice, or after the answer's")
	}
	x.phase = reading
	if err := x.parse(h.GetHeaders()); err != nil {
		return x.refuse(err)
	}
	x.head.RemoteAddr = attribute(msg, attrSource)
	if h.GetEndOfStream() {
		x.head.Body = http.NoBody
		return x.decide(whole)
	}
	if x.upgrades() {
		return x.refuse(&kvsteer.Error{
			Code: kvsteer.CodeNotForwarded, Status: http.StatusNotImplemented,
			Message: "upgrades are not served here: ext_proc would wait for the end of a body that has none",
		})
	}
	if n := x.head.ContentLength; n > x.srv.router.MaxBody() {
		return x.refuse(x.tooLarge())
	}
	switch x.requestBody {
	case procv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		return nil // the headers are answered together with the body
	case procv3.ProcessingMode_BUFFERED:
		return x.send(headersReply(&extprocv3.CommonResponse{HeaderMutation: x.stripped()}))
	default:
		return x.decide(unseen)
	}
}

// upgrades reports whether what follows is another protocol, of which the body is to come
// here.
func (x *exchange) upgrades() bool {
	if x.requestBody != procv3.ProcessingMode_FULL_DUPLEX_STREAMED && x.requestBody != procv3.ProcessingMode_BUFFERED {
		return false
	}
	if x.head.Header.Get("Upgrade") == "" {
		return false
	}
	for _, value := range x.head.Header.Values("Connection") {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), "upgrade") {
				return true
			}
		}
	}
	return false
}

func (x *exchange) requestChunk(b *extprocv3.HttpBody) error {
	switch x.phase {
	case reading:
	case waiting:
		return x.refuse(misconfigured("request_header_mode must be SEND"))
	case decided:
		if x.requestBody != procv3.ProcessingMode_FULL_DUPLEX_STREAMED {
			return x.send(requestBodyReply(&extprocv3.CommonResponse{}))
		}
		if len(b.GetBody()) > 0 {
			if planted.PromptToEnvoy {
				return x.srv.malformed("the request's body goes on after its end: " + string(b.GetBody()))
			}
			return x.srv.malformed("the request's body goes on after its end")
		}
		return nil // the end, once more
	case over:
		return nil
	}
	if int64(len(x.body))+int64(len(b.GetBody())) > x.srv.router.MaxBody() {
		x.body = nil
		return x.refuse(x.tooLarge())
	}
	switch {
	case x.body == nil && x.requestBody == procv3.ProcessingMode_BUFFERED:
		x.body = b.GetBody()
	default:
		if x.body == nil { // what is announced need not come
			x.body = make([]byte, 0, max(min(x.head.ContentLength, maxPrealloc), int64(len(b.GetBody()))))
		}
		x.body = append(x.body, b.GetBody()...)
	}
	if x.requestBody == procv3.ProcessingMode_BUFFERED || b.GetEndOfStream() {
		return x.decide(whole) // of a buffered body there is one part; trailers may follow
	}
	return nil
}

func (x *exchange) requestTrailers(h *corev3.HeaderMap) error {
	if x.phase == reading {
		if x.requestBody == procv3.ProcessingMode_BUFFERED {
			return x.refuse(&kvsteer.Error{Code: kvsteer.CodeBadRequest, Message: "the request has trailers but no body"})
		}
		if err := x.decide(trailed); err != nil || x.phase == over {
			return err
		}
	}
	return x.send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{
		RequestTrailers: &extprocv3.TrailersResponse{HeaderMutation: without(h, internal)},
	}})
}

// maxPrealloc is how much memory a declared length is given before any of it has come.
const maxPrealloc = 1 << 20

// parse makes a request of the headers, and takes out of them what only the router and
// Envoy may say.
func (x *exchange) parse(h *corev3.HeaderMap) *kvsteer.Error {
	x.head = &http.Request{Header: http.Header{}, Body: someBody{}}
	path := ""
	seen := map[string]bool{}
	for _, kv := range h.GetHeaders() {
		name, value := strings.ToLower(kv.GetKey()), valueOf(kv)
		switch {
		case name == ":path":
			path = value
		case name == ":method":
			x.head.Method = value
		case name == ":authority", name == "host":
			x.head.Host = value
		case strings.HasPrefix(name, ":"):
		case internal(name):
			if !seen[name] {
				seen[name] = true
				x.remove = append(x.remove, name)
			}
		default:
			name = textproto.CanonicalMIMEHeaderKey(name)
			x.head.Header[name] = append(x.head.Header[name], value)
		}
	}
	x.head.ContentLength = -1
	if n, err := strconv.ParseInt(x.head.Header.Get("Content-Length"), 10, 64); err == nil {
		x.head.ContentLength = n
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		x.head.URL = &url.URL{Path: "/"}
		return &kvsteer.Error{Code: kvsteer.CodeBadRequest, Message: "the request's path can't be understood"}
	}
	x.head.URL, x.head.RequestURI = u, path
	return nil
}

// internal reports whether a client must not send a header of this name, in lower case.
func internal(name string) bool {
	switch strings.ReplaceAll(name, "_", "-") {
	case HeaderDestination, keySubset, keyServed:
		return true
	default:
		return kvsteer.InternalHeader(name)
	}
}

// without removes the trailers of which bad holds; nil if there are none.
func without(h *corev3.HeaderMap, bad func(name string) bool) *extprocv3.HeaderMutation {
	var names []string
	for _, kv := range h.GetHeaders() {
		if name := strings.ToLower(kv.GetKey()); bad(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &extprocv3.HeaderMutation{RemoveHeaders: names}
}

func valueOf(kv *corev3.HeaderValue) string {
	if raw := kv.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return kv.GetValue()
}

// hint reads the subset to which Envoy limits the choice.
func (x *exchange) hint(md *corev3.Metadata) {
	v, ok := md.GetFilterMetadata()[namespaceSubset].GetFields()[keySubset]
	if !ok {
		return
	}
	x.hinted, x.subset = true, nil
	add := func(text string) {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				x.subset = append(x.subset, part)
			}
		}
	}
	switch v := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		add(v.StringValue)
	case *structpb.Value_ListValue:
		for _, item := range v.ListValue.GetValues() {
			add(item.GetStringValue())
		}
	default: // a hint that names nobody
	}
}

// seen is how much of the request's body is here when a worker is chosen.
type seen uint8

const (
	whole   seen = iota // all of it
	trailed             // all of it, and trailers follow
	unseen              // nothing: Envoy does not send it, or not in time
)

// decide finds out who is to serve the request and tells Envoy.
func (x *exchange) decide(s seen) error {
	api, ok := prompt.APIForPath(strings.TrimSuffix(x.head.URL.Path, "/"))
	ok = ok && x.head.Method == http.MethodPost
	switch {
	case x.hinted && len(x.subset) == 0:
		return x.refuse(&kvsteer.Error{Code: kvsteer.CodeNoCandidates, Message: "the subset of endpoints to choose from is empty"})
	case ok && s == unseen:
		return x.refuse(misconfigured("request_body_mode must be FULL_DUPLEX_STREAMED or BUFFERED"))
	case ok:
		return x.byPrompt(api, s)
	case x.head.Method == http.MethodGet && (x.head.URL.Path == pathModels || strings.HasPrefix(x.head.URL.Path, pathModels+"/")):
		return x.listModels()
	default:
		return x.byLoad(s)
	}
}

func (x *exchange) byPrompt(api kvsteer.API, s seen) error {
	q := &kvsteer.Request{API: api, Body: x.body, Header: x.head.Header, Among: x.subset}
	q.Remote, _ = netip.ParseAddrPort(x.head.RemoteAddr) // nobody's if Envoy does not say
	if d := x.srv.opts.Describe; d != nil {
		d(x.head, q)
		if !x.within(q) {
			return x.refuse(&kvsteer.Error{
				Code: kvsteer.CodeNoCandidates, Message: "no endpoint of the subset is one that the request may go to",
			})
		}
	}
	q.WorkersOnly = true // Envoy is told an address, and can't speak to providers
	to := destination{}
	err := x.patiently(func(ctx context.Context) (err error) {
		x.sel, err = x.srv.router.Select(ctx, q)
		if x.told = true; err != nil {
			return err
		}
		for {
			x.sel.Alone() // there is nobody to have another worker compute the prompt
			if to, err = x.srv.destination(ctx, x.sel.Target(), x.sel.Alternatives()); err == nil {
				return nil
			}
			if gone := x.sel.Next(ctx, err); gone != nil {
				return gone
			}
		}
	})
	if err != nil {
		if x.sel != nil {
			x.sel.Abort(err)
		}
		return x.deny(err)
	}
	x.pulse = startPulse(x.sel, x.srv.touch)
	body := x.sel.Body()
	switch {
	case !x.seesAnswer():
		x.sel.Unseen()
	case !x.srv.opts.KeepStreamOptions:
		body = x.sel.BodyWithUsage()
	default:
	}
	x.sel.Sent()
	return x.route(to, body, s)
}

// within keeps what Describe named to the subset, and reports whether there is anything
// left.
func (x *exchange) within(q *kvsteer.Request) bool {
	switch {
	case !x.hinted:
		return true
	case len(q.Among) == 0:
		q.Among = x.subset
		return true
	default:
		q.Among = slices.DeleteFunc(slices.Clone(q.Among), func(name string) bool {
			return !slices.ContainsFunc(x.subset, func(of string) bool { return strings.EqualFold(name, of) })
		})
		return len(q.Among) > 0
	}
}

// seesAnswer reports whether the answer's body passes here: of one that does not, nobody
// would take out a chunk that the client did not ask for.
func (x *exchange) seesAnswer() bool {
	switch x.answerBody {
	case procv3.ProcessingMode_STREAMED, procv3.ProcessingMode_BUFFERED, procv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		return true
	default:
		return false
	}
}

func (x *exchange) byLoad(s seen) error {
	f := &kvsteer.Forward{
		HTTP: x.head, Body: x.body, Among: x.subset, WorkersOnly: true, Allow: x.srv.opts.Forward, Describe: x.srv.opts.Describe,
	}
	to := destination{}
	err := x.patiently(func(ctx context.Context) (err error) {
		x.placed, err = x.srv.router.Place(f)
		if x.told = true; err != nil {
			return err
		}
		for {
			if to, err = x.srv.destination(ctx, x.placed.Target(), nil); err == nil {
				return nil
			}
			if gone := x.placed.Next(err); gone != nil {
				return gone
			}
		}
	})
	if err != nil {
		if x.placed != nil {
			x.placed.End()
		}
		return x.deny(err)
	}
	body := x.body
	if len(body) > 0 {
		body = x.placed.Body()
	}
	return x.route(to, body, s)
}

func (x *exchange) listModels() error {
	resp, err := x.srv.models.RoundTrip(x.head.WithContext(x.stream.Context()))
	x.told = true
	if err != nil {
		return x.deny(err)
	}
	defer func() { _ = resp.Body.Close() }() // it is in memory
	return x.immediate(resp)
}

func (x *exchange) tooLarge() *kvsteer.Error {
	return &kvsteer.Error{
		Code:    kvsteer.CodeTooLarge,
		Message: "the body is larger than " + strconv.FormatInt(x.srv.router.MaxBody(), 10) + " bytes (the gateway's WithMaxBody)",
	}
}

// misconfigured is the error for an Envoy that withholds what a choice needs.
func misconfigured(what string) *kvsteer.Error {
	return &kvsteer.Error{
		Code: kvsteer.CodeUpstream, Status: http.StatusServiceUnavailable,
		Message: "the gateway's ext_proc filter is misconfigured: " + what,
	}
}

// someBody stands for a body that is not read from the request.
type someBody struct{}

var errNoReader = errors.New("extproc: the body is not read from the request")

func (someBody) Read([]byte) (int, error) { return 0, errNoReader }
func (someBody) Close() error             { return nil }
