package extproc

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// maxChunk is how much of a body goes into one message, as Envoy recommends.
const maxChunk = 62 << 10

// route tells Envoy where the request goes, and gives it the request's body where it
// is for us to do so.
func (x *exchange) route(to destination, body []byte, s seen) error {
	x.phase, x.hosts = decided, to.hosts
	mut := x.stripped()
	set := func(name, value string) {
		mut.SetHeaders = append(mut.SetHeaders, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: name, RawValue: []byte(value)},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	set(HeaderDestination, to.list)
	for _, name := range to.target.Remove {
		mut.RemoveHeaders = append(mut.RemoveHeaders, strings.ToLower(name))
	}
	for _, name := range slices.Sorted(maps.Keys(to.target.Header)) {
		set(strings.ToLower(name), to.target.Header.Get(name))
	}
	if to.prefix != "" {
		set(":path", to.prefix+x.head.RequestURI)
	}
	if x.sel != nil {
		set("accept-encoding", "identity") // usage and the first token are read from the answer
	}
	duplex := x.requestBody == procv3.ProcessingMode_FULL_DUPLEX_STREAMED
	bodyless := x.head.Body == http.NoBody
	changed := x.requestBody == procv3.ProcessingMode_BUFFERED && !same(body, x.body)
	if (duplex || changed) && !bodyless && x.head.ContentLength >= 0 {
		// Of a streamed body Envoy drops it, unless it is told to keep it; of a buffered one
		// it insists on it.
		set("content-length", strconv.Itoa(len(body)))
	}
	common := &extprocv3.CommonResponse{HeaderMutation: mut}
	var reply *extprocv3.ProcessingResponse
	if x.requestBody == procv3.ProcessingMode_BUFFERED && !bodyless {
		if changed {
			common.BodyMutation = &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: body}}
		}
		reply = requestBodyReply(common)
	} else {
		reply = headersReply(common)
	}
	reply.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
		namespaceEndpoints: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			HeaderDestination: structpb.NewStringValue(to.list),
		}}),
	}}
	x.body = nil
	if err := x.send(reply); err != nil || !duplex || bodyless {
		return err
	}
	return x.sendBody(body, s == whole, requestBodyReply)
}

// sendBody gives Envoy a body in parts, the last of which may be the end.
func (x *exchange) sendBody(body []byte, end bool, reply func(*extprocv3.CommonResponse) *extprocv3.ProcessingResponse) error {
	for {
		n := min(len(body), maxChunk)
		last := n == len(body)
		if n == 0 && !end {
			return nil
		}
		err := x.send(reply(&extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
			Mutation: &extprocv3.BodyMutation_StreamedResponse{
				StreamedResponse: &extprocv3.StreamedBodyResponse{Body: body[:n], EndOfStream: last && end},
			},
		}}))
		if err != nil || last {
			return err
		}
		body = body[n:]
	}
}

func headersReply(c *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: c},
	}}
}

func requestBodyReply(c *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
		RequestBody: &extprocv3.BodyResponse{Response: c},
	}}
}

func answerBodyReply(c *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
		ResponseBody: &extprocv3.BodyResponse{Response: c},
	}}
}

// stripped removes what clients must not send.
func (x *exchange) stripped() *extprocv3.HeaderMutation {
	set := x.phase == decided // then ours replaces the client's
	return &extprocv3.HeaderMutation{RemoveHeaders: slices.DeleteFunc(slices.Clone(x.remove), func(name string) bool {
		return set && name == HeaderDestination
	})}
}

// same reports whether a and b are the same memory: a body that was not changed is the
// client's own.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// refuse answers a request that the router is not asked about.
func (x *exchange) refuse(err *kvsteer.Error) error {
	x.tell(err)
	return x.deny(err)
}

// tell tells the router's hooks of a request that ends before the router was asked. They may
// panic: it is answered all the same.
func (x *exchange) tell(err *kvsteer.Error) {
	defer func() {
		if p := recover(); p != nil {
			x.srv.panicked(p)
		}
	}()
	f := &kvsteer.Refusal{Err: err}
	if x.head != nil && x.head.URL != nil && x.head.Method == http.MethodPost {
		if api, ok := prompt.APIForPath(strings.TrimSuffix(x.head.URL.Path, "/")); ok {
			f.API = api.String()
		}
	}
	x.told = true
	x.srv.router.Refuse(f)
}

// deny answers the request with an error, in the dialect of its path.
func (x *exchange) deny(err error) error {
	if x.early {
		x.phase, x.body = over, nil
		return nil // the client has an answer
	}
	head := x.head
	if head == nil {
		head = &http.Request{}
	}
	if head.URL == nil {
		head, _ = http.NewRequestWithContext(x.stream.Context(), http.MethodPost, "/", http.NoBody)
	}
	var e *kvsteer.Error
	if errors.As(err, &e) && e.Code == kvsteer.CodeSaturated && e.Status == 0 {
		shed := *e
		shed.Status = http.StatusTooManyRequests // so the protocol has it for load that is shed
		err = &shed
	}
	if kvsteer.CodeOf(err) == kvsteer.CodeCanceled && x.stream.Context().Err() != nil {
		x.phase = over
		return nil //nolint:nilerr // there is nobody to tell
	}
	w := &replyWriter{header: http.Header{}}
	kvsteer.WriteError(w, head, err)
	return x.immediate(&http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(strings.NewReader(string(w.body)))})
}

// immediate has Envoy answer the client itself.
func (x *exchange) immediate(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	x.phase, x.body = over, nil
	out := &extprocv3.ImmediateResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(min(resp.StatusCode, 599))}, Body: body,
		Headers: &extprocv3.HeaderMutation{}, Details: "kvsteer",
	}
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if name == "Content-Length" {
			continue // Envoy counts
		}
		out.Headers.SetHeaders = append(out.Headers.SetHeaders, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(resp.Header.Get(name))},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return x.send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: out}})
}

// replyWriter keeps what is written to it.
type replyWriter struct {
	header http.Header
	status int
	body   []byte
}

func (w *replyWriter) Header() http.Header    { return w.header }
func (w *replyWriter) WriteHeader(status int) { w.status = status }

func (w *replyWriter) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}
