package extproc_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kvsteer/kvsteer/integrations/extproc"
)

// However an internal header is spelled, and if it comes behind the body, Envoy removes it.
func TestNoSpellingBringsAnInternalHeaderThrough(t *testing.T) {
	r := newRig(t, rigConfig{})
	p := r.open(duplex, duplex)
	spelled := []string{
		"x-kvsteer-worker", "x_kvsteer_worker", "x-kvsteer_rank", "x-data-parallel-rank", "x_data_parallel_rank",
		"x_gateway_destination_endpoint", "x-gateway-destination-endpoint-subset", "x-gateway-destination_endpoint-served",
	}
	var pairs []string
	for _, name := range spelled {
		pairs = append(pairs, name, "1", strings.ToUpper(name), "2")
	}
	p.send(requestHeaders("POST", "/v1/chat/completions", false, pairs...))
	p.send(requestBody(chat(true), false))
	trailers := requestTrailers()
	trailers.GetRequestTrailers().Trailers = headerMap(append(pairs, "x-fine", "3")...)
	p.send(trailers)
	head := p.receive().GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders()
	require.ElementsMatch(t, spelled, head)
	require.NotNil(t, p.receive().GetRequestBody())
	require.ElementsMatch(t, spelled, p.receive().GetRequestTrailers().GetHeaderMutation().GetRemoveHeaders())

	// A worker does not speak for the router either.
	answer := answerHeaders("200", "text/event-stream", false)
	answer.GetResponseHeaders().Headers = headerMap(":status", "200", "content-type", "text/event-stream",
		"x-kvsteer-budget", "none", "x_kvsteer_token_source", "caller", "x-engine", "mine")
	p.send(answer)
	require.ElementsMatch(t, []string{"x-kvsteer-budget", "x_kvsteer_token_source"},
		p.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders())
	p.send(answerBody(firstEvent+doneEvent, false))
	p.receive()
	end := answerTrailers()
	end.GetResponseTrailers().Trailers = headerMap("x-kvsteer-budget", "none", "x-cost", "7")
	p.send(end)
	require.Equal(t, []string{"x-kvsteer-budget"}, p.receive().GetResponseTrailers().GetHeaderMutation().GetRemoveHeaders())
	r.idle()
}

// Whatever a client or a worker says, Envoy is told endpoints that were registered, or none.
func TestOnlyRegisteredEndpointsAreNamed(t *testing.T) {
	r := newRig(t, rigConfig{})
	var registered []string
	for _, m := range r.fleet.Snapshot().Members() {
		registered = append(registered, m.URL().Host)
	}
	const away = "192.0.2.1:80"
	named := 0
	check := func(what string, messages ...*extprocv3.ProcessingRequest) {
		p := r.open(duplex, duplex)
		defer p.cancel()
		for _, m := range messages {
			p.send(m)
		}
		common := p.receive().GetRequestHeaders().GetResponse() // nil if it is refused
		for _, set := range common.GetHeaderMutation().GetSetHeaders() {
			value := string(set.GetHeader().GetRawValue())
			require.NotContains(t, value, away, what)
			if set.GetHeader().GetKey() != extproc.HeaderDestination {
				continue
			}
			for one := range strings.SplitSeq(value, ",") {
				_, err := netip.ParseAddrPort(one)
				require.NoError(t, err, what)
				require.Contains(t, registered, one, what)
				named++
			}
		}
	}
	for _, path := range []string{
		"/v1/chat/completions", "http://" + away + "/v1/chat/completions", "http://user@" + away + "/v1/chat/completions",
		"//" + away + "/v1/chat/completions", "/\\" + away, "*", "", away, "/v1/x?url=http://" + away, "/v1/../@" + away, "/v1/%2f%2f" + away,
	} {
		for _, method := range []string{"POST", "GET", "CONNECT", "OPTIONS"} {
			what := fmt.Sprint(method, " ", path)
			check(what, requestHeaders(method, path, false, ":authority", away, "host", away, "x-forwarded-host", away,
				":scheme", "http", ":protocol", "connect-udp", "forwarded", "host="+away, extproc.HeaderDestination, away,
				"x-envoy-original-dst-host", away, "x_gateway_destination_endpoint", away), requestBody(chat(true), true))
			check(what, requestHeaders(method, path, true, ":authority", away))
		}
	}
	for _, hint := range []*structpb.Value{
		structpb.NewStringValue(away), structpb.NewStringValue(away + "," + registered[0]), structpb.NewStringValue("w0@" + away),
		structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(away), structpb.NewStringValue(registered[0])}}),
		structpb.NewNumberValue(7), structpb.NewNullValue(),
	} {
		check(hint.String(), with(requestHeaders("POST", "/v1/chat/completions", false), "envoy.lb.subset_hint",
			"x-gateway-destination-endpoint-subset", hint), requestBody(chat(true), true))
	}
	require.Positive(t, named)
	require.False(t, slices.Contains(registered, away))
	r.idle()
}
