package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streamEvents are a beginning and a delta, as a service sends them.
func streamEvents(service string) (begin, delta []byte) {
	if service == chatName {
		return []byte(chunk(`{"role":"assistant","content":""}`)),
			[]byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"served","system_fingerprint":"fp_1",` +
				`"choices":[{"index":0,"delta":{"content":" \"token\"\n"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n")
	}
	return []byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"),
		[]byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" \\\"token\\\"\\n\"}}\n\n")
}

// BenchmarkStreamEvent is what one token costs that is translated as it streams by. The goal
// is 20 µs; budgets of allocations are in TestStreamAllocations.
func BenchmarkStreamEvent(b *testing.B) {
	for _, toMessages := range []bool{false, true} {
		client, service, _ := direction(toMessages)
		b.Run(service.Name()+" to "+client.Name(), func(b *testing.B) {
			begin, delta := streamEvents(service.Name())
			s := streamExchange(b, client, service).NewStream(nil)
			out, err := s.Feed(nil, begin)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if out, err = s.Feed(out[:0], delta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, toMessages := range []bool{false, true} {
		client, service, _ := direction(toMessages)
		b.Run(client.Name()+" to "+service.Name(), func(b *testing.B) {
			var body string
			for _, c := range readCorpus(b) {
				if c.name == client.Name()+"-tool-results" {
					body, _ = c.get("client request")
				}
			}
			require.NotEmpty(b, body)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewExchange(client, service, []byte(body), Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStreamAllocations: a token's text is copied once, and an event's fields are found with
// one allocation more.
func TestStreamAllocations(t *testing.T) {
	for _, toMessages := range []bool{false, true} {
		client, service, _ := direction(toMessages)
		begin, delta := streamEvents(service.Name())
		s := streamExchange(t, client, service).NewStream(nil)
		out, err := s.Feed(make([]byte, 0, 4096), begin)
		require.NoError(t, err)
		allocs := testing.AllocsPerRun(100, func() {
			out, err = s.Feed(out[:0], delta)
		})
		require.NoError(t, err)
		assert.LessOrEqual(t, allocs, 3.0, service.Name())
	}
}
