package extproc

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer"
)

// errLocal is why a request ends that Envoy answered itself, for a reason that is not the
// worker's.
var errLocal = errors.New("extproc: Envoy answered the request itself")

// Attributes of Envoy that tell more of an answer, if response_attributes lists them.
const (
	attrAddress = "upstream.address"
	attrDetails = "response.code_details"
	// attrSource is the client's address, if request_attributes lists it.
	attrSource = "source.address"
)

func (x *exchange) answerHeaders(msg *extprocv3.ProcessingRequest, h *extprocv3.HttpHeaders) error {
	if x.answered {
		return x.srv.malformed("the answer's headers came twice")
	}
	x.answered = true
	if x.early {
		x.pulse, x.sel, x.placed = nil, nil, nil // they have ended
	}
	if x.phase != decided {
		x.phase, x.body = over, nil // Envoy answers without having asked, or waited, for us
	}
	status, header := 0, http.Header{}
	for _, kv := range h.GetHeaders().GetHeaders() {
		if kv.GetKey() == ":status" {
			status, _ = strconv.Atoi(valueOf(kv))
			continue
		}
		name := textproto.CanonicalMIMEHeaderKey(kv.GetKey())
		header[name] = append(header[name], valueOf(kv))
	}
	x.observe(msg, status, header)
	if h.GetEndOfStream() {
		x.finish()
	}
	common := &extprocv3.CommonResponse{}
	if x.answer != nil && x.answer.Rewrites() && header.Get("Content-Length") != "" {
		common.HeaderMutation = &extprocv3.HeaderMutation{RemoveHeaders: []string{"content-length"}}
	}
	x.mark(common, header)
	return x.send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extprocv3.HeadersResponse{Response: common},
	}})
}

// mark has Envoy set what tells the client how the limits stand that it has passed.
func (x *exchange) mark(common *extprocv3.CommonResponse, header http.Header) {
	marked := header.Clone()
	switch {
	case x.sel != nil:
		x.sel.MarkAnswer(marked)
	case x.placed != nil:
		x.placed.MarkAnswer(marked)
	}
	mut := &extprocv3.HeaderMutation{}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if _, stays := marked[name]; !stays {
			mut.RemoveHeaders = append(mut.RemoveHeaders, strings.ToLower(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(marked)) {
		if slices.Equal(marked[name], header[name]) {
			continue
		}
		how := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		for _, value := range marked[name] {
			mut.SetHeaders = append(mut.SetHeaders, &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(value)}, AppendAction: how,
			})
			how = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
	}
	if len(mut.GetRemoveHeaders())+len(mut.GetSetHeaders()) == 0 {
		return
	}
	if m := common.GetHeaderMutation(); m != nil {
		mut.RemoveHeaders = append(mut.GetRemoveHeaders(), m.GetRemoveHeaders()...)
	}
	common.HeaderMutation = mut
}

// observe begins to follow the answer.
func (x *exchange) observe(msg *extprocv3.ProcessingRequest, status int, header http.Header) {
	x.pulse.stop()
	if local(attribute(msg, attrDetails)) {
		if x.sel != nil {
			x.sel.Abort(errLocal)
		}
		return
	}
	if x.placed != nil {
		x.placed.Answered(status)
	}
	if x.sel == nil {
		return
	}
	if served := served(msg); served != "" {
		host, ours := x.hosts[spelled(served)]
		if !ours {
			host = served
		}
		x.sel.Moved(host)
	}
	x.answer = x.sel.Answer(status, header)
}

// local reports whether response.code_details tell of an answer that is Envoy's own, for a
// reason that is not the worker's. The worker's are its answer, and that it could not be
// reached or broke off. Limits of time and number are Envoy's, some of them set by a
// request, and so is what Envoy resets itself.
func local(details string) bool {
	if details == "" || details == "via_upstream" {
		return false
	}
	if !strings.HasPrefix(details, "upstream_reset_") {
		return true
	}
	_, why, _ := strings.Cut(details, "{")
	return strings.HasPrefix(why, "overflow") || strings.HasPrefix(why, "local_reset")
}

// headless begins to follow an answer of which Envoy shows the body only
// (response_header_mode SKIP): what it is can be told from how it begins.
func (x *exchange) headless(msg *extprocv3.ProcessingRequest, body []byte) {
	kind, text := "application/octet-stream", strings.TrimLeft(string(body[:min(len(body), 256)]), " \r\n\t")
	if strings.HasPrefix(text, "{") {
		kind = "application/json"
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if text != "" && (strings.HasPrefix(text, field) || strings.HasPrefix(field, text)) {
			kind = "text/event-stream"
		}
	}
	x.observe(msg, http.StatusOK, http.Header{"Content-Type": {kind}})
}

// served is the endpoint that answered, "" if Envoy does not say.
func served(msg *extprocv3.ProcessingRequest) string {
	v := msg.GetMetadataContext().GetFilterMetadata()[namespaceEndpoints].GetFields()[keyServed]
	if text := v.GetStringValue(); text != "" {
		return text
	}
	return attribute(msg, attrAddress)
}

func attribute(msg *extprocv3.ProcessingRequest, name string) string {
	for _, of := range msg.GetAttributes() {
		if v, ok := of.GetFields()[name]; ok {
			if text, ok := v.GetKind().(*structpb.Value_StringValue); ok {
				return text.StringValue
			}
		}
	}
	return ""
}

func (x *exchange) answerChunk(msg *extprocv3.ProcessingRequest, b *extprocv3.HttpBody) error {
	if x.ended && x.answerBody == procv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return nil // the end, once more
	}
	if !x.answered && x.phase == decided && (len(b.GetBody()) > 0 || b.GetEndOfStream()) {
		x.answered = true
		x.headless(msg, b.GetBody())
	}
	out := b.GetBody()
	if x.answer != nil {
		out = x.answer.Pass(out)
	}
	if b.GetEndOfStream() {
		out = slices.Clone(out) // finish uses the memory again
		out = append(out, x.finish()...)
	}
	if x.answerBody == procv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return x.sendBody(out, b.GetEndOfStream(), answerBodyReply)
	}
	c := &extprocv3.CommonResponse{}
	switch {
	case x.answer == nil || !x.answer.Rewrites():
	case len(out) == 0:
		c.BodyMutation = &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_ClearBody{ClearBody: true}}
	default:
		c.BodyMutation = &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: out}}
	}
	return x.send(answerBodyReply(c))
}

func (x *exchange) answerTrailers(h *corev3.HeaderMap) error {
	rest := x.finish()
	switch {
	case len(rest) == 0:
	case x.answerBody == procv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		if err := x.sendBody(rest, false, answerBodyReply); err != nil {
			return err
		}
	default: // Envoy takes no body with trailers; hardly ever is it more than the chunk that we asked for
		x.srv.opts.Logger.Warn("extproc: an answer ended within an event, the beginning of which could not be passed on",
			slog.Int("bytes", len(rest)))
	}
	return x.send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
		ResponseTrailers: &extprocv3.TrailersResponse{HeaderMutation: without(h, kvsteer.InternalHeader)},
	}})
}

// finish ends the request with its answer, and returns what of that is still to be sent.
func (x *exchange) finish() (rest []byte) {
	x.ended = true
	if x.answer != nil {
		rest = x.answer.End()
	}
	if x.placed != nil {
		x.placed.End()
	}
	return rest
}
