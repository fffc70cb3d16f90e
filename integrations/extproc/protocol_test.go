package extproc_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/integrations/extproc"
)

func TestARequestAndItsAnswer(t *testing.T) {
	for _, mode := range []procv3.ProcessingMode_BodySendMode{duplex, buffered} {
		for _, answer := range []procv3.ProcessingMode_BodySendMode{duplex, streamed, buffered, none} {
			t.Run(fmt.Sprint(mode, answer), func(t *testing.T) {
				r := newRig(t, rigConfig{})
				p := r.open(mode, answer)
				body := chat(true)
				p.send(requestHeaders("POST", "/v1/chat/completions", false, "content-length", strconv.Itoa(len(body)),
					"x-kvsteer-a", "1", "X-KVSTEER-A", "2", extproc.HeaderDestination, "192.0.2.1:80"))
				if mode == buffered {
					first := p.receive().GetRequestHeaders().GetResponse()
					require.Equal(t, []string{"x-kvsteer-a", extproc.HeaderDestination}, first.GetHeaderMutation().GetRemoveHeaders())
					p.send(requestBody(body, true))
				} else {
					for i := range len(body) { // as fragmented as can be
						p.send(requestBody(body[i:i+1], i == len(body)-1))
					}
				}
				rt := p.routed(mode, true)
				require.Len(t, rt.endpoints(), 3, "the first choice and its alternatives")
				require.Equal(t, "identity", rt.header["accept-encoding"])
				// Where the answer does not come here nobody could take the usage out again.
				require.Equal(t, answer != none, strings.Contains(rt.body, `"include_usage":true`))
				if mode == duplex {
					require.Equal(t, strconv.Itoa(len(rt.body)), rt.header["content-length"])
				}
				require.Equal(t, 1, r.router.InFlight())

				p.send(answerHeaders("200", "text/event-stream", false))
				require.NotNil(t, p.receive().GetResponseHeaders())
				events := firstEvent + usageEvent + doneEvent
				switch answer {
				case none:
					require.NoError(t, p.stream.CloseSend())
					require.NoError(t, p.ended())
				case duplex:
					got := ""
					for i := range len(events) {
						p.send(answerBody(events[i:i+1], i == len(events)-1))
					}
					for end := false; !end; {
						chunk := p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
						got += string(chunk.GetBody())
						end = chunk.GetEndOfStream()
					}
					require.Equal(t, firstEvent+doneEvent, got, "the usage was ours")
				default:
					got := ""
					for i, part := range []string{events[:20], events[20:100], events[100:]} {
						p.send(answerBody(part, i == 2))
						m := p.receive().GetResponseBody().GetResponse().GetBodyMutation()
						require.NotNil(t, m)
						got += string(m.GetBody())
					}
					require.Equal(t, firstEvent+doneEvent, got, "the usage was ours")
				}
				r.idle()
				require.NoError(t, r.seen.last(t).Err)
				require.Equal(t, answer != none, r.seen.last(t).Usage.Known)
			})
		}
	}
}

func TestTenMegabytesInChunks(t *testing.T) {
	r := newRig(t, rigConfig{})
	body := `{"model":"m","prompt":"x","max_tokens":1` + strings.Repeat(" ", 10<<20) + "}"
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/completions", false))
	go func() {
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			_ = p.stream.Send(requestBody(rest[:n], n == len(rest)))
			rest = rest[n:]
		}
	}()
	require.Equal(t, body, p.routed(duplex, true).body, "byte for byte")
	p = r.open(buffered, none)
	p.send(requestHeaders("POST", "/v1/completions", false))
	p.receive()
	p.send(requestBody(body, true))
	require.Empty(t, p.routed(buffered, true).body, "what is not changed is not sent back")
	p.cancel()

	p = r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/messages", false, "content-length", "12582913"))
	d := p.denied()
	require.Equal(t, http.StatusRequestEntityTooLarge, d.status)
	require.Contains(t, d.body, `"type":"error"`, "Anthropic's dialect")
	p = r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/completions", false))
	for range 13 {
		_ = p.stream.Send(requestBody(strings.Repeat(" ", 1<<20), false)) // it may end before that
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, p.denied().status)
}

func TestTheSubset(t *testing.T) {
	r := newRig(t, rigConfig{})
	hint := func(m *extprocv3.ProcessingRequest, v any) *extprocv3.ProcessingRequest {
		value, err := structpb.NewValue(v)
		require.NoError(t, err)
		return with(m, "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", value)
	}
	w1, w2 := r.host("w1"), r.host("w2")
	for _, v := range []any{[]any{w1, w2}, w1 + ", " + w2, []any{w1 + "," + w2}} {
		p := r.open(duplex, none)
		p.send(hint(requestHeaders("POST", "/v1/chat/completions", false), v))
		p.send(requestBody(chat(false), true))
		require.ElementsMatch(t, []string{w1, w2}, p.routed(duplex, true).endpoints())
		p.cancel()
		p = r.open(duplex, none)
		p.send(hint(requestHeaders("GET", "/version", true), v))
		require.Contains(t, []string{w1, w2}, p.routed(duplex, false).list, "requests without a prompt as well")
		p.cancel()
	}
	for _, v := range []any{[]any{}, "", []any{"192.0.2.1:80"}, 7, nil, " , "} {
		for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
			p := r.open(duplex, none)
			p.send(hint(requestHeaders("POST", path, false), v))
			p.send(requestBody(chat(false), true))
			require.Equal(t, http.StatusServiceUnavailable, p.denied().status, "%v", v)
			require.NoError(t, p.ended())
		}
	}
	r.idle()
}

// Describe narrows the subset and can't leave it.
func TestTheSubsetAndDescribe(t *testing.T) {
	var among []string
	r := newRig(t, rigConfig{extproc: extproc.Options{Describe: func(_ *http.Request, q *kvsteer.Request) { q.Among = among }}})
	w0, w1, w2 := r.host("w0"), r.host("w1"), r.host("w2")
	subset := structpb.NewStringValue(w1 + "," + w2)
	for _, path := range []string{"/v1/chat/completions", "/tokenize"} {
		for _, c := range []struct{ among, want []string }{
			{nil, []string{w1, w2}}, {[]string{w0, w1}, []string{w1}}, {[]string{w0}, nil}, {[]string{"w0"}, nil},
		} {
			among = c.among
			p := r.open(duplex, none)
			p.send(with(requestHeaders("POST", path, false), "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", subset))
			p.send(requestBody(chat(false), true))
			if c.want == nil {
				require.Equal(t, http.StatusServiceUnavailable, p.denied().status, path)
				continue
			}
			require.Subset(t, c.want, p.routed(duplex, true).endpoints(), path)
			p.cancel()
		}
	}
	r.idle()
}

func TestWithoutAPrompt(t *testing.T) {
	r := newRig(t, rigConfig{})
	for _, path := range []string{"/version", "/health", "/v1/moderations?x=1"} {
		p := r.open(duplex, duplex)
		p.send(requestHeaders("GET", path, true))
		rt := p.routed(duplex, false)
		require.Len(t, rt.endpoints(), 1)
		require.Equal(t, 1, r.inFlight())
		p.send(answerHeaders("200", "text/plain", false))
		p.receive()
		p.send(answerBody("x", true))
		require.Equal(t, "x", string(p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()))
		r.idle()
	}
	for path, want := range map[string]int{"/sleep": 404, "": 400, "*": 404, "/v1/../sleep": 404, "//sleep": 404} {
		p := r.open(duplex, duplex)
		p.send(requestHeaders("GET", path, true))
		require.Equal(t, want, p.denied().status, path)
	}
	p := r.open(duplex, duplex)
	p.send(requestHeaders("GET", "/v1/models", true))
	d := p.denied()
	require.Equal(t, http.StatusOK, d.status)
	require.Contains(t, d.body, `"id":"m"`)
	for _, path := range []string{"/v1/messages/count_tokens", "/tokenize"} {
		p := r.open(duplex, none)
		p.send(requestHeaders("POST", path, false))
		p.send(requestBody(`{ "model":"m"}`, true))
		require.Equal(t, `{ "model":"m"}`, p.routed(duplex, true).body) //nolint:testifylint // byte for byte
		p.cancel()
	}
	p = r.open(duplex, none)
	p.send(requestHeaders("POST", "/v1/chat/completions", true))
	require.Equal(t, http.StatusBadRequest, p.denied().status, "a prompt is missing")
	r.idle()
}

// An upgrade has no body that ends: waiting for one would take forever.
func TestUpgrades(t *testing.T) {
	r := newRig(t, rigConfig{})
	upgrade := func() *extprocv3.ProcessingRequest {
		return requestHeaders("GET", "/v1/realtime", false, "connection", "keep-alive, Upgrade", "upgrade", "websocket")
	}
	for _, mode := range []procv3.ProcessingMode_BodySendMode{duplex, buffered} {
		p := r.open(mode, duplex)
		p.send(upgrade())
		require.Equal(t, http.StatusNotImplemented, p.denied().status)
	}
	p := r.open(none, none)
	p.send(upgrade())
	p.routed(none, false) // it passes by
	p.cancel()
	p = r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false, "upgrade", "h2c")) // an offer, no more
	p.send(requestBody(chat(true), true))
	p.routed(duplex, true)
	p.cancel()
	r.idle()
}

func TestTrailers(t *testing.T) {
	r := newRig(t, rigConfig{})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), false))
	p.send(requestTrailers())
	require.NotNil(t, p.receive().GetRequestHeaders())
	chunk := p.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	require.Contains(t, string(chunk.GetBody()), "one two three")
	require.False(t, chunk.GetEndOfStream(), "the trailers end it")
	require.NotNil(t, p.receive().GetRequestTrailers())
	p.send(answerHeaders("200", "text/event-stream", false))
	p.receive()
	p.send(answerBody(firstEvent+`data: {"choices"`, false))
	require.Equal(t, firstEvent, string(p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()))
	p.send(answerTrailers())
	rest := p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	require.Equal(t, `data: {"choices"`, string(rest.GetBody()), "nothing that was held back is lost")
	require.NotNil(t, p.receive().GetResponseTrailers())
	r.idle()

	// Where Envoy takes no body with trailers nothing is held back but what may be the chunk
	// that we asked for.
	for end, want := range map[string]string{
		"data: [DO": "data: [DO", "data: [DONE]": "data: [DONE]", `data: {"choices":[{"delta":{"cont`: `data: {"choices":[{"delta":{"cont`,
		"data: {\"choices\":[{}]}\n": "data: {\"choices\":[{}]}\n", ": alive": "", usageEvent[:len(usageEvent)-1]: "",
	} {
		p = r.open(duplex, streamed)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		p.routed(duplex, true)
		p.send(answerHeaders("200", "text/event-stream", false))
		p.receive()
		p.send(answerBody(firstEvent, false))
		got := string(p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetBody())
		p.send(answerBody(end, false))
		got += string(p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetBody())
		p.send(answerTrailers())
		require.NotNil(t, p.receive().GetResponseTrailers())
		require.Equal(t, firstEvent+want, got, end)
		r.idle()
	}

	p = r.open(buffered, none)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.receive()
	p.send(requestBody(chat(false), false))
	p.routed(buffered, true)
	p.send(requestTrailers())
	require.NotNil(t, p.receive().GetRequestTrailers())
	p.cancel()
	p = r.open(buffered, none)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.receive()
	p.send(requestTrailers())
	require.Equal(t, http.StatusBadRequest, p.denied().status)
	r.idle()
}

// Envoy's own retries: the booking follows to the endpoint that answered.
func TestTheServedEndpointIsReadBack(t *testing.T) {
	for _, how := range []string{"metadata", "attribute"} {
		r := newRig(t, rigConfig{})
		p := r.open(duplex, duplex)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		rt := p.routed(duplex, true)
		second := rt.endpoints()[1]
		m := answerHeaders("200", "text/event-stream", false)
		if how == "metadata" {
			with(m, "envoy.lb", "x-gateway-destination-endpoint-served", structpb.NewStringValue(second))
		} else {
			m.Attributes = map[string]*structpb.Struct{"envoy.filters.http.ext_proc": {Fields: map[string]*structpb.Value{
				"upstream.address": structpb.NewStringValue(second), "response.code_details": structpb.NewStringValue("via_upstream"),
			}}}
		}
		p.send(m)
		p.receive()
		require.Equal(t, 1, r.fleet.Snapshot().Member(r.name(second)).InFlight(0).Requests)
		require.Zero(t, r.fleet.Snapshot().Member(r.name(rt.endpoints()[0])).InFlight(0).Requests)
		p.send(answerBody(firstEvent+doneEvent, true))
		p.receive()
		r.idle()
		require.NoError(t, r.seen.last(t).Err)
	}
}

// Envoy may be told to skip the head of the answer (response_header_mode): its body is
// read all the same.
func TestAnswersWithoutAHead(t *testing.T) {
	r := newRig(t, rigConfig{})
	for name, c := range map[string]struct{ in, out string }{
		"events": {firstEvent + usageEvent + doneEvent, firstEvent + doneEvent},
		"JSON":   {`{"choices":[{}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, ""},
		"other":  {"what?", ""},
	} {
		p := r.open(duplex, streamed)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		p.routed(duplex, true)
		p.send(answerBody(c.in[:4], false))
		first := p.receive().GetResponseBody()
		require.NotNil(t, first, name)
		p.send(answerBody(c.in[4:], true))
		last := p.receive().GetResponseBody()
		if c.out != "" {
			require.Equal(t, c.out, string(first.GetResponse().GetBodyMutation().GetBody())+string(last.GetResponse().GetBodyMutation().GetBody()))
		} else {
			require.Nil(t, last.GetResponse().GetBodyMutation(), name)
		}
		r.idle()
		o := r.seen.last(t)
		require.NoError(t, o.Err, name)
		require.Equal(t, name != "other", o.Usage.Known, name)
	}
}

// The list of models is that of the pool which Describe names.
func TestModelsOfAPool(t *testing.T) {
	r := newRig(t, rigConfig{extproc: extproc.Options{Describe: func(_ *http.Request, q *kvsteer.Request) { q.Pool = "nobody's" }}})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("GET", "/v1/models", true))
	require.Contains(t, p.denied().body, `"data":[]`)
}

// An answer that is not shown has a prefill all the same, which ends.
func TestAnswersThatAreNotShown(t *testing.T) {
	r := newRig(t, rigConfig{})
	p := r.open(duplex, none)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	at := r.fleet.Snapshot().Member(r.name(p.routed(duplex, true).endpoints()[0]))
	require.Eventually(t, func() bool { return at.InFlight(0).DecodeRequests == 1 }, wait, tick)
	require.Zero(t, at.InFlight(0).PrefillTokens)
	p.cancel()
	r.idle()
}

// Envoy answers itself: the request ends, and the client gets that answer.
func TestEnvoyAnswersItself(t *testing.T) {
	r := newRig(t, rigConfig{})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true)[:10], false))
	p.send(answerHeaders("408", "text/plain", false)) // before the request was here
	require.NotNil(t, p.receive().GetResponseHeaders())
	p.send(requestBody(chat(true)[10:], true))
	p.send(answerBody("slow", true))
	require.Equal(t, "slow", string(p.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()))
	r.idle()

	for details, err := range map[string]string{
		"upstream_reset_before_response_started{connection_failure}":     "Service Unavailable",
		"upstream_reset_before_response_started{connection_termination}": "Service Unavailable",
		"upstream_reset_before_response_started{remote_reset}":           "Service Unavailable",
		"upstream_reset_before_response_started{local_reset}":            "Envoy answered the request itself",
		"upstream_response_timeout":                                      "Envoy answered the request itself",
		"no_healthy_upstream":                                            "Envoy answered the request itself",
		"response_timeout":                                               "Envoy answered the request itself",
		"overload":                                                       "Envoy answered the request itself",
		"upstream_per_try_timeout":                                       "Envoy answered the request itself",
		"upstream_per_try_idle_timeout":                                  "Envoy answered the request itself",
		"upstream_max_stream_duration_reached":                           "Envoy answered the request itself",
		"upstream_reset_before_response_started{overflow}":               "Envoy answered the request itself",
	} {
		p = r.open(duplex, duplex)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		p.send(requestBody(chat(true), true))
		p.routed(duplex, true)
		m := answerHeaders("503", "text/plain", true)
		m.Attributes = map[string]*structpb.Struct{"a": {Fields: map[string]*structpb.Value{"response.code_details": structpb.NewStringValue(details)}}}
		p.send(m)
		p.receive()
		r.idle()
		require.ErrorContains(t, r.seen.last(t).Err, err)
	}
}

// Envoys whose configuration withholds what is needed are told so.
func TestMisconfiguredEnvoys(t *testing.T) {
	r := newRig(t, rigConfig{})
	for _, mode := range []procv3.ProcessingMode_BodySendMode{none, streamed, procv3.ProcessingMode_BUFFERED_PARTIAL, procv3.ProcessingMode_GRPC} {
		p := r.open(mode, none)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		d := p.denied()
		require.Equal(t, http.StatusServiceUnavailable, d.status)
		require.Contains(t, d.body, "request_body_mode must be")
		p = r.open(mode, none)
		p.send(requestHeaders("POST", "/tokenize", false))
		p.routed(mode, false) // needs no body
		p.cancel()
	}
	p := r.open(duplex, duplex)
	p.send(requestBody(chat(false), true))
	require.Contains(t, p.denied().body, "request_header_mode must be SEND")
	p = r.open(duplex, duplex)
	m := requestHeaders("GET", "/version", true)
	m.ObservabilityMode = true
	p.send(m)
	require.Equal(t, codes.FailedPrecondition, status.Code(p.ended()))
	r.idle()
}

func TestMalformedSequences(t *testing.T) {
	r := newRig(t, rigConfig{})
	for name, messages := range map[string][]*extprocv3.ProcessingRequest{
		"headers twice":        {requestHeaders("GET", "/version", false), requestHeaders("GET", "/version", true)},
		"body after its end":   {requestHeaders("POST", "/tokenize", false), requestBody("{}", true), requestBody("more", true)},
		"answer headers twice": {answerHeaders("200", "a/b", false), answerHeaders("200", "a/b", true)},
		"headers after answer": {answerHeaders("200", "a/b", false), requestHeaders("GET", "/version", true)},
	} {
		p := r.open(duplex, duplex)
		for _, m := range messages {
			p.send(m)
		}
		var err error
		for err == nil {
			_, err = p.stream.Recv()
		}
		require.Equal(t, codes.InvalidArgument, status.Code(err), name)
	}
	// What means nothing passes.
	p := r.open(duplex, duplex)
	for _, m := range []*extprocv3.ProcessingRequest{
		{}, answerBody("x", false), answerTrailers(),
	} {
		p.send(m)
	}
	require.NotNil(t, p.receive().GetResponseBody())
	require.NotNil(t, p.receive().GetResponseTrailers())
	p.cancel()
	// The end, more than once.
	p = r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	p.send(requestBody("", true))
	p.routed(duplex, true)
	p.send(answerHeaders("200", "text/event-stream", false))
	p.receive()
	p.send(answerBody(firstEvent+doneEvent, true))
	p.receive()
	p.send(answerBody("", true))
	p.send(answerTrailers())
	require.NotNil(t, p.receive().GetResponseTrailers())
	r.idle()
}

func TestModelsAreRewritten(t *testing.T) {
	r := newRig(t, rigConfig{extproc: extproc.Options{
		KeepStreamOptions: true,
		Describe:          func(_ *http.Request, q *kvsteer.Request) { q.Model = "m" },
	}})
	body := `{ "model" : "nickname", "big": 9007199254740993, "messages":[]}`
	for _, mode := range []procv3.ProcessingMode_BodySendMode{duplex, buffered} {
		p := r.open(mode, none)
		p.send(requestHeaders("POST", "/v1/chat/completions", false))
		if mode == buffered {
			p.receive()
		}
		p.send(requestBody(body, true))
		require.Equal(t, strings.Replace(body, "nickname", "m", 1), p.routed(mode, true).body)
		p.cancel()
	}
	r.idle()
}
