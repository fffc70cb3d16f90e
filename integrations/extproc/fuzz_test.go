package extproc_test

import (
	"context"
	"testing"
	"time"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// message makes one message of two bytes of the fuzzer's.
func message(kind, how byte) *extprocv3.ProcessingRequest {
	end := how&1 == 1
	paths := []string{"/v1/chat/completions", "/v1/messages", "/tokenize", "/v1/models", "/nowhere", "", "*", "/v1/chat/completions?a=\x00"}
	bodies := []string{chat(true), chat(false), "", "{", chat(true)[:20], chat(true)[20:], "\x1f\x8b", `{"model":"other","messages":[]}`}
	answers := []string{firstEvent, usageEvent, doneEvent, firstEvent[:9], firstEvent[9:], "", `{"usage":{"prompt_tokens":1}}`, "\xff"}
	pick := how >> 1 & 7
	var m *extprocv3.ProcessingRequest
	switch kind % 9 {
	case 0:
		m = requestHeaders([]string{"POST", "GET"}[how>>4&1], paths[pick], end, "content-length", []string{"5", "-1", "x", "99999999999"}[how>>5&3])
	case 1:
		m = requestBody(bodies[pick], end)
	case 2:
		m = requestTrailers()
	case 3:
		m = answerHeaders([]string{"200", "503", "404", "", "x"}[how>>4%5], []string{"text/event-stream", "application/json"}[pick&1], end)
	case 4:
		m = answerBody(answers[pick], end)
	case 5:
		m = answerTrailers()
	case 6:
		m = with(requestHeaders("POST", paths[pick], end), "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", structpb.NewStringValue("192.0.2.1:80"))
	case 7:
		m = with(answerHeaders("200", "text/event-stream", end), "envoy.lb", "x-gateway-destination-endpoint-served", structpb.NewStringValue("192.0.2.1:80"))
	default:
		m = &extprocv3.ProcessingRequest{ObservabilityMode: end}
	}
	return m
}

// Whatever comes in whatever order: no panic, no 500, an end, and nothing left in flight.
func FuzzMessages(f *testing.F) {
	r := newRig(f, rigConfig{})
	f.Add(byte(4), byte(4), []byte{0, 0, 1, 1, 3, 0, 4, 0, 4, 5}) // a request and its answer
	f.Add(byte(2), byte(1), []byte{0, 0, 1, 1, 3, 0, 4, 0, 4, 5})
	f.Add(byte(4), byte(4), []byte{0, 0, 1, 0, 1, 9, 2, 0, 7, 0, 4, 0, 5, 0})
	f.Add(byte(0), byte(0), []byte{0, 5, 3, 1})
	f.Add(byte(4), byte(4), []byte{3, 0, 4, 1, 1, 1})
	f.Add(byte(4), byte(4), []byte{6, 0, 1, 1})
	f.Add(byte(9), byte(9), []byte{8, 1})
	f.Fuzz(func(t *testing.T, request, answer byte, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stream, err := extprocv3.NewExternalProcessorClient(r.conn).Process(ctx)
		require.NoError(t, err)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := 0; i+1 < len(data) && i < 40; i += 2 {
				m := message(data[i], data[i+1])
				if i == 0 && request < 6 {
					m.ProtocolConfig = &extprocv3.ProtocolConfiguration{
						RequestBodyMode: procv3.ProcessingMode_BodySendMode(request), ResponseBodyMode: procv3.ProcessingMode_BodySendMode(answer % 6),
					}
				}
				if stream.Send(m) != nil {
					return
				}
			}
			_ = stream.CloseSend()
		}()
		for {
			m, err := stream.Recv()
			if err != nil {
				switch code := status.Code(err); code {
				case codes.InvalidArgument, codes.FailedPrecondition:
				default:
					require.Equal(t, "EOF", err.Error())
				}
				break
			}
			require.NotEqual(t, 500, int(m.GetImmediateResponse().GetStatus().GetCode()))
		}
		<-sent
		require.Eventually(t, func() bool { return r.inFlight() == 0 }, wait, tick)
	})
}
